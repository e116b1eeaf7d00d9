"""What has left a node, or is leaving it, no longer counts as its load."""

from datetime import timedelta
from typing import Any

import pytest

from desched.model.cluster import PodRef
from desched.model.plan import NodeClass, NodeReason, NodeVerdict
from desched.model.resources import Resource
from desched.model.state import EvictionRecord, State
from desched.planning.overload.classification import classify
from desched.planning.overload.measurement import DepartedLoad
from desched.planning.overload.node_load import Basis
from desched.planning.overload.pod_usage import UsageBook
from tests.builders import NOW, certain, load, node, pod, policy, snapshot

BEFORE = (Basis(4000.0, (0.75,)),)


def ratio_left(state: State | None = None, **fields: Any) -> float:
    """The CPU of a node with a pod of one of its four cores, of three in use."""
    seen = snapshot(
        [node("n")], [pod("p", on="n", **fields)], load({"n": (0.75, 0.1)}, {"p": (1.0, 0.1)})
    )
    departed = DepartedLoad(state or State(), UsageBook(seen, policy(), NOW))
    (basis,) = departed.leave("n", Resource.CPU, BEFORE)
    return basis.ratios[0]


def left(seconds_ago: float) -> State:
    at = NOW - timedelta(seconds=seconds_ago)
    gone = PodRef("apps", "gone", "uid-gone")
    return State(
        (EvictionRecord(gone, "n", "uid-web", at, certain("m"), cpu_millicores=1000, left_at=at),)
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 0.75),
        ({"deleting": True}, 0.5),
        ({"phase": "Succeeded"}, 0.5),
        ({"phase": "Failed"}, 0.5),
    ],
)
def test_a_pod_that_ends_or_has_ended_is_leaving(fields: dict[str, Any], expected: float) -> None:
    assert ratio_left(**fields) == expected


@pytest.mark.parametrize(
    ("seconds_ago", "expected"), [(0, 0.5), (150, 0.625), (300, 0.75), (900, 0.75)]
)
def test_what_a_window_has_not_seen_leave_is_taken_off(seconds_ago: float, expected: float) -> None:
    assert ratio_left(left(seconds_ago)) == expected


@pytest.mark.parametrize(("seconds_ago", "expected"), [(299, {"n"}), (300, set()), (301, set())])
def test_a_node_settles_for_the_shortest_window(seconds_ago: float, expected: set[str]) -> None:
    seen = snapshot([node("n")], (), load({"n": (0.75, 0.1)}))
    departed = DepartedLoad(left(seconds_ago), UsageBook(seen, policy(), NOW))
    assert set(departed.settling(300)) == expected


def judged(ratio: float, state: State | None = None, **fields: Any) -> NodeVerdict:
    """A node with this CPU and a target of 80 %, of whose four cores a pod uses one."""
    seen = snapshot(
        [node("n")], [pod("p", on="n", **fields)], load({"n": (ratio, 0.1)}, {"p": (1.0, 0.1)})
    )
    (verdict,) = classify(UsageBook(seen, policy(), NOW), state or State()).verdicts
    return verdict


def departed_cpu(verdict: NodeVerdict) -> float:
    (cpu,) = (each for each in verdict.pressures if each.resource is Resource.CPU)
    return cpu.departed_ratio


@pytest.mark.parametrize("fields", [{"phase": "Succeeded"}, {"deleting": True}])
def test_a_node_above_its_target_only_by_pods_that_left_has_that_as_its_reason(
    fields: dict[str, Any],
) -> None:
    verdict = judged(0.9, **fields)
    assert verdict.node_class is NodeClass.BALANCED
    assert verdict.reason is NodeReason.DEPARTED_LOAD
    assert "cpu 90.0%, 65.0% without them" in verdict.detail
    assert departed_cpu(verdict) == pytest.approx(0.25)


def test_what_desched_evicted_is_such_a_pod() -> None:
    verdict = judged(0.9, left(150))
    assert (verdict.node_class, verdict.reason) == (NodeClass.BALANCED, NodeReason.DEPARTED_LOAD)
    assert departed_cpu(verdict) == pytest.approx(0.125)


def test_a_node_that_is_below_its_target_anyway_has_no_reason() -> None:
    verdict = judged(0.8, phase="Succeeded")
    assert (verdict.node_class, verdict.reason) == (NodeClass.BALANCED, None)


def test_an_overloaded_node_has_what_left_it_in_its_numbers() -> None:
    verdict = judged(0.99, left(240))
    assert verdict.node_class is NodeClass.OVERLOADED
    assert verdict.reason is NodeReason.SETTLING
    assert departed_cpu(verdict) == pytest.approx(0.05)
