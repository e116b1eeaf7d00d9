"""The excess of an overloaded node above its stop lines, and the relief that its pods bring."""

from collections.abc import Mapping, Sequence

from desched.model.plan import ResourceRelief
from desched.model.resources import Resource
from desched.planning.overload.node_load import LoadedNode, SourceLoad
from desched.planning.placement.projected_load import NO_LIMITS
from desched.planning.selection.candidates import Candidate

TOLERANCE_RATIO = 0.005
"""Half a point of capacity, the least excess that counts: measurements are no more exact."""


class Excess:
    """The excess of one node in all its relieved resources, memory first."""

    def __init__(self, loaded: LoadedNode) -> None:
        hot = {pressure.resource for pressure in loaded.hot}
        self._loads = tuple(load for load in loaded.sources if load.resource in hot)
        self._at_start = {load.resource: self._over(load, load.nothing) for load in self._loads}

    def left(self, gone: Sequence[Candidate]) -> float:
        """The share of the excess that remains without these pods, from 0 to 1."""
        return max((self._share_left(load, gone) for load in self._loads), default=0.0)

    def levels(self, gone: Sequence[Candidate]) -> dict[Resource, float]:
        """The load of each overloaded resource without these pods."""
        return {load.resource: load.lowest_without(_sum(load, gone)) for load in self._loads}

    def relief(self, candidate: Candidate) -> tuple[ResourceRelief, ...]:
        """The relief of the node by the pod, as shares of the node's capacity."""
        return tuple(
            ResourceRelief(load.resource, start - self._over(load, _sum(load, (candidate,))))
            for load, start in zip(self._loads, self._at_start.values(), strict=True)
        )

    def _share_left(self, load: SourceLoad, gone: Sequence[Candidate]) -> float:
        start = max(self._at_start[load.resource], TOLERANCE_RATIO)
        return max(0.0, self._over(load, _sum(load, gone))) / start

    @staticmethod
    def _over(load: SourceLoad, removed: Sequence[float]) -> float:
        return load.lowest_without(removed) - load.thresholds.stop_ratio


def _sum(load: SourceLoad, gone: Sequence[Candidate]) -> tuple[float, ...]:
    total = load.nothing
    for candidate in gone:
        usage = candidate.usage[load.resource]
        total = tuple(a + b for a, b in zip(total, usage, strict=True))
    return total


def most_of_destination(loaded: LoadedNode, gone: Sequence[Candidate]) -> Mapping[Resource, float]:
    """How full a destination of the last of these pods may become beyond its ceiling.

    In a saturated pool, as full as the source is left; elsewhere only ceilings count.
    """
    if not loaded.saturated:
        return NO_LIMITS
    left = Excess(loaded).levels(gone)
    return {resource: level for resource, level in left.items() if resource in loaded.saturated}
