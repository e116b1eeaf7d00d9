"""The allowed difference between desched's clock and the clocks of the servers.

Times of pods and nodes come from the API server, times of evictions from desched. If the clocks
differ, these times cannot be compared.
"""

from datetime import datetime, timedelta

from desched.model.snapshot import Snapshot

STAMP_SECONDS = 1.0
"""The API server truncates its times to whole seconds."""

CLUSTER_TOLERANCE_SECONDS = 5.0
"""Clocks that are synchronized over the network differ by far less."""

LOAD_TOLERANCE_SECONDS = 60.0
"""The tolerance for Prometheus: windows are several minutes long, so a minute does little harm."""

SEEMS_EARLIER = timedelta(seconds=CLUSTER_TOLERANCE_SECONDS + 2 * STAMP_SECONDS)
"""A later event of the API server may seem this much earlier than an event of desched."""


def lead_seconds(
    server_times: tuple[datetime, datetime] | None, requested_at: datetime, answered_at: datetime
) -> float:
    """By how much desched's clock is at least ahead of a server's, negative if it is behind.

    Args:
        server_times: the server's clock at its earliest and its latest answer, None if not known.
        requested_at: desched's clock before the first request.
        answered_at: desched's clock after the last answer.
    """
    if server_times is None:
        return 0.0
    earliest, latest = server_times
    ahead = (requested_at - earliest).total_seconds() - STAMP_SECONDS
    behind = (latest - answered_at).total_seconds()
    return max(ahead, 0.0) or min(-behind, 0.0)


def clocks_differ(snapshot: Snapshot) -> str:
    """Describe the first clock that differs by too much; empty if none does."""
    for lead, tolerance, whose in (
        (snapshot.cluster_lead_seconds, CLUSTER_TOLERANCE_SECONDS, "the API server's"),
        (snapshot.load_lead_seconds, LOAD_TOLERANCE_SECONDS, "Prometheus'"),
    ):
        if abs(lead) > tolerance:
            direction = "ahead of" if lead > 0 else "behind"
            return f"desched's clock is {abs(lead):.0f} s {direction} {whose}"
    return ""
