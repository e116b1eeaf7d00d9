"""Nodes that are held are kept free until the drain ends."""

from datetime import timedelta
from typing import Any

import msgspec

from desched.model.cluster import STEERING_TAINT, Pod
from desched.model.drains import Drain, DrainEnd
from desched.model.plan import Plan
from desched.model.state import State
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from tests.builders import NOW, load, node, planned, pod, policy, snapshot
from tests.unit.plugins.gpus.gpu_cluster import drains, gpu_node, runs, waits

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
    [eviction] = relief(State(drains=(DRAIN,))).evictions
    assert eviction.expected_node == "half"
    assert "g0" not in eviction.likely_nodes


def test_a_held_node_is_no_destination_even_where_no_taint_keeps_pods_off() -> None:
    off: dict[str, Any] = {"steering": SteeringRules(SteeringMode.OFF)}
    [before] = relief(State(), **off).evictions
    assert before.expected_node == "g0"
    assert not relief(State(drains=(DRAIN,)), **off).evictions


def test_what_a_node_is_drained_for_needs_no_room_elsewhere() -> None:
    state = State(drains=(DRAIN,))
    [waiting] = relief(state, runs("last", "g0")).unreserved
    assert (waiting.reason.value, waiting.pods) == ("drain", 1)
    assert not relief(state).unreserved  # its room is there
    ended = DRAIN.ended(DrainEnd.TIME_OVER, NOW)
    assert "drain" not in {each.reason.value for each in relief(State(drains=(ended,))).unreserved}


def test_a_held_node_keeps_its_taint_and_one_that_is_not_held_loses_it() -> None:
    plan = relief(State(drains=(DRAIN,)))
    assert "g0" in {taint.node for taint in plan.taints}
    assert not plan.removed_taints
    ended = DRAIN.ended(DrainEnd.LANDED, NOW)
    without = planned(
        snapshot([HELD, node("half")], [], load({"g0": (0.0, 0.0), "half": (0.4, 0.4)})),
        drains(),
        State(drains=(ended,)),
    )
    assert [removal.node for removal in without.removed_taints] == ["g0"]


def test_a_policy_without_the_plugin_holds_nothing() -> None:
    seen = snapshot([HELD], [], load({"g0": (0.0, 0.0)}))
    plan = planned(seen, policy(), State(drains=(DRAIN,)))
    assert not plan.taints
    assert msgspec.structs.replace(DRAIN) in plan.drains
