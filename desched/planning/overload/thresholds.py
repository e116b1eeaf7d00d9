"""The low, target, stop and ceiling thresholds of each pool of nodes."""

import math
from collections.abc import Mapping, Sequence

from desched.model.resources import Resource
from desched.planning.overload.node_load import NodeLoad, Thresholds
from desched.policy.policy import NodePool, Policy, ResourceRule


def pool_thresholds(
    pool: NodePool, policy: Policy, nodes: Sequence[Sequence[NodeLoad]]
) -> Mapping[Resource, Thresholds]:
    """The thresholds of a pool; deviation thresholds are relative to the mean of its nodes."""
    return {
        rule.resource: _around_mean(rule, policy, nodes) if policy.deviation else _fixed(rule)
        for rule in pool.rules
    }


def weighted_mean(loads: Sequence[tuple[float, float]]) -> float:
    """The mean of (ratio, weight) pairs; 0 if there are none."""
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
