"""Confirmation, just before an eviction: the same rules on freshly read objects."""

from datetime import datetime, timedelta

from desched.model.cluster import Node
from desched.model.plan import Finding, PlannedEviction, RefusalReason
from desched.model.snapshot import FreshPod
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import refuse
from desched.planning.eligibility.terms import Refused
from desched.planning.overload.scope import out_of_scope

LONGEST_LOAD_AGE = timedelta(minutes=5)
"""The maximum age of measurements; if the shortest window is shorter, it is the maximum."""


def reconsider(
    eviction: PlannedEviction, look: FreshPod | None, context: EligibilityContext, now: datetime
) -> Refused:
    """Return why the eviction is refused now, None if it is confirmed.

    Args:
        eviction: the planned eviction.
        look: the pod of this name and its related objects as read just now, None if it is gone.
        context: the context of the plan.
        now: the time of the fresh look.
    """
    if look is None:
        return GONE
    context = context.without_rules(eviction.waived)
    if finding := changed(eviction, look, context, now):
        return finding
    return refuse(look.pod, context.with_fresh([look], now))


GONE = Finding(RefusalReason.CONFIRMATION_FAILED, "the pod is gone")


def changed(
    eviction: PlannedEviction, look: FreshPod, context: EligibilityContext, now: datetime
) -> Refused:
    """Why the pod is not the planned one any more, or the plan is too old."""
    if look.too_large:
        return Finding(RefusalReason.OBJECTS_TOO_LARGE, look.too_large)
    if look.pod.uid != eviction.pod.uid:
        return Finding(RefusalReason.CONFIRMATION_FAILED, "another pod has its name now")
    if look.pod.node != eviction.node:
        return Finding(RefusalReason.CONFIRMATION_FAILED, f"it is on node {look.pod.node!r} now")
    return _load_too_old(context, now) or node_out_of_scope(look.node, eviction.node, context, now)


def _load_too_old(context: EligibilityContext, now: datetime) -> Refused:
    shortest = timedelta(seconds=context.policy.shortest_window_seconds) or LONGEST_LOAD_AGE
    longest = min(shortest, LONGEST_LOAD_AGE)
    age = abs(now - context.now)  # a clock that was set back makes the age negative
    if age <= longest:
        return None
    detail = f"{age.total_seconds():.0f} s old, at most {longest.total_seconds():.0f} s"
    return Finding(RefusalReason.LOAD_TOO_OLD, detail)


def node_out_of_scope(
    node: Node | None, name: str, context: EligibilityContext, now: datetime
) -> Refused:
    """Why the node of this name, as read just now, neither loses nor receives a pod."""
    if node is None:
        return Finding(RefusalReason.CONFIRMATION_FAILED, f"node {name} is gone")
    finding = out_of_scope(node, context.policy, now)
    if finding is None:
        return None
    detail = f" ({finding.detail})" if finding.detail else ""
    return Finding(
        RefusalReason.CONFIRMATION_FAILED,
        f"node {node.name} is {finding.reason.value} now{detail}",
    )
