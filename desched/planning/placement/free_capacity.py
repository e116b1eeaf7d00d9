"""The nodes on which a pod fits: by the scheduler's filters, and by projected load.

Arrays have one value for each node, in the order of names. Filters that depend on nodes only are
computed once for each scheduling class; requests, other pods and projected load change with each
reservation.
"""

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np

from desched.model.cluster import ClusterState, Pod
from desched.model.plan import Unreserved
from desched.model.resources import Amounts, Resource
from desched.model.text import count_of_nodes
from desched.planning.arrays import Floats, Ints, Mask, Positions
from desched.planning.deadline import PlanningTime
from desched.planning.kube_scheduler.filters.chain import FilterChain
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import Change, PodIndex
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.domains import PlacementLimits
from desched.planning.placement.pending_pods import WaitingPods

__all__ = ["NO_LIMITS", "Fit", "FreeCapacity", "Mask", "Member"]

IS_SOURCE = "node(s) is the one to be relieved"
NO_DESTINATION = "node(s) are no destination"
OUTSIDE_DOMAIN = "node(s) are outside its placement domain"
WITHOUT_MODEL = "node(s) do not hold its model"
GPUS_UNKNOWN = "node(s) have GPUs of unknown load"
ABOVE_CEILING = "node(s) would rise above their ceiling"

NO_LIMITS: Mapping[Resource, float] = MappingProxyType({})

_EPSILON = 1e-9


class Member(NamedTuple):
    """A pod of a gang that leaves whole.

    `least` is the lowest usage that its node is known to lose, `charge` the usage that a
    destination is charged.
    """

    pod: Pod
    least: Mapping[Resource, float]
    charge: Mapping[Resource, float]


class Fit(msgspec.Struct, frozen=True):
    """The nodes where a pod fits: `requests` by the filters, `under_ceiling` also by load.

    The node that it leaves is among them only if its whole gang leaves.

    `in_domains` are those of `requests` within its placement domains, `inside` those of them that
    hold its model, if it needs one.

    `explanation` counts the reasons, as `kubectl describe` does, if no node is under its ceiling;
    else it is empty. `loads` is the load of each node with the pod.
    """

    requests: Mask
    in_domains: Mask
    inside: Mask
    under_ceiling: Mask
    explanation: str
    loads: Mapping[Resource, Floats]


class FreeCapacity:
    """Free requests and projected load of every node, after the moves of the plan so far.

    Loads are the highest ratio over the windows. A node that is no destination (out of scope,
    unknown, overloaded, not selected) is never under its ceiling. Without `limits`, no node is
    outside the placement domains of a pod or without its model.
    """

    def __init__(
        self,
        cluster: ClusterState,
        destinations: Mapping[str, LoadedNode],
        resources: Collection[Resource],
        deadline: PlanningTime | None = None,
        limits: Callable[[NodeArrays], PlacementLimits] | None = None,
    ) -> None:
        self.deadline = deadline or PlanningTime()
        self.unreserved: tuple[Unreserved, ...] = ()
        self.arrays = arrays = NodeArrays(cluster.nodes)
        self.names = arrays.names
        self._limits = limits(arrays) if limits else None
        self._may_download = self._beyond_preferred = False
        self._away: frozenset[str] = frozenset()
        self._filters = FilterChain(cluster, arrays, self.deadline)
        self._waiting = WaitingPods()
        self._is_destination = arrays.where(lambda node: node.name in destinations)
        known = [destinations.get(name) for name in self.names]

        def of_destinations(
            value: Callable[[LoadedNode, Resource], float], *, without: float = np.inf
        ) -> dict[Resource, Floats]:
            """A value of each destination, and what stands for a node without the resource."""
            return {
                r: np.array([value(d, r) if d and r in d.highest else without for d in known])
                for r in resources
            }

        self._load = of_destinations(lambda node, resource: node.highest[resource], without=0.0)
        self._ceilings = of_destinations(lambda node, r: node.source(r).thresholds.ceiling_ratio)
        self._targets = of_destinations(lambda node, r: node.source(r).thresholds.target_ratio)
        self._usual = self._ceilings, self._targets
        self._expected: dict[Resource, Floats] = {}
        self._landed: dict[Resource, Floats] = {}
        # The base of load ratios; of several the smaller one, so that a pod counts more.
        self._denominator = of_destinations(lambda node, r: node.source(r).bases[-1].denominator)

    @property
    def index(self) -> PodIndex:
        """The pods of the snapshot."""
        return self._filters.index

    @property
    def changes(self) -> tuple[Change, ...]:
        """The pods that reservations put on nodes and took off them, in this order."""
        return self._filters.pod_changes.changes

    def copy(self) -> "FreeCapacity":
        """An independent copy; it shares what never changes."""
        copied: FreeCapacity = copy.copy(self)
        copied._filters = self._filters.copy()
        copied._load = {resource: loads.copy() for resource, loads in self._load.items()}
        return copied

    def vacate(self, gang: Sequence[Member]) -> None:
        """Let all pods of a gang leave, with their usage, before any of them is placed again.

        Until `refilled`, a destination that some of them left may get as much of the gang as it
        had, also above its ceiling or target.
        """
        self._away = frozenset(member.pod.uid for member in gang)
        back = {resource: np.zeros(len(self.arrays)) for resource in self._load}
        for pod, least, charge in gang:
            position = self.arrays.index[pod.node]
            self._filters.remove(pod, position)
            for resource, load in self._load.items():
                denominator = self._denominator[resource][position]
                load[position] -= least[resource] / denominator
                back[resource][position] += charge[resource] / denominator
        most = {r: np.where(share > 0, self._load[r] + share, 0.0) for r, share in back.items()}
        self._usual = self._ceilings, self._targets
        self._ceilings = {r: np.maximum(all_, most[r]) for r, all_ in self._ceilings.items()}
        self._targets = {r: np.maximum(all_, most[r]) for r, all_ in self._targets.items()}

    def refilled(self) -> None:
        """End what `vacate` began: all pods of the gang have been placed."""
        self._ceilings, self._targets = self._usual
        self._away = frozenset()

    def is_away(self, pod: Pod) -> bool:
        """Whether the pod has left with its whole gang, and is not placed again yet."""
        return pod.uid in self._away

    def _before_leaving(self, pod: Pod) -> FilterChain:
        """The filters with the pod still on its node. Do not modify."""
        if not self.is_away(pod):
            return self._filters
        filters = self._filters.copy()
        filters.add(pod, self.arrays.index[pod.node])
        return filters

    def outside_domains(self, pod: Pod) -> Mask:
        """The nodes outside the placement domains of a pod on a node. Do not modify."""
        if self._limits is None:
            return self.arrays.none()
        if self.is_away(pod):
            return self._limits.outside_of_gang(pod)
        return self._limits.outside(pod, beyond_preferred=self._beyond_preferred)

    def has_preferred_domains(self, pod: Pod) -> bool:
        """Whether the pod may leave some of its domains if it cannot move inside."""
        if self._limits is None or self.is_away(pod):
            return False
        return self._limits.has_preferred(pod)

    def beyond_preferred(self) -> "FreeCapacity":
        """The same, but pods may leave the domains that they only prefer."""
        relaxed: FreeCapacity = copy.copy(self)
        relaxed._beyond_preferred = True
        return relaxed

    def without_model(self, pod: Pod) -> Mask:
        """The nodes that lack a model of the pod. Do not modify."""
        if self._limits is None:
            return self.arrays.none()
        return self._limits.models.lacking(pod, may_download=self._may_download)

    def may_download(self, pod: Pod) -> bool:
        """Whether the pod may move to nodes without its models, if need be."""
        return self._limits is not None and self._limits.models.may_download(pod)

    def with_downloads(self) -> "FreeCapacity":
        """The same, but pods may download their models again where that is possible."""
        relaxed: FreeCapacity = copy.copy(self)
        relaxed._may_download = True
        return relaxed

    def outside(self, pod: Pod) -> Mask:
        """The nodes where a pod on a node must not land, though the scheduler would place it."""
        return self.outside_domains(pod) | self.without_model(pod) | self._gpus_unknown(pod)

    def _gpus_unknown(self, pod: Pod) -> Mask:
        """The nodes whose GPUs may have no time left for the pod. Do not modify."""
        return self._limits.gpus.unknown(pod) if self._limits is not None else self.arrays.none()

    def never_chosen(self, pod: Pod) -> Mask:
        """The nodes where the scheduler of a pod on a node never puts its replacement."""
        if self._limits is None or self.is_away(pod):  # no peer keeps it near any more
            return self.arrays.none()
        return self._limits.never_chosen(pod)

    def domains_of(self, pod: Pod) -> str:
        """The placement domains of the pod; empty without any."""
        if self._limits is None:
            return ""
        return self._limits.describe(pod, whole=self.is_away(pod))

    def models_of(self, pod: Pod) -> str:
        """Which nodes hold the models of the pod; empty without any."""
        return self._limits.models.describe(pod) if self._limits is not None else ""

    def schedulable(self, pod: Pod) -> Mask:
        """The nodes on which a pending pod passes the filters."""
        return self._filters.passing(pod)

    def feasible(self, pod: Pod, source: str) -> Mask:
        """The nodes, perhaps the source, on which the replacement passes once the pod is gone."""
        return self._before_leaving(pod).passing_again(pod, self.arrays.index[source])[0]

    def feasible_beside(self, pod: Pod, source: str) -> Mask:
        """The nodes on which the replacement passes while the pod is being deleted."""
        return self._filters.passing_beside(pod, self.arrays.index[source])

    def fit(self, pod: Pod, source: str, usage: Mapping[Resource, float]) -> Fit:
        """The nodes that could take the pod, without the source unless its whole gang has left.

        `usage` has the pod's usage of each watched resource, in the resource's own unit.
        """
        position, filters = self.arrays.index[source], self._before_leaving(pod)
        requests, verdicts = filters.passing_again(pod, position)
        returns = bool(requests[position]) and not self.is_away(pod)
        requests[position] &= self.is_away(pod)
        in_domains = requests & ~self.outside_domains(pod)
        inside = in_domains & ~self.without_model(pod)
        under = inside & self._is_destination & ~self._gpus_unknown(pod)
        loads: dict[Resource, Floats] = {}
        for resource, ceilings in self._ceilings.items():
            if not np.count_nonzero(under):
                break
            after = self._load[resource] + usage[resource] / self._denominator[resource]
            under &= after <= ceilings
            loads[resource] = after
        explanation = ""
        if not np.count_nonzero(under):
            found = Counter(filters.excluded(pod, position, verdicts))
            found[IS_SOURCE] += returns
            found += self._no_destinations(pod, requests, in_domains, inside, under)
            explanation = self._explain(found)
        return Fit(requests, in_domains, inside, under, explanation, loads)

    def exclusions(self, pod: Pod, source: str, fit: Fit) -> Counter[str]:
        """Count the nodes that could not take the pod by reason; a node may lack several things."""
        position = self.arrays.index[source]
        requests, verdicts = self._filters.passing_again(pod, position)
        found = Counter(self._filters.excluded(pod, position, verdicts))
        found[IS_SOURCE] += bool(requests[position])
        masks = fit.requests, fit.in_domains, fit.inside, fit.under_ceiling
        return +(found + self._no_destinations(pod, *masks))

    def loads_with(self, usage: Mapping[Resource, float]) -> dict[Resource, Floats]:
        """The load of each destination with a pod of this usage."""
        return {r: load + usage[r] / self._denominator[r] for r, load in self._load.items()}

    def over_ceiling(self, loads: Mapping[Resource, Floats]) -> dict[Resource, Floats]:
        """How far these loads are above the ceiling of each node; infinite for no destination."""
        return {
            r: np.where(self._is_destination, loads[r] - ceilings, np.inf)
            for r, ceilings in self._ceilings.items()
        }

    def shortage(self, pod: Pod, usage: Mapping[Resource, float]) -> tuple[Ints, Mask]:
        """What each node lacks for the pod, shape (basic resources, nodes).

        The mask has the destinations that would take it once they have that, by the filters that
        depend on nodes only, and by their ceilings.
        """
        lacking, admitting = self._filters.shortage(pod)
        admitting &= self._is_destination & ~self.outside(pod)
        for resource, ceilings in self._ceilings.items():
            after = self._load[resource] + usage[resource] / self._denominator[resource]
            admitting &= after <= ceilings
        return lacking, admitting

    def lacks(self, node: str, pod: Pod) -> bool:
        """Whether the node has not enough free for the pod's requests."""
        return bool(self._filters.shortage(pod)[0][:, self.arrays.index[node]].any())

    def harmed(
        self,
        loads: Mapping[Resource, Floats],
        margin_ratio: float = 0.0,
        at_most: Mapping[Resource, float] = NO_LIMITS,
    ) -> Mask:
        """The nodes that would exceed their target with these loads, or are no destination.

        Shape (nodes,), or (alternatives, nodes) after landings that differ between alternatives.

        Args:
            loads: the load of each node with the pod, see `Fit`; expected landings are added.
            margin_ratio: a node must stay this far below its target, or under its ceiling.
            at_most: a further limit for the load of all nodes.
        """
        harmed: Mask = ~self._is_destination
        for resource, targets in self._targets.items():
            # Pods are counted, not measured.
            margin = 0.0 if resource is Resource.PODS else margin_ratio
            most = np.maximum(targets - margin, self._ceilings[resource])
            most = np.minimum(most, at_most.get(resource, np.inf))
            besides = self._expected.get(resource, 0.0)
            if resource in self._landed:
                besides = np.maximum(besides, self._landed[resource])
            harmed = harmed | (loads[resource] + besides > most)
        return harmed

    def expect(
        self,
        probabilities: Floats,
        usage: Mapping[Resource, float],
        besides: str,
        placed: Positions | None = None,
    ) -> None:
        """Add a pod where the scheduler may place it; only `harmed` uses this.

        On every node, its usage counts by the probability of the landing. In an alternative, all of
        it counts on the node where the alternative has the pod: several pods may meet there.

        Args:
            probabilities: the probability of each node.
            usage: the expected usage of the pod.
            besides: the node on which the pod has its reservation, in full.
            placed: the position of its node in each alternative of the scheduler's view, if any.
        """
        shares = self._shares(probabilities, usage, besides)
        self._expected = {r: self._expected.get(r, 0.0) + share for r, share in shares.items()}
        if placed is not None and len(placed) > 1:
            self._landed = {r: self._with_landed(r, placed, usage[r], besides) for r in shares}

    def _with_landed(
        self, resource: Resource, placed: Positions, usage: float, besides: str
    ) -> Floats:
        """The landed load, shape (alternatives, nodes), with a pod where it has no reservation."""
        known = self._landed.get(resource)
        landed = np.zeros((len(placed), len(self.arrays))) if known is None else known.copy()
        rows = np.flatnonzero(placed != self.arrays.index[besides])
        landed[rows, placed[rows]] += usage / self._denominator[resource][placed[rows]]
        return landed

    def harmed_if(
        self, landed: Iterable[tuple[Mapping[Resource, float], str, Positions | None]]
    ) -> Mask:
        """The nodes above their target, or no destination, if pods land elsewhere than expected.

        Shape (alternatives, nodes).

        Args:
            landed: for each pod its usage, the node of its reservation (empty if it has none), and
                the position of its node in each alternative (None for no node).
        """
        landed = list(landed)
        count = max((len(placed) for *_, placed in landed if placed is not None), default=1)
        harmed: Mask = np.tile(~self._is_destination, (count, 1))
        for resource, targets in self._targets.items():
            loads = np.tile(self._load[resource], (count, 1))
            for usage, reserved, placed in landed:
                share = usage[resource] / self._denominator[resource]
                if reserved:
                    loads[:, self.arrays.index[reserved]] -= share[self.arrays.index[reserved]]
                if placed is not None:
                    loads[np.arange(count), placed] += share[placed]
            harmed |= loads > targets + _EPSILON
        return harmed

    def charge(self, probabilities: Floats, usage: Mapping[Resource, float], besides: str) -> None:
        """Reserve a share of the pod's usage on each node where it may land; see `expect`."""
        for resource, share in self._shares(probabilities, usage, besides).items():
            self._load[resource] += share

    def _shares(
        self, probabilities: Floats, usage: Mapping[Resource, float], besides: str
    ) -> dict[Resource, Floats]:
        """The load that a pod probably brings to each other node, as a share of capacity."""
        elsewhere = probabilities.copy()
        elsewhere[self.arrays.index[besides]] = 0.0
        return {r: usage[r] * elsewhere / self._denominator[r] for r in self._load}

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
        position = self.arrays.index[node]
        if leaving is not None and not self.is_away(leaving):
            self._filters.remove(leaving, self.arrays.index[leaving.node])
        self._filters.add(pod, position)
        for resource, column in self._load.items():
            column[position] += usage[resource] / self._denominator[resource][position]

    @property
    def allocatable(self) -> Ints:
        """The allocatable amounts of each node, shape (basic resources, nodes)."""
        return self._filters.requests.allocatable

    def hold(self, node: str) -> None:
        """Keep other pods off a node with room that a chain has made.

        The scheduler does not see that the room is taken, so landings there are possible, and bad.
        """
        self._is_destination = self._is_destination.copy()  # copies share the old one
        self._is_destination[self.arrays.index[node]] = False

    def load_ratio(self, node: str, resource: Resource) -> float:
        """The projected load of a destination in its highest window."""
        return float(self._load[resource][self.arrays.index[node]])

    @property
    def free_requests(self) -> Ints:
        """What is free in the whole cluster, in the order of `basic`."""
        found: Ints = np.maximum(self._filters.requests.free[:4], 0).sum(axis=1)
        return found

    def await_room(self, pod: Pod) -> None:
        """Add a pending pod that fits on no node now."""
        self._waiting.add(pod)

    def successor(self, leaving: Pod) -> Pod | None:
        """A pending pod that would take the room that this pod leaves, None without one."""
        if not self._waiting:
            return None
        position = self.arrays.index[leaving.node]
        freed = self._before_leaving(leaving).copy()
        freed.remove(leaving, position)
        free = freed.requests.free[:, position]
        fitting = self._waiting.fitting(position, freed.admits, free)
        return next((pod for pod in fitting if freed.passing(pod)[position]), None)

    def requested_share(self, requests: Amounts, nodes: Positions) -> Floats:
        """The requested share of each node with the pod, as the mean of CPU and memory."""
        rows = self._filters.requests
        allocatable = rows.allocatable[:2, nodes]  # rows 0 and 1 are CPU and memory
        requested = allocatable - rows.free[:2, nodes]
        own = np.array([[requests.cpu_millicores], [requests.memory_bytes]], dtype=np.int64)
        cpu, memory = (requested + own) / np.maximum(allocatable, 1)
        share: Floats = (cpu + memory) / 2
        return share

    def _no_destinations(
        self, pod: Pod, requests: Mask, in_domains: Mask, inside: Mask, under_ceiling: Mask
    ) -> Counter[str]:
        """Why nodes that pass the filters are none of those under their ceiling."""
        passing, near = np.count_nonzero(requests), np.count_nonzero(in_domains)
        found = np.count_nonzero(inside)
        destinations = inside & self._is_destination
        below = np.count_nonzero(destinations)
        measured = np.count_nonzero(destinations & ~self._gpus_unknown(pod))
        return Counter(
            {
                OUTSIDE_DOMAIN: int(passing - near),
                WITHOUT_MODEL: int(near - found),
                NO_DESTINATION: int(found - below),
                GPUS_UNKNOWN: int(below - measured),
                ABOVE_CEILING: int(measured - np.count_nonzero(under_ceiling)),
            }
        )

    def _explain(self, found: Counter[str]) -> str:
        """The reasons that exclude every node, nearly in the words of `kubectl describe`."""
        counts = sorted(((-count, reason) for reason, count in found.items() if count))
        listed = ", ".join(count_of_nodes(-count, reason) for count, reason in counts)
        return f"0/{len(self.arrays)} nodes are available: {listed}"
