"""On which nodes a pod fits: the scheduler's filters, and room under the ceiling.

Nodes are columns of arrays, in the order of their names. What nodes and volumes say is computed
once for each scheduling class; requests, other pods and projected load change with each
reservation. The filters themselves are in `desched.planning.filters`.
"""

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
import numpy as np

from desched.model.cluster import ClusterState, Node, Pod
from desched.model.resources import Amounts, Resource
from desched.planning.arrays import Floats, Mask, Positions
from desched.planning.kube_scheduler.filters.chain import FilterChain
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import Change, PodIndex
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.pending_pods import WaitingPods

__all__ = ["Fit", "FreeCapacity", "Mask", "usage_of"]

IS_SOURCE = "node(s) is the one to be relieved"
NO_DESTINATION = "node(s) are no destination"
ABOVE_CEILING = "node(s) would rise above their ceiling"

_EPSILON = 1e-9


class Fit(msgspec.Struct, frozen=True):
    """Where a pod fits: `requests` by the scheduler's filters, `under_ceiling` also by load.

    `explanation` says, as `kubectl describe` does, what keeps it from all nodes, else is empty.
    `loads` are what each node's would be with the pod.
    """

    requests: Mask
    under_ceiling: Mask
    explanation: str
    loads: Mapping[Resource, Floats]


class FreeCapacity:
    """Free requests, pods and projected load of every node, with what this plan already changes.

    Load columns hold the highest ratio over the windows; a node that is no destination (out of
    scope, unknown, overloaded, not selected) is never under the ceiling.
    """

    def __init__(
        self,
        cluster: ClusterState,
        destinations: Mapping[str, LoadedNode],
        resources: Collection[Resource],
    ) -> None:
        self.arrays = arrays = NodeArrays(cluster.nodes)
        self.names = arrays.names
        self._filters = FilterChain(cluster, arrays)
        self._waiting = WaitingPods()
        self._is_destination = arrays.where(lambda node: node.name in destinations)
        known = [destinations.get(name) for name in self.names]

        def of_destinations(
            ratio: Callable[[LoadedNode, Resource], float],
        ) -> dict[Resource, Floats]:
            return {r: np.array([ratio(d, r) if d else 0.0 for d in known]) for r in resources}

        self._load = of_destinations(lambda node, resource: node.highest[resource])
        self._ceilings = of_destinations(LoadedNode.ceiling)
        self._targets = of_destinations(LoadedNode.target)
        self._expected: dict[Resource, Floats] = {}
        self._landed: dict[Resource, Floats] = {}
        self._denominator = {
            resource: np.array([_denominator(node, resource) for node in arrays.nodes], dtype=float)
            for resource in resources
        }

    @property
    def index(self) -> PodIndex:
        """The pods as they were seen, to be shared."""
        return self._filters.index

    @property
    def changes(self) -> tuple[Change, ...]:
        """Pods that reservations have put on nodes and taken off them, in their order."""
        return self._filters.pod_changes.changes

    def copy(self) -> "FreeCapacity":
        """A trial that can be thrown away; what never changes is shared."""
        trial: FreeCapacity = copy.copy(self)
        trial._filters = self._filters.copy()
        trial._load = {resource: column.copy() for resource, column in self._load.items()}
        return trial

    def schedulable(self, pod: Pod) -> Mask:
        """Nodes that the scheduler's filters let a further such pod onto."""
        return self._filters.passing(pod)

    def feasible(self, pod: Pod, source: str) -> Mask:
        """Nodes that the filters let the pod's replacement onto once the pod itself is gone.

        The source is among them if it would take the pod back.
        """
        return self._filters.passing_again(pod, self.arrays.index[source])[0]

    def feasible_beside(self, pod: Pod, source: str) -> Mask:
        """Nodes that they let the replacement onto while the pod itself is being deleted."""
        return self._filters.passing_beside(pod, self.arrays.index[source])

    def fit(self, pod: Pod, source: str, usage: Mapping[Resource, float]) -> Fit:
        """Where the pod could live instead.

        Args:
            pod: the pod that would move.
            source: the node that it is on; never a place.
            usage: its usage for each watched resource, in the resource's own unit.
        """
        position = self.arrays.index[source]
        requests, verdicts = self._filters.passing_again(pod, position)
        returns = bool(requests[position])
        requests[position] = False
        under = requests & self._is_destination
        loads: dict[Resource, Floats] = {}
        for resource, ceilings in self._ceilings.items():
            if not np.count_nonzero(under):
                break
            after = self._load[resource] + usage[resource] / self._denominator[resource]
            under &= after <= ceilings
            loads[resource] = after
        explanation = ""
        if not np.count_nonzero(under):
            found = Counter(self._filters.excluded(pod, position, verdicts))
            found[IS_SOURCE] += returns
            explanation = self._explain(found, requests)
        return Fit(requests, under, explanation, loads)

    def harmed(self, loads: Mapping[Resource, Floats], margin_ratio: float = 0.0) -> Mask:
        """Nodes that would be above their target with these loads, or are no destination.

        Shape (nodes,), or (alternatives, nodes) where what has landed differs.

        Args:
            loads: what they would be with a pod, as `fit` says it; pods that the scheduler may put
                there besides are added.
            margin_ratio: so far below the target is too near, unless it is under the ceiling.
        """
        harmed: Mask = ~self._is_destination
        for resource, targets in self._targets.items():
            # Pods are counted, not measured.
            margin = 0.0 if resource is Resource.PODS else margin_ratio
            most = np.maximum(targets - margin, self._ceilings[resource])
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
        """Count a pod where the scheduler may put it, for `harmed` only.

        Its share counts by the probability everywhere, and all of it where an alternative has it:
        several pods may meet there.

        Args:
            probabilities: of a landing on each node.
            usage: what the pod will use.
            besides: the node that it is reserved on already, in full.
            placed: where it is in each alternative of the scheduler's view, if there are several.
        """
        shares = self._shares(probabilities, usage, besides)
        self._expected = {r: self._expected.get(r, 0.0) + share for r, share in shares.items()}
        if placed is not None and len(placed) > 1:
            self._landed = {r: self._with_landed(r, placed, usage[r], besides) for r in shares}

    def _with_landed(
        self, resource: Resource, placed: Positions, usage: float, besides: str
    ) -> Floats:
        """What has landed in each alternative, with one pod more unless it is reserved there."""
        known = self._landed.get(resource)
        landed = np.zeros((len(placed), len(self.arrays))) if known is None else known.copy()
        rows = np.flatnonzero(placed != self.arrays.index[besides])
        landed[rows, placed[rows]] += usage / self._denominator[resource][placed[rows]]
        return landed

    def harmed_if(
        self, landed: Iterable[tuple[Mapping[Resource, float], str, Positions | None]]
    ) -> Mask:
        """Nodes above their target, or no destination, if pods land elsewhere than expected.

        Shape (alternatives, nodes).

        Args:
            landed: for each pod what it uses, the node that it is reserved on, and where it is in
                each alternative, None for nowhere; an empty name where it has no room yet.
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
        """Keep each node's share of room for a pod that may land there instead.

        Takes the same as `expect`.
        """
        for resource, share in self._shares(probabilities, usage, besides).items():
            self._load[resource] += share

    def _shares(
        self, probabilities: Floats, usage: Mapping[Resource, float], besides: str
    ) -> dict[Resource, Floats]:
        """The load that a pod is likely to bring to each node but one, as a share of capacity."""
        elsewhere = probabilities.copy()
        elsewhere[self.arrays.index[besides]] = 0.0
        return {r: usage[r] * elsewhere / self._denominator[r] for r in self._load}

    def reserve(
        self, node: str, pod: Pod, usage: Mapping[Resource, float], leaving: Pod | None = None
    ) -> None:
        """Count such a pod as being on the node from now on.

        Args:
            node: where the pod is expected.
            pod: what it requests and is labelled with; its node does not matter.
            usage: what it will use there, for each watched resource.
            leaving: the pod that it replaces; its own node is free of it from now on.
        """
        position = self.arrays.index[node]
        if leaving is not None:
            self._filters.remove(leaving, self.arrays.index[leaving.node])
        self._filters.add(pod, position)
        for resource, column in self._load.items():
            column[position] += usage[resource] / self._denominator[resource][position]

    def load_ratio(self, node: str, resource: Resource) -> float:
        """The projected highest load of a destination."""
        return float(self._load[resource][self.arrays.index[node]])

    def await_room(self, pod: Pod) -> None:
        """Count the pod as waiting for room that no node has now."""
        self._waiting.add(pod)

    def successor(self, leaving: Pod) -> Pod | None:
        """A waiting pod that the node of a pod would take once that has left it."""
        if not self._waiting:
            return None
        position = self.arrays.index[leaving.node]
        freed = self._filters.copy()
        freed.remove(leaving, position)
        free = freed.requests.free[:, position]
        fitting = self._waiting.fitting(position, freed.admits, free)
        return next((pod for pod in fitting if freed.passing(pod)[position]), None)

    def requested_share(self, requests: Amounts, nodes: Positions) -> Floats:
        """For each of the nodes the mean share of CPU and memory requested with the pod there."""
        requested = self._filters.requests
        allocatable = requested.allocatable[:2, nodes]
        used = allocatable - requested.free[:2, nodes]
        asked = np.array([[requests.cpu_millicores], [requests.memory_bytes]], dtype=np.int64)
        cpu, memory = (used + asked) / np.maximum(allocatable, 1)
        share: Floats = (cpu + memory) / 2
        return share

    def _explain(self, found: Counter[str], requests: Mask) -> str:
        """What keeps a pod from every node, in the words of `kubectl describe`."""
        below = int(np.count_nonzero(requests & self._is_destination))
        found[NO_DESTINATION] += int(np.count_nonzero(requests)) - below
        found[ABOVE_CEILING] += below
        counts = sorted(((-count, reason) for reason, count in found.items() if count))
        listed = ", ".join(f"{-count} {reason}" for count, reason in counts)
        return f"0/{len(self.arrays)} nodes are available: {listed}"


def usage_of(pod: Pod, book: UsageBook) -> dict[Resource, float]:
    """What a pod is charged at a destination, for each watched resource."""
    return {rule.resource: book.demand(pod, rule.resource) for rule in book.policy.rules}


def _denominator(node: Node, resource: Resource) -> float:
    """What a usage is divided by at a destination; the smaller base, so that it counts more."""
    amounts = {
        Resource.CPU: node.capacity.cpu_millicores,
        Resource.MEMORY: node.allocatable.memory_bytes,
        Resource.PODS: node.allocatable.pods,
    }
    return float(max(amounts[resource], 1))
