"""Soft taints for later moves do no harm, even if earlier replacements have not landed yet."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from desched.model.plan import Plan, RefusalReason
from desched.model.resources import Amounts, Resource
from desched.model.snapshot import Snapshot
from desched.model.state import ForecastCheck, State
from desched.planning.placement.forecast_trust import Distrust
from desched.planning.placement.refusals import IF_EARLIER_LATE, IF_LATE
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from tests.builders import (
    amounts,
    evicted,
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


def nearly_full(seen: Snapshot, chance: Random) -> Snapshot:
    """The same, but on most nodes little is left of what pods can request."""
    cluster, pods = seen.cluster, []
    for found in cluster.pods:
        one, on = found, cluster.node_by_name[found.node]
        if one.name == f"full-{on.name}" and chance.random() < 0.6:
            moving = [p for p in cluster.pods if p.node == on.name and p is not found]
            asked = sum(p.scheduling.requests.cpu_millicores for p in moving)
            left = chance.choice([100, 200, 300, 400, 600])
            fills = max(0, on.allocatable.cpu_millicores - asked - left)
            of_memory = one.scheduling.requests.memory_bytes
            scheduling = replace(one.scheduling, requests=Amounts(fills, of_memory, pods=1))
            one = replace(one, scheduling=scheduling)
        pods.append(one)
    return replace(seen, cluster=replace(cluster, pods=tuple(pods)))


def as_set(plan: Plan) -> Taints:
    """As each replacement lands before the next eviction."""
    taints, found = set[str](), []
    for eviction in plan.evictions:
        taints = taints | set(eviction.steered)
        found.append(taints)
    return found


def one_late(plan: Plan) -> Taints:
    """As each replacement lands once the taints for the next eviction are there."""
    taints = as_set(plan)
    return [*taints[1:], *taints[-1:]]


def all_late(plan: Plan) -> Taints:
    """As none has landed before all taints are there."""
    return as_set(plan)[-1:] * len(plan.evictions)


@pytest.mark.parametrize("landing", [as_set, one_late, all_late])
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 100_000))
# Kept off the node where it is expected, or would be likely to go, one meets the later pod.
@example(seed=10)
@example(seed=121)
@example(seed=190)
# Two that are kept off their nodes meet each other.
@example(seed=289)
@example(seed=98)
# A later move needs no further taints, but meets one that is late for those of the move before it.
@example(seed=28353)
def test_no_likely_outcome_puts_a_node_above_its_target_however_late_replacements_land(
    landing: Callable[[Plan], Taints], seed: int
) -> None:
    seen = trap(Random(seed))  # noqa: S311 (no secret)
    plan = planned(seen, POLICY)

    for where in outcomes(seen.cluster, plan.evictions, landing(plan)):
        assert overloaded_by(seen, plan, where) == []


# Late, a replacement takes the last room of the node on which a later one is expected.
@pytest.mark.parametrize("seed", [1170, 1749, 1800, 2470])
def test_neither_does_one_where_late_replacements_take_the_last_room(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 (no secret)
    seen = nearly_full(trap(chance), chance)
    plan = planned(seen, POLICY)

    for landing in (one_late, all_late):
        for where in outcomes(seen.cluster, plan.evictions, landing(plan)):
            assert overloaded_by(seen, plan, where) == []


def test_the_traps_make_plans_in_which_later_moves_need_taints() -> None:
    plans = (planned(trap(Random(seed)), POLICY) for seed in range(50))  # noqa: S311 (no secret)
    later = [any(e.steered for e in plan.evictions[1:]) for plan in plans]
    assert sum(later) > 3


@pytest.mark.parametrize(
    ("seed", "name", "why"), [(17, "p1", IF_LATE), (252, "p0", IF_EARLIER_LATE)]
)
def test_a_pod_stays_if_it_or_its_taints_might_harm_with_late_replacements_and_is_told_which(
    seed: int, name: str, why: str
) -> None:
    refusals = planned(trap(Random(seed)), POLICY).refusals  # noqa: S311 (no secret)
    (found,) = (refusal for refusal in refusals if refusal.pod.name == name)
    assert (found.reason, found.detail) == (RefusalReason.LANDING_RISK, why)


@pytest.mark.parametrize("seed", [98, 121, 125])
def test_late_landings_bear_as_much_less_as_forecasts_are_distrusted(seed: int) -> None:
    seen = trap(Random(seed))  # noqa: S311 (no secret)
    where: dict[str, str] = {"pool": "", "namespace": "apps"}
    check = ForecastCheck(seen.taken_at, risk=0.1, bad=True, probability=0.7, hit=True, **where)
    distrusted = State(forecasts=(check,) * 10)
    surcharge = Distrust.of(distrusted, "", seen.taken_at).surcharge("apps")

    plan = planned(seen, replace(POLICY, max_landing_risk=0.6), distrusted)

    assert evicted(plan) == evicted(
        planned(seen, replace(POLICY, max_landing_risk=0.6 - surcharge))
    )
