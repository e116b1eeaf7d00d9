"""Nodes that are held are kept free until the drain ends."""

from datetime import timedelta
from typing import Any

import msgspec

from desched.model.cluster import STEERING_TAINT, Pod
from desched.model.plan import Plan
from desched.model.state import State
from desched.plugins.gpus.drains.drain import Drain, DrainEnd, DrainPlan
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from tests.builders import NOW, load, node, planned, pod, policy, snapshot
from tests.unit.plugins.gpus.gpu_cluster import (
    draining,
    drains,
    gpu_node,
    runs,
    waits,
)

BIG = waits("big")
DRAIN = Drain((BIG.ref,), ("g0",), 8, NOW, NOW + timedelta(hours=1), namespace="train")
HELD = gpu_node("g0", taints=(STEERING_TAINT,), steered_until=NOW + timedelta(minutes=5))


def relief(state: State, *others: Pod, **by: Any) -> Plan:
    """The plan for an overloaded node beside the drained one and a node that is half full."""
    nodes = [HELD, node("hot"), node("half")]
    pods = [pod("a", "hot"), BIG, *others]
    loads = {"g0": (0.0, 0.0), "hot": (0.95, 0.5), "half": (0.3, 0.3)}
    return planned(snapshot(nodes, pods, load(loads, {"a": (1.0, 1.0)})), drains(**by), state)


def test_a_pod_of_an_overloaded_node_does_not_go_to_a_held_node() -> None:
    [eviction] = relief(draining(DRAIN)).evictions
    assert eviction.expected_node == "half"
    assert "g0" not in eviction.likely_nodes


def test_a_held_node_is_no_destination_even_where_no_taint_keeps_pods_off() -> None:
    off: dict[str, Any] = {"steering": SteeringRules(SteeringMode.OFF)}
    [before] = relief(State(), **off).evictions
    assert before.expected_node == "g0"
    assert not relief(draining(DRAIN), **off).evictions


def test_what_a_node_is_drained_for_needs_no_room_elsewhere() -> None:
    state = draining(DRAIN)
    [waiting] = relief(state, runs("last", "g0")).unreserved
    assert (waiting.reason.value, waiting.pods) == ("nodes_held", 1)
    assert not relief(state).unreserved  # its room is there
    ended = DRAIN.ended(DrainEnd.TIME_OVER, NOW)
    assert "nodes_held" not in {each.reason.value for each in relief(draining(ended)).unreserved}


def test_a_held_node_keeps_its_taint_and_one_that_is_not_held_loses_it() -> None:
    plan = relief(draining(DRAIN))
    assert "g0" in {taint.node for taint in plan.taints}
    assert not plan.removed_taints
    ended = DRAIN.ended(DrainEnd.LANDED, NOW)
    without = planned(
        snapshot([HELD, node("half")], [], load({"g0": (0.0, 0.0), "half": (0.4, 0.4)})),
        drains(),
        draining(ended),
    )
    assert [removal.node for removal in without.removed_taints] == ["g0"]


def test_a_policy_without_the_plugin_holds_nothing() -> None:
    seen = snapshot([HELD], [], load({"g0": (0.0, 0.0)}))
    plan = planned(seen, policy(), draining(DRAIN))
    assert not plan.taints
    assert msgspec.structs.replace(DRAIN) in DrainPlan.of(plan.extras).drains
