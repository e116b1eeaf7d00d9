"""Whatever a plan's moves may well lead to together puts no node above its target."""

from random import Random

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
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
    rule(Resource.CPU), limits=no_limits_but(total=MOST_MOVES), max_landing_risk=MOST_RISK
)


def cluster(chance: Random) -> Snapshot:
    """A few nodes, some hot and others just below their target, and pods that ask for little."""
    names = [f"n{i}" for i in range(chance.randint(3, 8))]
    overloaded = names[: chance.choice([1, 2, 3])]
    nodes = [node(name, cpu=chance.choice([4, 4, 8])) for name in names]
    pods, usage = [], {}
    for i in range(chance.randint(4, 16)):
        on = chance.choice(overloaded if chance.random() < 0.6 else names)
        cores = chance.uniform(0.2, 0.7) if on in overloaded else chance.uniform(0, 0.2)
        of, request = chance.choice(WORKLOADS), chance.choice([0.1, 0.1, 0.4])
        pods.append(pod(f"p{i}", on=on, of=of, request=amounts(request, 0.1)))
        usage[f"p{i}"] = (cores, 0.1)
    loads = {}
    for one in nodes:
        size = one.capacity.cpu_millicores
        of_pods = 1000 * sum(usage[p.name][0] for p in pods if p.node == one.name)
        if one.name in overloaded:
            of_host = chance.uniform(0, 2000)
        else:
            of_host = chance.choice([chance.uniform(0.2, 0.68) * size, 0])
        loads[one.name] = (min(1.0, (of_pods + of_host) / size), 0.1)
    return snapshot(nodes, pods, load(loads, usage), [workload(name, 9) for name in WORKLOADS])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 100_000))
# Each landing harmless or unlikely, and together neither: two or three meet on one node.
@example(675)
@example(2101)
@example(3433)
def test_no_likely_outcome_of_all_moves_puts_a_node_above_its_target(seed: int) -> None:
    seen = cluster(Random(seed))  # noqa: S311 (no secret)
    plan = planned(seen, POLICY)

    for where in outcomes(seen.cluster, plan.evictions):
        assert overloaded_by(seen, plan, where) == []


def test_the_clusters_make_plans_of_several_moves_that_may_land_in_several_ways() -> None:
    several = 0
    for seed in range(100):
        seen = cluster(Random(seed))  # noqa: S311 (no secret)
        evictions = planned(seen, POLICY).evictions
        several += len(evictions) > 1 and len(list(outcomes(seen.cluster, evictions))) > 1
    assert several > 10


def test_a_refusal_for_an_encounter_with_earlier_moves_says_so() -> None:
    refusals = planned(cluster(Random(237)), POLICY).refusals  # noqa: S311 (no secret)
    (detail,) = (refusal.detail for refusal in refusals if refusal.pod.name == "p13")
    assert "0% likely to come back to n1 and 0% to land where it would do harm" in detail
    assert "48% to land with earlier moves on a node without room for all" in detail
