"""Confirmation, just before an eviction: the same rules on freshly read objects."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from desched.model.cluster import Node
from desched.model.plan import Finding, PlannedEviction, RefusalReason
from desched.model.snapshot import FreshLook
from desched.planning.eligibility.context import EligibilityContext, Refused
from desched.planning.eligibility.rules import refuse
from desched.planning.kube_scheduler.filters.resources import FreeRequests
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodIndex
from desched.planning.overload.scope import out_of_scope

LONGEST_LOAD_AGE = timedelta(minutes=5)
"""The maximum age of measurements; if the shortest window is shorter, it is the maximum."""


def reconsider(
    eviction: PlannedEviction, look: FreshLook | None, context: EligibilityContext, now: datetime
) -> Refused:
    """Return why the eviction is refused now, None if it is confirmed.

    Args:
        eviction: the planned eviction.
        look: the pod of this name and its related objects as read just now, None if it is gone.
        context: the context of the plan.
        now: the time of the fresh look.
    """
    if look is None:
        return Finding(RefusalReason.CONFIRMATION_FAILED, "the pod is gone")
    if look.pod.uid != eviction.pod.uid:
        return Finding(RefusalReason.CONFIRMATION_FAILED, "another pod has its name now")
    if look.pod.node != eviction.node:
        return Finding(RefusalReason.CONFIRMATION_FAILED, f"it is on node {look.pod.node!r} now")
    return (
        _load_too_old(context, now)
        or _node_out_of_scope(look.node, eviction.node, context, now)
        or refuse(look.pod, context.with_fresh(look, now))
        or _room_taken(eviction, look, context, now)
    )


def _load_too_old(context: EligibilityContext, now: datetime) -> Refused:
    shortest = timedelta(seconds=context.policy.shortest_window_seconds) or LONGEST_LOAD_AGE
    longest = min(shortest, LONGEST_LOAD_AGE)
    age = abs(now - context.now)  # a clock that was set back makes the age negative
    if age <= longest:
        return None
    detail = f"{age.total_seconds():.0f} s old, at most {longest.total_seconds():.0f} s"
    return Finding(RefusalReason.LOAD_TOO_OLD, detail)


def _node_out_of_scope(
    node: Node | None, name: str, context: EligibilityContext, now: datetime
) -> Refused:
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


def _room_taken(
    eviction: PlannedEviction, look: FreshLook, context: EligibilityContext, now: datetime
) -> Refused:
    """Why the room that an earlier move made is not free any more."""
    if not eviction.room_on:
        return None
    room = look.room
    node = room.node if room else None
    found = _node_out_of_scope(node, eviction.room_on, context, now)
    if room is None or found is not None:
        return found
    requests = look.pod.scheduling.requests
    # What a VerticalPodAutoscaler recommends is in the plan's workload alone.
    for workload in (look.workload, context.cluster.workload_of(look.pod)):
        if workload is not None and workload.template_requests is not None:
            requests = requests.raised_to(workload.template_requests)
    cluster = replace(context.cluster, nodes=(room.node,), pods=room.pods)
    arrays = NodeArrays(cluster.nodes)
    lacking = FreeRequests(arrays, PodIndex(cluster, arrays)).lacking_at(0, requests)
    if not lacking:
        return None
    detail = f"others took the room on {eviction.room_on}: {', '.join(lacking)}"
    return Finding(RefusalReason.CONFIRMATION_FAILED, detail)
