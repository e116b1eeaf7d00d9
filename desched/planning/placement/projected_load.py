"""The load that the nodes will have after the moves of the plan so far.

Loads are ratios in the highest window. Arrays have one value for each node, in the order of names.
"""

import copy
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from desched.model.cluster import Pod
from desched.model.resources import Resource
from desched.planning.arrays import Floats, Mask, Positions
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.overload.forecast import expected_minutes
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.outlook import Outlook

NO_LIMITS: Mapping[Resource, float] = MappingProxyType({})

LEAST_USAGE = 0.001
"""In millicores, bytes or devices. Smaller usage has no pattern that could be scaled."""

LEAST_SHARE = 0.001
"""A smaller share of a pod changes no forecast; most nodes get less of it."""


class LoadLines(NamedTuple):
    """The ceilings and the targets of destinations, by resource."""

    ceilings: Mapping[Resource, Floats]
    targets: Mapping[Resource, Floats]


class ProjectedLoad:
    """The projected load of every node, and the lines that it must not cross.

    A node that is no destination (out of scope, unknown, overloaded, not selected) is never under
    its ceiling. A pod counts in full on the node where it is expected, by `add_pod`, and by its
    probability on each other node where it may land: in the forecast (`forecast_landing`), and in
    what `harmed` adds to the load (`expect_landing`). Where nobody knows how the scheduler chooses,
    it counts in the load itself (`reserve_shares`).
    """

    def __init__(
        self,
        arrays: NodeArrays,
        destinations: Mapping[str, LoadedNode],
        resources: Collection[Resource],
        outlook: Outlook,
    ) -> None:
        self.index = arrays.index
        self.is_destination = arrays.where(lambda node: node.name in destinations)
        judged = [destinations.get(name) for name in arrays.names]

        def of_destinations(
            value: Callable[[LoadedNode, Resource], float], *, without: float = np.inf
        ) -> dict[Resource, Floats]:
            """A value of each destination; `without` is that of a node without the resource."""
            return {
                r: np.array([value(d, r) if d and r in d.highest else without for d in judged])
                for r in resources
            }

        self.ratios = of_destinations(lambda node, resource: node.highest[resource], without=0.0)
        self.lines = LoadLines(
            of_destinations(lambda node, r: node.source(r).thresholds.ceiling_ratio),
            of_destinations(lambda node, r: node.source(r).thresholds.target_ratio),
        )
        # The base of load ratios; of several the smaller one, so that a pod counts more.
        self.denominators = of_destinations(lambda node, r: node.source(r).bases[-1].denominator)
        self._set_pasts(arrays, outlook)
        self._expected: dict[Resource, Floats] = {}
        self._landed: dict[Resource, Floats] = {}

    def copy(self) -> "ProjectedLoad":
        """An independent copy; it shares what never changes."""
        copied: ProjectedLoad = copy.copy(self)
        copied.ratios = {resource: loads.copy() for resource, loads in self.ratios.items()}
        copied._past, copied._minutes = self._past.copy(), self._minutes.copy()
        return copied

    def _set_pasts(self, arrays: NodeArrays, outlook: Outlook) -> None:
        """Take over the pasts of all known nodes, also of those that are no destination."""
        pasts = self._pasts = outlook.pasts
        count, points, width = len(arrays.names), len(pasts.ages_seconds), len(pasts.resources)
        self._past = np.zeros((count, points, width))
        self._past_targets = np.full((count, width), np.inf)
        self._past_bases = np.full((count, width), np.inf)
        self._minutes = np.zeros(count)
        for name in outlook.names:
            if name in arrays.index:
                i = arrays.index[name]
                self._past[i], self._past_targets[i] = (
                    outlook.past_of(name),
                    outlook.targets_of(name),
                )
                self._past_bases[i], self._minutes[i] = outlook.bases_of(name), outlook.of(name)

    def expected_minutes(self, node: str) -> float:
        """The expected overload of a node in the next hour."""
        return float(self._minutes[self.index[node]])

    def saved_minutes(self, node: str, pasts: Floats) -> Floats:
        """The expected overload that a node would lose without each of these pods.

        `pasts` has the shape (pods, points, resources).
        """
        i = self.index[node]
        without = np.maximum(self._past[i] - pasts / self._past_bases[i], 0.0)
        after = expected_minutes(without, self._pasts.ages_seconds, self._past_targets[i])
        saved: Floats = np.maximum(self._minutes[i] - after, 0.0)
        return saved

    def added_minutes(self, pod: Pod, usage: Mapping[Resource, float], nodes: Mask) -> Floats:
        """The expected overload that each of these nodes would gain with the pod; 0 elsewhere."""
        added = np.zeros(len(self.index))
        rows = np.flatnonzero(nodes)
        past = self._charged(pod, usage) / self._past_bases[rows][:, None, :]
        targets, ages = self._past_targets[rows], self._pasts.ages_seconds
        after = expected_minutes(self._past[rows] + past, ages, targets)
        added[rows] = np.maximum(after - self._minutes[rows], 0.0)
        return added

    def forecast_landing(
        self, pod: Pod, usage: Mapping[Resource, float], probabilities: Floats, besides: str
    ) -> None:
        """Add a pod to the forecast of each other node where it may land, by the probability."""
        elsewhere = probabilities.copy()
        elsewhere[self.index[besides]] = 0.0
        self.forecast_shares(pod, usage, elsewhere)

    def forecast_shares(self, pod: Pod, usage: Mapping[Resource, float], shares: Floats) -> None:
        """Add to the forecast of each node this share of a pod, unless it is tiny."""
        rows = np.flatnonzero(shares > LEAST_SHARE)
        if not len(rows):
            return
        past = self._charged(pod, usage) / self._past_bases[rows][:, None, :]
        self._past[rows] += past * shares[rows][:, None, None]
        self._renew(rows)

    def remove(self, node: str, past: Floats) -> None:
        """Take a pod with this past, shape (points, resources), off a node's forecast."""
        i = self.index[node]
        self._past[i] = np.maximum(self._past[i] - past / self._past_bases[i], 0.0)
        self._renew(np.array([i]))

    def _charged(self, pod: Pod, usage: Mapping[Resource, float]) -> Floats:
        """The pod's past, scaled where a destination is charged more than it used."""
        past = self._pasts.of_pod(pod)
        wanted = np.array([usage.get(r, 0.0) for r in self._pasts.resources])
        used = np.array([self._pasts.measured(pod, r) for r in self._pasts.resources])
        measured = used > LEAST_USAGE
        scaled = measured & (wanted > used)
        factors = np.where(scaled, wanted, 1.0) / np.where(scaled, used, 1.0)
        charged: Floats = np.where(measured, past * factors, wanted)
        return charged

    def _renew(self, rows: Positions) -> None:
        ages, targets = self._pasts.ages_seconds, self._past_targets[rows]
        self._minutes[rows] = expected_minutes(self._past[rows], ages, targets)

    def ratio(self, node: str, resource: Resource) -> float:
        """The projected load of a destination."""
        return float(self.ratios[resource][self.index[node]])

    def add_pod(self, node: str, usage: Mapping[Resource, float], pod: Pod) -> None:
        """Add a pod of this usage to the load and the forecast of a node."""
        position = self.index[node]
        self._past[position] += self._charged(pod, usage) / self._past_bases[position]
        self._renew(np.array([position]))
        for resource, column in self.ratios.items():
            column[position] += usage[resource] / self.denominators[resource][position]

    def hold(self, node: str) -> None:
        """Keep other pods off a node with room that is meant for some.

        The scheduler does not see that the room is taken, so landings there are possible, and bad.
        """
        self.is_destination = self.is_destination.copy()  # copies share the old one
        self.is_destination[self.index[node]] = False

    def with_pod(self, usage: Mapping[Resource, float]) -> dict[Resource, Floats]:
        """The load of each destination with a pod of this usage."""
        return {r: load + usage[r] / self.denominators[r] for r, load in self.ratios.items()}

    def under_ceiling(
        self,
        usage: Mapping[Resource, float],
        among: Mask,
        at_most: Mapping[Resource, float] = NO_LIMITS,
    ) -> tuple[Mask, Mapping[Resource, Floats]]:
        """Return which of these nodes stay under their ceiling with the pod, and the loads with it.

        The loads are incomplete if no node does.
        """
        under, loads = among.copy(), dict[Resource, Floats]()
        for resource, ceilings in self.lines.ceilings.items():
            if not np.count_nonzero(under):
                break
            after = self.ratios[resource] + usage[resource] / self.denominators[resource]
            under &= after <= np.maximum(ceilings, at_most.get(resource, 0.0))
            loads[resource] = after
        return under, loads

    def under_ceilings(self, resource: Resource) -> int:
        """The usage that all destinations together could take."""
        left = np.maximum(self.lines.ceilings[resource] - self.ratios[resource], 0.0)
        return int((left * self.denominators[resource])[self.is_destination].sum())

    def over_ceiling(
        self,
        loads: Mapping[Resource, Floats],
        at_most: Mapping[Resource, float] = NO_LIMITS,
    ) -> dict[Resource, Floats]:
        """How far these loads are above the ceiling of each node, or `at_most` if that is higher.

        Infinite for nodes that are no destination.
        """
        ceilings = {
            r: np.maximum(ceiling, at_most.get(r, 0.0))
            for r, ceiling in self.lines.ceilings.items()
        }
        return {
            r: np.where(self.is_destination, loads[r] - ceiling, np.inf)
            for r, ceiling in ceilings.items()
        }

    def harmed(
        self,
        loads: Mapping[Resource, Floats],
        at_most: Mapping[Resource, float] = NO_LIMITS,
    ) -> Mask:
        """The nodes that these loads fill beyond target and ceiling, or that are no destination.

        Shape (nodes,), or (alternatives, nodes) after landings that differ between alternatives.

        Args:
            loads: the load of each node with the pod, see `Fit`; expected landings are added.
            at_most: the limit for the load of all nodes in place of target and ceiling.
        """
        harmed: Mask = ~self.is_destination
        for resource, targets in self.lines.targets.items():
            most = np.maximum(targets, self.lines.ceilings[resource])
            if resource in at_most:
                most = np.full_like(most, at_most[resource])
            besides = self._expected.get(resource, 0.0)
            if resource in self._landed:
                besides = np.maximum(besides, self._landed[resource])
            harmed = harmed | (loads[resource] + besides > most)
        return harmed

    def expect_landing(
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
        landed_before = self._landed.get(resource)
        landed = (
            np.zeros((len(placed), len(self.index)))
            if landed_before is None
            else landed_before.copy()
        )
        rows = np.flatnonzero(placed != self.index[besides])
        landed[rows, placed[rows]] += usage / self.denominators[resource][placed[rows]]
        return landed

    def reserve_shares(
        self, probabilities: Floats, usage: Mapping[Resource, float], besides: str
    ) -> None:
        """Add to the load of each other node the share of the usage that is its probability."""
        for resource, share in self._shares(probabilities, usage, besides).items():
            self.ratios[resource] += share

    def _shares(
        self, probabilities: Floats, usage: Mapping[Resource, float], besides: str
    ) -> dict[Resource, Floats]:
        """The load that a pod probably brings to each other node, as a share of capacity."""
        elsewhere = probabilities.copy()
        elsewhere[self.index[besides]] = 0.0
        return {r: usage[r] * elsewhere / self.denominators[r] for r in self.ratios}
