"""Low, trigger, stop and ceiling: the lines that load is held against, for each pool of nodes."""

import math
from collections.abc import Mapping, Sequence

from desched.model.resources import Resource
from desched.planning.overload.node_load import Lines, NodeLoad
from desched.policy.policy import NodePool, Policy, ResourceRule


def pool_lines(
    pool: NodePool, policy: Policy, nodes: Sequence[Sequence[NodeLoad]]
) -> Mapping[Resource, Lines]:
    """The lines of a pool; with deviation thresholds they lie around the mean of its nodes."""
    return {
        rule.resource: _around_mean(rule, policy, nodes) if policy.deviation else _fixed(rule)
        for rule in pool.rules
    }


def weighted_mean(loads: Sequence[tuple[float, float]]) -> float:
    """The mean of (ratio, weight) pairs; 0 if there are none."""
    total = math.fsum(weight for _, weight in loads)
    return math.fsum(ratio * weight for ratio, weight in loads) / total if total else 0.0


def _fixed(rule: ResourceRule) -> Lines:
    trigger = rule.trigger_ratio
    return Lines(
        rule.low_ratio,
        trigger,
        trigger - rule.stop_margin_ratio,
        trigger - rule.ceiling_margin_ratio,
    )


def _around_mean(rule: ResourceRule, policy: Policy, nodes: Sequence[Sequence[NodeLoad]]) -> Lines:
    # Weighted by capacity, the mean stays where it is whatever moves; so plans converge.
    mean = weighted_mean(
        [
            (load.lowest, load.bases[0].denominator)
            for loads in nodes
            for load in loads
            if load.rule.resource is rule.resource
        ]
    )
    # Load goes up and down by as much as the dead band of itself.
    distance = max(rule.trigger_ratio, policy.dead_band_ratio)
    trigger = max(policy.deviation_floor_ratio, min(1.0, mean + distance))
    # Relief must not go below the middle of the band, nor a destination under the mean.
    return Lines(
        max(0.0, mean - rule.low_ratio),
        trigger,
        trigger - min(rule.stop_margin_ratio, distance / 2),
        trigger - min(rule.ceiling_margin_ratio, distance),
    )
