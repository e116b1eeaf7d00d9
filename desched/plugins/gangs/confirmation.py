"""Confirmation of a gang that leaves whole: all its pods may, on freshly read objects."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from desched.model.cluster import PodDisruptionBudget, PodRef
from desched.model.plan import Finding, PlannedEviction, RefusalReason
from desched.model.snapshot import FreshPod, Room
from desched.planning.confirmation import GONE, changed, node_out_of_scope
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.terms import Refused
from desched.planning.kube_scheduler.filters.resources import FreeRequests
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodIndex
from desched.plugins.gangs.whole_gangs import WholeGang, WholeGangs


class RefusedMember(NamedTuple):
    """The eviction of a gang that is refused now, so that the whole gang stays."""

    eviction: PlannedEviction
    finding: Finding[RefusalReason]


def reconsider_gang(
    evictions: Sequence[PlannedEviction],
    looks: Sequence[FreshPod | None],
    context: EligibilityContext,
    now: datetime,
) -> RefusedMember | None:
    """Return the first member that must not leave now, None if the gang may leave as a whole.

    The arguments are as for `reconsider`, for all members in the same order.
    """
    seen: list[tuple[PlannedEviction, FreshPod]] = []
    for eviction, look in zip(evictions, looks, strict=True):
        finding = GONE if look is None else changed(eviction, look, context, now)
        if finding is not None:
            return RefusedMember(eviction, finding)
        if look is not None:
            seen.append((eviction, look))
    fresh = context.with_fresh([look for _, look in seen], now)
    members = frozenset(eviction.pod for eviction in evictions)
    gangs = WholeGangs(fresh)
    room = _Room(context, now, frozenset(pod.uid for pod in members))
    charged = Counter[PodDisruptionBudget]()
    for eviction, look in seen:
        charged.update(fresh.cluster.budgets_of(look.pod))
        finding = (
            _gang_changed(gangs.of(look.pod), eviction, members)
            or _budget_exceeded(charged)
            or room.taken(eviction.expected_node, look)
        )
        if finding is not None:
            return RefusedMember(eviction, finding)
    return None


def _gang_changed(
    gang: WholeGang | str, eviction: PlannedEviction, members: frozenset[PodRef]
) -> Refused:
    """Why the gang of the pod is not the planned one any more."""
    if isinstance(gang, str):
        return Finding(RefusalReason.POD_GROUP, f"{eviction.gang}: {gang}")
    if str(gang) != eviction.gang:
        return Finding(RefusalReason.POD_GROUP, f"it is in {gang} now")
    other = members.symmetric_difference(member.ref for member in gang.members)
    if not other:
        return None
    return Finding(RefusalReason.POD_GROUP, f"{gang}: {min(other)} has come or gone")


def _budget_exceeded(charged: Mapping[PodDisruptionBudget, int]) -> Refused:
    """The budget that the pods together exceed; the dry run of an eviction sees only one pod."""
    for budget, count in charged.items():
        if count > budget.disruptions_allowed:
            detail = f"{budget} allows {budget.disruptions_allowed} disruptions"
            return Finding(RefusalReason.BUDGET_EXHAUSTED, detail)
    return None


class _Room:
    """The room on nodes as read just now, for pods that come one after the other.

    The pods with the uids in `leaving` leave before the first comes.
    """

    def __init__(self, context: EligibilityContext, now: datetime, leaving: frozenset[str]) -> None:
        self._context = context
        self._now = now
        self._leaving = leaving
        self._free: dict[str, FreeRequests] = {}

    def taken(self, name: str, look: FreshPod) -> Refused:
        """Why the node has no room for the pod any more; else the pod takes it."""
        room, context = look.room, self._context
        out_of_scope = node_out_of_scope(room.node if room else None, name, context, self._now)
        if room is None or out_of_scope is not None:
            return out_of_scope
        requests = look.pod.scheduling.requests
        # What a VerticalPodAutoscaler recommends is in the plan's workload alone.
        for workload in (look.workload, context.cluster.workload_of(look.pod)):
            if workload is not None and workload.template_requests is not None:
                requests = requests.raised_to(workload.template_requests)
        if name not in self._free:
            self._free[name] = self._free_on(room)
        free = self._free[name]
        lacking = free.lacking_at(0, requests)
        if not lacking:
            free.change(0, requests, -1)
            return None
        detail = f"others took the room on {name}: {', '.join(lacking)}"
        return Finding(RefusalReason.CONFIRMATION_FAILED, detail)

    def _free_on(self, room: Room) -> FreeRequests:
        pods = tuple(pod for pod in room.pods if pod.uid not in self._leaving)
        cluster = replace(self._context.cluster, nodes=(room.node,), pods=pods)
        arrays = NodeArrays(cluster.nodes)
        return FreeRequests(arrays, PodIndex(cluster, arrays))
