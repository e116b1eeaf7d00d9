"""The load of a node in each window, and the thresholds that judge it."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from desched.model.cluster import Node
from desched.model.plan import NodeVerdict, ResourcePressure
from desched.model.resources import Resource
from desched.policy.policy import NodePool, Policy, ResourceRule


class Thresholds(msgspec.Struct, frozen=True, gc=False):
    """The thresholds of one resource, as shares of capacity."""

    low_ratio: float
    target_ratio: float
    stop_ratio: float
    ceiling_ratio: float


class Basis(msgspec.Struct, frozen=True, gc=False):
    """Load in each window as a share of one denominator (in the resource's own unit)."""

    denominator: float
    ratios: tuple[float, ...]


class NodeLoad(msgspec.Struct, frozen=True, gc=False):
    """The load of one resource of one node, before it is compared with thresholds.

    `measured` has (window in seconds, ratio) as Prometheus reports them; `bases` and `highest` are
    corrected for changes that the windows do not show yet. `uncorrected` are the bases with the
    usage of pods that ended, left or are leaving. `receives` is false if a destination window is
    not known. `shown` is what the kubelet shows of the load over the shortest window, and by how
    much the load may be above that, as ratios; None if it has not been compared.
    """

    rule: ResourceRule
    measured: tuple[tuple[int, float], ...]
    bases: tuple[Basis, ...]
    highest: float
    uncorrected: tuple[Basis, ...]
    receives: bool = True
    shown: tuple[float, float] | None = None

    @property
    def lowest(self) -> float:
        """The ratio in the lowest window, by which a source is judged."""
        return _lowest(self.bases)

    @property
    def lowest_uncorrected(self) -> float:
        """The lowest ratio, with the usage of pods that ended, left or are leaving."""
        return _lowest(self.uncorrected)

    @property
    def departed(self) -> float:
        """The use of pods that ended, left or are leaving, in the shortest window, of capacity."""
        return self.uncorrected[0].ratios[0] - self.bases[0].ratios[0]


def _lowest(bases: Sequence[Basis]) -> float:
    windows = range(len(bases[0].ratios))
    return min(max(basis.ratios[i] for basis in bases) for i in windows)


class SourceLoad(msgspec.Struct, frozen=True, gc=False):
    """The load of one resource of a node as a source.

    Memory has two bases, capacity and allocatable; the higher ratio counts.
    """

    resource: Resource
    thresholds: Thresholds
    bases: tuple[Basis, ...]

    def lowest_without(self, removed: Sequence[float]) -> float:
        """The ratio in the lowest window without this usage, which has a value for each window."""
        return min(self._without(removed))

    def highest_without(self, removed: Sequence[float]) -> float:
        """The ratio in the highest window without this usage."""
        return max(self._without(removed))

    def _without(self, removed: Sequence[float]) -> list[float]:
        return [
            max(basis.ratios[i] - gone / basis.denominator for basis in self.bases)
            for i, gone in enumerate(removed)
        ]

    @property
    def nothing(self) -> tuple[float, ...]:
        """A usage of 0 in each window."""
        return (0.0,) * len(self.bases[0].ratios)


class LoadedNode(msgspec.Struct, frozen=True, gc=False):
    """A node in scope with known load; `receives` is true if it may be a destination.

    `saturated` has the resources of which its pool has too little, with the numbers in words.
    """

    node: Node
    sources: tuple[SourceLoad, ...]
    highest: Mapping[Resource, float]
    verdict: NodeVerdict
    receives: bool
    saturated: Mapping[Resource, str] = {}

    @property
    def overloaded(self) -> tuple[ResourcePressure, ...]:
        """Overloaded resources, memory first, because running out of it kills pods."""
        return tuple(p for p in self.verdict.pressures if p.overloaded)

    def source(self, resource: Resource) -> SourceLoad:
        """The load of one resource that the node has, and its thresholds."""
        return next(source for source in self.sources if source.resource is resource)

    @property
    def hot(self) -> tuple[ResourcePressure, ...]:
        """The resources that are relieved: overloaded now, or again and again; memory first."""
        return tuple(p for p in self.verdict.pressures if p.hot)

    @property
    def excess_ratio(self) -> float:
        """The highest excess above the stop line among the resources that are relieved."""
        return max(p.lowest_ratio - p.stop_ratio for p in self.hot)


def pool_thresholds(
    pool: NodePool, policy: Policy, nodes: Sequence[Sequence[NodeLoad]]
) -> Mapping[Resource, Thresholds]:
    """The thresholds of a pool; deviation thresholds are relative to the mean of its nodes."""
    return {
        rule.resource: _around_mean(rule, policy, nodes) if policy.deviation else _fixed(rule)
        for rule in pool.rules
    }


def weighted_mean(loads: Sequence[tuple[float, float]]) -> float:
    """Return the mean of (ratio, weight) pairs, or 0 without any."""
    total = math.fsum(weight for _, weight in loads)
    return math.fsum(ratio * weight for ratio, weight in loads) / total if total else 0.0


def _fixed(rule: ResourceRule) -> Thresholds:
    target = rule.target_ratio
    return Thresholds(
        rule.low_ratio,
        target,
        target - rule.stop_margin_ratio,
        target - rule.ceiling_margin_ratio,
    )


def _around_mean(
    rule: ResourceRule, policy: Policy, nodes: Sequence[Sequence[NodeLoad]]
) -> Thresholds:
    # Moves do not change a mean that is weighted by capacity, so plans converge.
    mean = weighted_mean(
        [
            (load.lowest, load.bases[0].denominator)
            for loads in nodes
            for load in loads
            if load.rule.resource is rule.resource
        ]
    )
    # Load varies by up to the dead band without any move.
    distance = max(rule.target_ratio, policy.dead_band_ratio)
    target = max(policy.deviation_floor_ratio, min(1.0, mean + distance))
    # The stop line is at least halfway to the target, and the ceiling at least at the mean.
    return Thresholds(
        max(0.0, mean - rule.low_ratio),
        target,
        target - min(rule.stop_margin_ratio, distance / 2),
        target - min(rule.ceiling_margin_ratio, distance),
    )
