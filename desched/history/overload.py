"""How long, and how far, nodes were above their targets."""

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from desched.model.resources import Resource

NEAR_FULL_RATIO = 0.9
FULL_RATIO = 0.995
"""What rounds to 100 %: the measured load of a full node hardly ever is exactly that."""

Floats = NDArray[np.float64]


class Overload(msgspec.Struct, frozen=True, gc=False):
    """How long, how far and where nodes were above their targets, as far as load is known.

    `above_90_node_minutes` is the time with CPU, memory or GPUs above 90 % of the node's capacity;
    `full_cpu_node_minutes` that at 100 % of its CPU, None where CPU is not known.
    `excess_point_minutes` is the area above the targets: percentage points of the worst resource,
    times minutes; a node is never more than full in it. `unmet_cpu_node_minutes` is the CPU that
    pods ask for and do not get, in minutes of a node's CPU; only simulations know it.
    """

    node_minutes: float
    above_90_node_minutes: float
    full_cpu_node_minutes: float | None
    excess_point_minutes: float
    longest_episode_minutes: float
    nodes: int
    unmet_cpu_node_minutes: float | None = None


def overload_of(
    loads: Mapping[Resource, tuple[Floats, Floats]],
    minutes: float | Floats,
    minutes_above: Floats | None = None,
    full_ratio: float = FULL_RATIO,
) -> Overload:
    """The overload of nodes.

    Each of `loads` has the ratios, node x step and NaN where they are unknown, and the targets, in
    a form that numpy extends to it. `minutes` is the length of the steps. `minutes_above`, node x
    step, is how much of each step a node was above a target; without it, steps are so or not. From
    `full_ratio` on, all CPU is used.
    """
    none = np.zeros((1, 1))
    above, severe, excess = none, none, none
    for resource, (ratios, targets) in loads.items():
        above = np.maximum(above, ratios > targets)
        points = np.nan_to_num(np.minimum(1.0, ratios) - targets, neginf=0.0)
        excess = np.maximum(excess, 100 * points)
        if resource is not Resource.PODS:
            severe = np.maximum(severe, ratios > NEAR_FULL_RATIO)
    if minutes_above is None:
        minutes_above = above * minutes
    cpu, _ = loads.get(Resource.CPU, (none * np.nan, none))
    return Overload(
        node_minutes=float(minutes_above.sum()),
        above_90_node_minutes=float((severe * minutes).sum()),
        full_cpu_node_minutes=(
            float(((cpu >= full_ratio) * minutes).sum()) if np.isfinite(cpu).any() else None
        ),
        excess_point_minutes=float((excess * minutes).sum()),
        longest_episode_minutes=_longest(minutes_above),
        nodes=int(minutes_above.any(axis=1).sum()),
    )


def _longest(minutes_above: Floats) -> float:
    """The longest time without a break, of any node."""
    until = minutes_above.cumsum(axis=1)
    begun = np.maximum.accumulate(np.where(minutes_above > 0, 0.0, until), axis=1)
    return float((until - begun).max(initial=0.0))
