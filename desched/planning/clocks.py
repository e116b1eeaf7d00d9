"""How far desched's clock may be from those of the servers that it compares times with.

Pods and nodes are as old as the API server says, and evictions as old as desched says: what is
younger than what cannot be told by clocks that differ.
"""

from datetime import datetime, timedelta

from desched.model.snapshot import Snapshot

STAMP_SECONDS = 1.0
"""The API server's times are whole seconds, cut off."""

CLUSTER_TOLERANCE_SECONDS = 5.0
"""Clocks that are set over the network differ by far less than that."""

LOAD_TOLERANCE_SECONDS = 60.0
"""Of the clock by which load is evaluated: a minute in windows of several does little harm."""

SEEMS_EARLIER = timedelta(seconds=CLUSTER_TOLERANCE_SECONDS + 2 * STAMP_SECONDS)
"""What comes later by the API server's clock may seem this much earlier by desched's."""


def lead_seconds(
    told: tuple[datetime, datetime] | None, asked_at: datetime, answered_at: datetime
) -> float:
    """By how much our clock is certainly ahead of a server's, negative if it is behind.

    Args:
        told: the server's clock at its earliest and its latest answer, None if that is not known.
        asked_at: our clock before the first question.
        answered_at: our clock after the last answer.
    """
    if told is None:
        return 0.0
    earliest, latest = told
    ahead = (asked_at - earliest).total_seconds() - STAMP_SECONDS
    behind = (latest - answered_at).total_seconds()
    return max(ahead, 0.0) or min(-behind, 0.0)


def clocks_differ(snapshot: Snapshot) -> str:
    """Which clocks differ by too much, in words; empty if none do."""
    for lead, tolerance, whose in (
        (snapshot.cluster_lead_seconds, CLUSTER_TOLERANCE_SECONDS, "the API server's"),
        (snapshot.load_lead_seconds, LOAD_TOLERANCE_SECONDS, "Prometheus'"),
    ):
        if abs(lead) > tolerance:
            direction = "ahead of" if lead > 0 else "behind"
            return f"desched's clock is {abs(lead):.0f} s {direction} {whose}"
    return ""
