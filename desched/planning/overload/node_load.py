"""The load of a node as planning knows it: over each window, and beside the lines it is held to."""

from collections.abc import Mapping, Sequence

import msgspec

from desched.model.cluster import Node
from desched.model.plan import NodeVerdict, ResourcePressure
from desched.model.resources import Resource
from desched.policy.policy import ResourceRule


class Thresholds(msgspec.Struct, frozen=True, gc=False):
    """The lines of one resource, as shares of capacity."""

    low_ratio: float
    target_ratio: float
    stop_ratio: float
    ceiling_ratio: float


class Basis(msgspec.Struct, frozen=True, gc=False):
    """Load over each window as a share of one denominator (in the resource's own unit)."""

    denominator: float
    ratios: tuple[float, ...]


class NodeLoad(msgspec.Struct, frozen=True, gc=False):
    """One resource of one node before it is held against any line.

    `measured` is as asked, (window in seconds, ratio); `bases` and `highest` are corrected for what
    the windows have not seen. `receives` is false where a destination window is not known.
    """

    rule: ResourceRule
    measured: tuple[tuple[int, float], ...]
    bases: tuple[Basis, ...]
    highest: float
    receives: bool = True

    @property
    def lowest(self) -> float:
        """The lowest over the windows, by which a source is judged."""
        windows = range(len(self.bases[0].ratios))
        return min(max(basis.ratios[i] for basis in self.bases) for i in windows)


class SourceLoad(msgspec.Struct, frozen=True, gc=False):
    """The load of one resource of a node as a source.

    Memory is watched on two bases, capacity and allocatable; the higher one counts.
    """

    resource: Resource
    thresholds: Thresholds
    bases: tuple[Basis, ...]

    def lowest_without(self, removed: Sequence[float]) -> float:
        """The lowest ratio over the windows once this much usage (one value a window) is gone."""
        return min(self._without(removed))

    def highest_without(self, removed: Sequence[float]) -> float:
        """The highest ratio over the windows once this much usage is gone."""
        return max(self._without(removed))

    def _without(self, removed: Sequence[float]) -> list[float]:
        return [
            max(basis.ratios[i] - gone / basis.denominator for basis in self.bases)
            for i, gone in enumerate(removed)
        ]

    @property
    def nothing(self) -> tuple[float, ...]:
        """No usage, for each window."""
        return (0.0,) * len(self.bases[0].ratios)


class LoadedNode(msgspec.Struct, frozen=True, gc=False):
    """A node in scope whose load is known; `receives` tells whether pods may be sent to it."""

    node: Node
    sources: tuple[SourceLoad, ...]
    highest: Mapping[Resource, float]
    verdict: NodeVerdict
    receives: bool

    @property
    def overloaded(self) -> tuple[ResourcePressure, ...]:
        """The overloaded resources in the order of relief: memory first, for it kills."""
        return tuple(p for p in self.verdict.pressures if p.overloaded)

    def ceiling(self, resource: Resource) -> float:
        """Up to which load the node may be filled as a destination, as a share of capacity."""
        return next(s.thresholds.ceiling_ratio for s in self.sources if s.resource is resource)

    def target(self, resource: Resource) -> float:
        """Above which load the node would be overloaded, as a share of capacity."""
        return next(s.thresholds.target_ratio for s in self.sources if s.resource is resource)

    @property
    def excess_ratio(self) -> float:
        """The dominant excess over the stop line among overloaded resources."""
        return max(p.lowest_ratio - p.stop_ratio for p in self.overloaded)
