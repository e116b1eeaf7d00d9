"""Where the replacement of one pod will probably land."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from desched.model.landing import NEARLY_CERTAIN, LandingChance
from desched.model.resources import Resource
from desched.planning.arrays import Floats, Positions
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.placement.landing_forecast import Landing
from desched.planning.placement.projected_load import NO_LIMITS

MOST_NAMED = 5
"""The maximum number of likely nodes that a plan names."""


class Destination(msgspec.Struct, frozen=True):
    """The likeliest node for a replacement, and the probability of a harmful landing.

    `count` is the number of nodes where the pod fits under the ceiling. `view` is the scheduler's
    view at the landing. `shares` is by how much the replacement counts on each node, `cost_minutes`
    the expected overload that the likely nodes gain, and what newcomers cost. `steered` names the
    nodes whose soft taints make the risk acceptable. `extra_cost` is what the move costs more
    because limits are relaxed. `at_most` is that of `Bearable`.
    """

    landing: Landing
    expected_node: str
    risk: float
    count: int
    view: SchedulerView
    shares: Floats
    cost_minutes: float = 0.0
    steered: tuple[str, ...] = ()
    extra_cost: float = 0.0
    at_most: Mapping[Resource, float] = NO_LIMITS

    @property
    def likely(self) -> tuple[LandingChance, ...]:
        """The likeliest nodes with their probabilities, `expected_node` first."""
        return self.landing.chances(NEARLY_CERTAIN, MOST_NAMED, self.expected_node)

    @property
    def possible(self) -> int:
        """The number of nodes where the replacement may land."""
        return int(np.count_nonzero(self.landing.probabilities))


class UncertainLanding(NamedTuple):
    """A replacement that may land elsewhere than expected, see `Destinations.expect`."""

    landing: Landing
    charge: Mapping[Resource, float]
    expected: str
    placed: Positions | None
