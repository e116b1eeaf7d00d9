"""Which pods would leave a node so that a pod that waits for GPUs fits there."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from desched.model.cache import cached
from desched.model.checkpoints import checkpoints
from desched.model.cluster import Pod, Workload
from desched.model.plan import NodeClass
from desched.model.resources import Amounts
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.kube_scheduler.filters.resources import named
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.overload.classification import Pressure
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.selection.candidates import Candidate, candidate_of
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.load import GpuLoad
from desched.plugins.gpus.set_cover import cheapest_cover
from desched.plugins.gpus.whole_gpus import WholeGpus, nodes_with_gpus

MOST_FOR_LOST_WORK = 3.0
"""A pod that has run for a day or longer without checkpoints costs as much as three more moves."""

_DAY_HOURS = 24.0


class Vacancy(msgspec.Struct, frozen=True):
    """A node with the pods that leave it so that a pod fits there; some perhaps in a later cycle.

    `later` has the uids of those that only moves of their workloads under way keep.
    """

    node: str
    leaving: tuple[Candidate, ...]
    later: frozenset[str] = frozenset()

    @property
    def cost(self) -> float:
        """The cost of all moves."""
        return math.fsum(candidate.cost for candidate in self.leaving)


class Movable(msgspec.Struct, frozen=True):
    """The pods of a node that may leave it, now or `later`, and why each of the others stays."""

    candidates: tuple[Candidate, ...]
    later: frozenset[str]
    staying: Mapping[str, str]


class Vacancies:
    """Finds what would leave each node, for the fewest and cheapest moves."""

    def __init__(self, eligibility: Eligibility, pressure: Pressure) -> None:
        self._eligibility = eligibility
        self._context = eligibility.context
        self._pressure = pressure

    def on(self, node: str, pod: Pod, priority: int, free: FreeCapacity) -> Vacancy | str:
        """What would leave the node for this pod, or why that is not enough.

        Only pods of at most this priority leave. `free` is the state after earlier moves. Filters
        that depend on other pods are not asked; see `FreeCapacity.vacated`.
        """
        gone = frozenset(change.pod.uid for change in free.changes if change.sign < 0)
        here = gone & self._uids_on(node)
        return self._found(
            node, pod.scheduling.requests, priority, tuple(free.free_on(node).items()), here
        )

    @cached
    def _found(
        self,
        node: str,
        requests: Amounts,
        priority: int,
        free: tuple[tuple[str, int], ...],
        gone: frozenset[str],
    ) -> Vacancy | str:
        """The vacancy by requests; the pods with the uids in `gone` have left before."""
        free_by_name = dict(free)
        wanted = (
            (name, count - free_by_name.get(name, 0))
            for name, count in named(requests).items()
            if count
        )
        lacking = {name: missing for name, missing in wanted if missing > 0}
        if not lacking:
            return Vacancy(node, ())
        movable = self.movable(node)
        pods = [
            c for c in movable.candidates if c.pod.uid not in gone and c.pod.priority <= priority
        ]
        pods = [pod for pod in pods if not lacking.keys().isdisjoint(_requested(pod.pod))]
        held = [named(pod.pod.scheduling.requests) for pod in pods]
        shares = np.array([[has.get(name, 0) / lacking[name] for name in lacking] for has in held])
        costs = np.array([pod.cost for pod in pods])
        chosen = cheapest_cover(shares, costs) if pods else None
        if chosen is None:
            return self._why_not(node, lacking, priority)
        leaving = sorted(
            (pods[i] for i in chosen), key=lambda candidate: (_size(candidate), candidate.pod.ref)
        )
        return Vacancy(
            node, tuple(leaving), movable.later & {candidate.pod.uid for candidate in leaving}
        )

    def _why_not(self, node: str, names: Iterable[str], priority: int) -> str:
        """Why the pods that may leave are not enough: the first that stays and has what lacks."""
        movable, names = self.movable(node), set(names)
        for pod in self._pods_on(node):
            if names.intersection(_requested(pod)):
                if reason := movable.staying.get(pod.uid):
                    return f"{node}: {pod.ref} stays: {reason}"
                if pod.priority > priority and not pod.finished:
                    return f"{node}: {pod.ref} stays: its priority {pod.priority} is higher"
        return f"{node}: too little {', '.join(sorted(names))}"

    @cached
    def _pods_on(self, node: str) -> Sequence[Pod]:
        pods = self._context.cluster.pods_by_node.get(node, ())
        return sorted(pods, key=lambda pod: pod.ref)

    @cached
    def _uids_on(self, node: str) -> frozenset[str]:
        return frozenset(pod.uid for pod in self._pods_on(node))

    @cached
    def movable(self, node: str) -> Movable:
        """The pods of the node that may leave it for another purpose than relief."""
        eligibility = self._eligibility
        candidates: list[Candidate] = []
        later: set[str] = set()
        staying: dict[str, str] = {}
        for pod in self._pods_on(node):
            if pod.finished:
                continue
            finding = eligibility.refuse(pod)
            if finding is not None and eligibility.waits_for_moves(pod):
                later.add(pod.uid)
            elif finding is not None:
                staying[pod.uid] = finding.reason.value
                continue
            elif self._is_paused(pod):
                staying[pod.uid] = "its workload or its pool is paused"
                continue
            candidates.append(self._candidate(pod))
        return Movable(tuple(candidates), frozenset(later), staying)

    def _candidate(self, pod: Pod) -> Candidate:
        candidate = candidate_of(pod, self._context, self._pressure.outlook.pasts)
        lost = lost_work(pod, self._context.cluster.workload_of(pod), self._context.now)
        return replace(candidate, cost=candidate.cost + lost)

    def _is_paused(self, pod: Pod) -> bool:
        """Whether any pause has the pod, also one whose time is over: a drain is no probe."""
        pool = self._pressure.known[pod.node].verdict.pool
        workload = self._eligibility.workload(pod)
        return any(pause.covers(workload, pool) for pause in self._context.state.pauses)

    @cached_property
    def nodes(self) -> frozenset[str]:
        """The nodes that may be drained: with known load, in scope, and with whole GPUs only."""
        context, judged = self._context, self._pressure.known
        arrays = NodeArrays(nodes_with_gpus(context.cluster))
        gpus = WholeGpus(
            context.cluster, arrays, GpuLoad.of(context.book.snapshot.load.extras).nodes
        )
        names = (arrays.names[i] for i in np.flatnonzero(gpus.counted & (gpus.total > 0)))
        overloaded = NodeClass.OVERLOADED
        return frozenset(
            name
            for name in names
            if name in judged and judged[name].verdict.node_class is not overloaded
        )


def _requested(pod: Pod) -> Iterator[str]:
    """The resources that the pod requests."""
    return (name for name, count in named(pod.scheduling.requests).items() if count)


def _size(candidate: Candidate) -> tuple[int, int, int]:
    """The largest first, while there is still room for it elsewhere."""
    requests = candidate.pod.scheduling.requests
    return -whole_gpus(requests), -requests.cpu_millicores, -requests.memory_bytes


def lost_work(pod: Pod, workload: Workload | None, now: datetime) -> float:
    """The surcharge for the work that a pod with GPUs loses: the longer it has run, the more."""
    if not whole_gpus(pod.scheduling.requests) or checkpoints(pod, workload):
        return 0.0
    hours = max(0.0, (now - (pod.started_at or pod.created_at)).total_seconds() / 3600)
    share = math.log2(1 + min(hours, _DAY_HOURS)) / math.log2(1 + _DAY_HOURS)
    return MOST_FOR_LOST_WORK * share
