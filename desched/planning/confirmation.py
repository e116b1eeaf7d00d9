"""The second look, just before acting: the same rules on freshly read state."""

from datetime import datetime, timedelta

from desched.model.plan import Finding, PlannedEviction, RefusalReason
from desched.model.snapshot import FreshLook
from desched.planning.eligibility.context import EligibilityContext, Refused
from desched.planning.eligibility.rules import refuse
from desched.planning.overload.scope import out_of_scope

LONGEST_LOAD_AGE = timedelta(minutes=5)
"""Of long windows; a short one is over sooner, and then says nothing about the present."""


def reconsider(
    eviction: PlannedEviction, look: FreshLook | None, context: EligibilityContext, now: datetime
) -> Refused:
    """Why the eviction is no longer right, None if it still is.

    Args:
        eviction: as planned.
        look: the pod of that name with its surroundings as read just now, None if it is gone.
        context: what the plan was made on.
        now: the time of the look.
    """
    if look is None:
        return Finding(RefusalReason.CONFIRMATION_FAILED, "the pod is gone")
    if look.pod.uid != eviction.pod.uid:
        return Finding(RefusalReason.CONFIRMATION_FAILED, "another pod has its name now")
    if look.pod.node != eviction.node:
        return Finding(RefusalReason.CONFIRMATION_FAILED, f"it is on node {look.pod.node!r} now")
    return (
        _load_too_old(context, now)
        or _node_left_alone(look, context, now)
        or refuse(look.pod, context.with_fresh(look, now))
    )


def _load_too_old(context: EligibilityContext, now: datetime) -> Refused:
    """A load is believed for as long as its shortest window, and for five minutes at most."""
    shortest = timedelta(seconds=context.policy.shortest_window_seconds) or LONGEST_LOAD_AGE
    longest = min(shortest, LONGEST_LOAD_AGE)
    age = abs(now - context.now)  # a clock that was set back tells no age at all
    if age <= longest:
        return None
    detail = f"{age.total_seconds():.0f} s old, at most {longest.total_seconds():.0f} s"
    return Finding(RefusalReason.LOAD_TOO_OLD, detail)


def _node_left_alone(look: FreshLook, context: EligibilityContext, now: datetime) -> Refused:
    """The node is gone, is being removed, is under the kubelet's own pressure, or the like."""
    if look.node is None:
        return Finding(RefusalReason.CONFIRMATION_FAILED, f"node {look.pod.node} is gone")
    finding = out_of_scope(look.node, context.policy, now)
    if finding is None:
        return None
    said = f" ({finding.detail})" if finding.detail else ""
    return Finding(
        RefusalReason.CONFIRMATION_FAILED,
        f"node {look.node.name} is {finding.reason.value} now{said}",
    )
