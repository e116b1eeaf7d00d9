"""A replacement does not land where the node would come above its target, if it can be helped."""

from typing import Any

import msgspec
import pytest

from desched.model.cluster import PodAffinityTerm, Toleration
from desched.model.plan import RefusalReason
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.destination import Destination
from desched.planning.planner import before_moves
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, ResourceRule, SteeringRules
from tests.builders import (
    amounts,
    evicted,
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    rule,
    selector,
    snapshot,
    workload,
)

CPU = rule(Resource.CPU, target_ratio=0.8)
PODS = rule(Resource.PODS, target_ratio=0.8)


def neighbours(warm_load: float, warm_pods: int = 0, **scheduling: Any) -> Snapshot:
    """The scheduler would put the pod of the hot node, 10 % of its CPU, onto `warm`."""
    pods = [pod("web", on="hot", request=amounts(0.4, 1), scheduling=scheduling)]
    pods += [
        pod(f"fill-{name}", on=name, of=None, request=amounts(cpu, 4 * cpu))
        for name, cpu in (("hot", 3), ("cool", 1))
    ]
    pods += [pod(f"tiny{i}", on="warm", of=None, request=amounts(0, 0)) for i in range(warm_pods)]
    cpu_loads = {"hot": 0.82, "warm": warm_load, "cool": 0.1}
    loads = {name: (ratio, 0.1) for name, ratio in cpu_loads.items()}
    usage = {"web": (0.4, 0.1)}
    return snapshot(map(node, cpu_loads), pods, load(loads, usage), [workload("web", 20)])


def steering(most: int = 3, *rules: ResourceRule) -> Policy:
    return policy(
        *(rules or (CPU,)),
        max_landing_risk=0.15,
        steering=SteeringRules(SteeringMode.WHEN_NEEDED if most else SteeringMode.OFF, most),
    )


@pytest.mark.parametrize(("warm_load", "steered"), [(0.695, ()), (0.705, ("warm",))])
def test_a_node_that_a_replacement_would_bring_above_its_target_is_tainted(
    warm_load: float, steered: tuple[str, ...]
) -> None:
    (eviction,) = planned(neighbours(warm_load), steering()).evictions
    assert eviction.steered == steered
    assert eviction.landing_risk == 0.0


def test_so_is_one_that_would_gain_more_overload_than_the_move_has_to_spare() -> None:
    """It saves 55 minutes, and must save nearly 45 for itself: warm may gain 10."""
    dear = msgspec.structs.replace(steering(), eviction_price_minutes=35.0)
    (eviction,) = planned(neighbours(0.695), dear).evictions
    assert eviction.steered == ("warm",)
    (eviction,) = planned(neighbours(0.655), dear).evictions
    assert eviction.steered == ()


def test_without_steering_such_a_node_keeps_the_pod_where_it_is() -> None:
    (eviction,) = planned(neighbours(0.695), steering(most=0)).evictions
    assert [chance.node for chance in eviction.landing] == ["warm"]
    assert planned(neighbours(0.705), steering(most=0)).evictions == ()


def test_a_pod_that_tolerates_the_taint_stays_rather_than_land_there() -> None:
    tolerant = Toleration(operator="Exists")
    assert evicted(planned(neighbours(0.695, tolerations=(tolerant,)), steering())) == ["web"]
    plan = planned(neighbours(0.705, tolerations=(tolerant,)), steering())
    assert reasons(plan)["web"] == RefusalReason.LANDING_RISK


@pytest.mark.parametrize(("warm_pods", "steered"), [(86, ()), (87, ()), (88, ("warm",))])
def test_pods_are_counted_and_need_no_margin(warm_pods: int, steered: tuple[str, ...]) -> None:
    """With the replacement it is 88 of 110, which is the target, with 87 others."""
    (eviction,) = planned(neighbours(0.1, warm_pods), steering(3, CPU, PODS)).evictions
    assert eviction.steered == steered


def test_the_replacement_is_reserved_where_it_is_likeliest_even_above_the_ceiling() -> None:
    """`warm` ends between its ceiling and its target; `cool` stays under its ceiling."""
    seen, by = neighbours(0.62), steering(most=0)
    book = UsageBook(seen, by, seen.taken_at)
    context = EligibilityContext.of(book, State())
    destinations = before_moves(context, classify(book, State())).destinations
    web = next(one for one in seen.cluster.pods if one.name == "web")
    found = destinations.destination_of(web, {Resource.CPU: 400.0})
    assert isinstance(found, Destination)
    assert found.expected_node == "warm"
    assert found.count == 1


def test_a_pod_of_another_scheduler_stays_if_only_busy_nodes_can_take_it_beside_itself() -> None:
    """`cool` has room only once the pod has left: both may not be on one node of the zone."""
    zone = "topology.kubernetes.io/zone"
    apart = PodAffinityTerm(zone, selector(app="web"))
    one = pod(
        "web",
        on="hot",
        request=amounts(0.4, 1),
        scheduler="volcano",
        scheduling={"pod_anti_affinity": (apart,)},
    )
    zones = {"hot": "a", "cool": "a", "busy": "b"}
    nodes = [node(name, labels={zone: where}) for name, where in zones.items()]
    loads = load({"hot": (0.9, 0.1), "cool": (0.1, 0.1), "busy": (0.78, 0.1)}, {"web": (0.4, 0.1)})
    plan = planned(snapshot(nodes, [one], loads, [workload("web", 20)]), policy(CPU))
    (refusal,) = plan.refusals
    assert refusal.reason is RefusalReason.NO_NODE_UNDER_CEILING
    assert refusal.detail == "until it leaves, volcano can place it on no node under its ceiling"
