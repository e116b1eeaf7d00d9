"""Moves do no harm together where each sets the soft taints that it needs."""

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desched.model.plan import Plan
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from tests.builders import (
    amounts,
    load,
    no_limits_but,
    node,
    planned,
    pod,
    policy,
    rule,
    snapshot,
    workload,
)
from tests.properties.joint_landings import MOST_RISK, WORKLOADS, outcomes, overloaded_by

MOST_MOVES = 6
POLICY = policy(
    rule(Resource.CPU),
    limits=no_limits_but(total=MOST_MOVES),
    max_landing_risk=MOST_RISK,
    steering=SteeringRules(SteeringMode.WHEN_NEEDED, 8),
)

Taints = list[set[str]]


def trap(chance: Random) -> Snapshot:
    """Hot nodes of which little is requested draw what leaves them, and the others are half hot."""
    names = [f"n{i}" for i in range(chance.randint(4, 8))]
    overloaded = names[: chance.choice([1, 2, 3])]
    nodes = [node(name, cpu=chance.choice([4, 4, 8])) for name in names]
    pods, usage, loads = [], {}, {}
    for i in range(chance.randint(6, 14)):
        on, of = chance.choice(overloaded), chance.choice(WORKLOADS)
        pods.append(
            pod(f"p{i}", on=on, of=of, request=amounts(chance.choice([0.1, 0.1, 0.3]), 0.1))
        )
        usage[f"p{i}"] = (chance.uniform(0.2, 0.9), 0.1)
    for one in nodes:
        cores = one.capacity.cpu_millicores / 1000
        is_hot = one.name in overloaded
        requested = chance.uniform(0, 0.5 if is_hot else 0.9) * cores
        of_pods = sum(usage[p.name][0] for p in pods if p.node == one.name)
        of_host = chance.uniform(0, 2) if is_hot else chance.uniform(0.3, 0.72) * cores
        pods.append(pod(f"full-{one.name}", on=one.name, of=None, request=amounts(requested, 0.1)))
        loads[one.name] = (min(1.0, (of_pods + of_host) / cores), 0.1)
    return snapshot(nodes, pods, load(loads, usage), [workload(name, 20) for name in WORKLOADS])


def as_set(plan: Plan) -> Taints:
    """As each replacement lands before the next eviction."""
    taints, found = set[str](), []
    for eviction in plan.evictions:
        taints = taints | set(eviction.steered)
        found.append(taints)
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 100_000))
def test_no_likely_outcome_puts_a_node_above_its_target(seed: int) -> None:
    seen = trap(Random(seed))  # noqa: S311 (no secret)
    plan = planned(seen, POLICY)

    for where in outcomes(seen.cluster, plan.evictions, as_set(plan)):
        assert overloaded_by(seen, plan, where) == []


def test_the_traps_make_plans_in_which_later_moves_need_taints() -> None:
    plans = (planned(trap(Random(seed)), POLICY) for seed in range(50))  # noqa: S311 (no secret)
    later = [any(e.steered for e in plan.evictions[1:]) for plan in plans]
    assert sum(later) > 3
