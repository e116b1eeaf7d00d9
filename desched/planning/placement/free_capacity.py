"""What is free on the nodes after the moves of the plan so far, and where a pod fits.

Filters that depend on nodes only are computed once for each scheduling class; requests, other pods
and projected load change with each reservation.
"""

import copy
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

import numpy as np

from desched.model.cluster import Pod, owners_of
from desched.model.plan import Unreserved
from desched.model.resources import Amounts, Resource
from desched.planning.arrays import Floats, Ints, Mask, Positions
from desched.planning.deadline import PlanningTime
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.filters.chain import FilterChain
from desched.planning.kube_scheduler.filters.resources import FreeRequests
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodChange, PodIndex
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.outlook import Outlook
from desched.planning.placement.fit import IS_SOURCE, Fit
from desched.planning.placement.pending_pods import WaitingPods
from desched.planning.placement.placement_limits import PlacementLimits
from desched.planning.placement.projected_load import NO_LIMITS, ProjectedLoad


class FreeCapacity:
    """Free requests and projected load of every node, in the order of `names`."""

    may_return: ClassVar[bool] = False
    """Whether a pod may go to the node that it has left."""

    def __init__(
        self,
        filters: FilterChain,
        load: ProjectedLoad,
        limits: PlacementLimits,
        deadline: PlanningTime,
        waiting: WaitingPods | None = None,
    ) -> None:
        self._filters = filters
        self.load = load
        self.limits = limits
        self.deadline = deadline
        self.arrays = filters.index.arrays
        self.names = self.arrays.names
        self._waiting = waiting or WaitingPods()
        self.unreserved: tuple[Unreserved, ...] = ()

    @classmethod
    def of(
        cls,
        context: EligibilityContext,
        destinations: Mapping[str, LoadedNode],
        resources: Collection[Resource],
        outlook: Outlook,
    ) -> "FreeCapacity":
        """The free capacity of a cluster before all reservations."""
        owners = owners_of(context.cluster.namespaces, context.policy.follow_up.pause_owner_label)
        arrays = NodeArrays(context.cluster.nodes, owners)
        filters = FilterChain(context.cluster, arrays, context.deadline)
        load = ProjectedLoad(arrays, destinations, resources, outlook)
        return cls(filters, load, PlacementLimits.of(context, arrays), context.deadline)

    def copy(self) -> "FreeCapacity":
        """An independent copy; it shares what never changes."""
        copied: FreeCapacity = copy.copy(self)
        copied._filters, copied.load = self._filters.copy(), self.load.copy()
        return copied

    def within(self, limits: PlacementLimits) -> "FreeCapacity":
        """Return a copy with other limits."""
        free: FreeCapacity = copy.copy(self)
        free.limits = limits
        return free

    @property
    def index(self) -> PodIndex:
        """The pods of the snapshot."""
        return self._filters.index

    @property
    def changes(self) -> tuple[PodChange, ...]:
        """The pods that reservations put on nodes and took off them, in this order."""
        return self._filters.pod_changes.changes

    @property
    def requests(self) -> FreeRequests:
        """What is free by requests. Do not modify."""
        return self._filters.requests

    @property
    def allocatable(self) -> Ints:
        """The allocatable amounts of each node, shape (basic resources, nodes)."""
        return self._filters.requests.allocatable

    @property
    def room(self) -> Ints:
        """What is free by requests and under ceilings in the cluster, in the order of `basic`."""
        room_of: Ints = np.maximum(self._filters.requests.free[:4], 0).sum(axis=1)
        for row, resource in enumerate((Resource.CPU, Resource.MEMORY)):
            if resource in self.load.ratios:
                room_of[row] = min(room_of[row], self.load.under_ceilings(resource))
        return room_of

    def reserve(
        self, node: str, pod: Pod, usage: Mapping[Resource, float], leaving: Pod | None = None
    ) -> None:
        """Put a pod on a node.

        Args:
            node: the name of the node.
            pod: a pod with the same requests and labels; its own node does not matter.
            usage: the expected usage of each watched resource.
            leaving: the pod that it replaces, which leaves its node.
        """
        if leaving is not None:
            self._filters.remove(leaving, self.arrays.index[leaving.node])
        self._filters.add(pod, self.arrays.index[node])
        self.load.add_pod(node, usage, pod)

    def vacated(self, pods: Iterable[Pod]) -> "FreeCapacity":
        """A copy for the scheduler's filters, once these pods have left their nodes.

        The load is not that of the nodes without them.
        """
        free: FreeCapacity = self.copy()
        for pod in pods:
            free._filters.remove(pod, self.arrays.index[pod.node])
        return free

    def expecting(self, pods: Iterable[Pod]) -> "FreeCapacity":
        """A copy in which no room is awaited for these pods and those like them."""
        free: FreeCapacity = self.copy()
        free._waiting = self._waiting.without(pods)
        return free

    def place_of(self, pending: Pod) -> str | None:
        """Return the node that has room reserved for a pending pod, or None."""
        added = (
            change for change in self.changes if change.sign > 0 and change.pod.uid == pending.uid
        )
        place = next(added, None)
        return None if place is None else self.names[place.position]

    def free_on(self, node: str) -> dict[str, int]:
        """What is free by requests on the node, by the name of the resource."""
        return self._filters.requests.free_at(self.arrays.index[node])

    def admitting(self, pod: Pod) -> Mask:
        """The nodes that admit the pod, whatever is free on them. Do not modify."""
        return self._filters.admitting(pod)

    def await_room(self, pod: Pod) -> None:
        """Add a pending pod that fits on no node now."""
        self._waiting.add(pod)

    def successor(self, leaving: Pod) -> Pod | None:
        """Return a pending pod that would take the room that this pod leaves, or None."""
        if not self._waiting:
            return None
        position = self.arrays.index[leaving.node]
        freed = self._before_leaving(leaving).copy()
        freed.remove(leaving, position)
        free = freed.requests.free[:, position]
        fitting = self._waiting.fitting(position, freed.admits, free)
        for pod in fitting:
            with self.arrays.comparisons.of(pod.namespace):
                if freed.passing(pod)[position] and not self.arrays.comparisons.share_is_used:
                    return pod
        return None

    def schedulable(self, pod: Pod) -> Mask:
        """The nodes on which a pending pod passes the filters."""
        return self._filters.passing(pod)

    def feasible(self, pod: Pod, source: str) -> Mask:
        """The nodes, perhaps the source, on which the replacement passes once the pod is gone."""
        return self._before_leaving(pod).passing_again(pod, self.arrays.index[source])[0]

    def feasible_beside(self, pod: Pod, source: str) -> Mask:
        """The nodes on which the replacement passes while the pod is being deleted."""
        return self._filters.passing_beside(pod, self.arrays.index[source])

    def fit(
        self,
        pod: Pod,
        source: str,
        usage: Mapping[Resource, float],
        at_most: Mapping[Resource, float] = NO_LIMITS,
    ) -> Fit:
        """The nodes that could take the pod, see `Fit`.

        `usage` has the pod's usage of each watched resource, in the resource's own unit. Nodes may
        be filled up to `at_most` where that is above their ceiling.
        """
        position, filters = self.arrays.index[source], self._before_leaving(pod)
        passing, verdicts = filters.passing_again(pod, position)
        requests = passing.copy()
        requests[position] &= self.may_return
        limited, inside = [], requests
        for limit in self.limits.each:
            inside = inside & ~limit.outside(pod)
            limited.append((limit, inside))
        destinations = inside & self.load.is_destination
        under, loads = self.load.under_ceiling(usage, destinations, at_most)
        fit = Fit(requests, tuple(limited), destinations, under, loads)
        if np.count_nonzero(under):
            return fit
        excluded = Counter(filters.excluded(pod, position, verdicts))
        excluded[IS_SOURCE] += bool(passing[position] and not requests[position])
        return fit.explained(excluded)

    def exclusions(self, pod: Pod, source: str, fit: Fit) -> Counter[str]:
        """Count the nodes that could not take the pod by reason; a node may lack several things."""
        position = self.arrays.index[source]
        requests, verdicts = self._filters.passing_again(pod, position)
        counts = Counter(self._filters.excluded(pod, position, verdicts))
        counts[IS_SOURCE] += bool(requests[position])
        return counts + fit.exclusions

    def shortage(self, pod: Pod, usage: Mapping[Resource, float]) -> tuple[Ints, Mask]:
        """Return what each node lacks for the pod, shape (basic resources, nodes).

        The mask has the destinations that would take it once they have that, by the filters that
        depend on nodes only, and by their ceilings.
        """
        lacking, admitting = self._filters.shortage(pod)
        admitting &= self.load.is_destination & ~self.limits.outside(pod)
        return lacking, self.load.under_ceiling(usage, admitting)[0]

    def requested_share(self, requests: Amounts, nodes: Positions) -> Floats:
        """The requested share of each node with the pod, as the mean of CPU and memory."""
        rows = self._filters.requests
        allocatable = rows.allocatable[:2, nodes]  # rows 0 and 1 are CPU and memory
        requested = allocatable - rows.free[:2, nodes]
        own = np.array([[requests.cpu_millicores], [requests.memory_bytes]], dtype=np.int64)
        cpu, memory = (requested + own) / np.maximum(allocatable, 1)
        share: Floats = (cpu + memory) / 2
        return share

    def _before_leaving(self, _: Pod) -> FilterChain:
        """The filters with the pod still on its node. Do not modify."""
        return self._filters
