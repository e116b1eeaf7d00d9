"""What has left a node, or is leaving it, no longer counts as its load."""

from datetime import timedelta
from typing import Any

import pytest

from desched.model.cluster import PodRef
from desched.model.plan import NodeClass, NodeReason, NodeVerdict, RefusalReason
from desched.model.resources import Resource
from desched.model.state import EvictionRecord, State
from desched.planning.overload.classification import classify
from desched.planning.overload.measurement import DepartedLoad
from desched.planning.overload.node_load import Basis
from desched.planning.overload.pod_usage import UsageBook
from tests.builders import NOW, certain, load, node, planned, pod, policy, snapshot

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
    ("seconds", "expected"),
    [(-61, 0.75), (-60, 0.5), (30, 0.5), (600, 0.5), (601, 0.75), (7200, 0.75)],
)
def test_a_pod_leaves_only_around_the_end_of_its_grace_period(
    seconds: int, expected: float
) -> None:
    ends = NOW + timedelta(seconds=seconds)
    assert ratio_left(deleting=True, leaves_at=ends) == expected


def test_a_pod_that_ended_has_left_whenever_it_was_deleted() -> None:
    long_ago = NOW - timedelta(days=3)
    assert ratio_left(phase="Succeeded", deleting=True, leaves_at=long_ago) == 0.5


@pytest.mark.parametrize(
    ("late", "expected"), [(timedelta(seconds=60), {"n"}), (timedelta(days=3), set())]
)
def test_a_node_does_not_wait_for_an_evicted_pod_that_is_overdue(
    late: timedelta, expected: set[str]
) -> None:
    stuck = pod("gone", on="n", deleting=True, leaves_at=NOW - late)
    seen = snapshot([node("n")], [stuck], load({"n": (0.75, 0.1)}))
    departed = DepartedLoad(left(seconds_ago=900), UsageBook(seen, policy(), NOW))
    assert set(departed.settling(300)) == expected


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


@pytest.mark.parametrize(
    ("leaves_in", "said"),
    [
        (timedelta(days=-3), "3 days beyond its grace period, 1.0 cores"),
        (timedelta(minutes=-90), "1.5 h beyond its grace period, 1.0 cores"),
        (timedelta(hours=4), "it may take 4.0 h, 1.0 cores"),
    ],
)
def test_a_node_is_overloaded_by_a_pod_that_does_not_leave_which_is_named(
    leaves_in: timedelta, said: str
) -> None:
    stuck = pod("p", on="n", deleting=True, leaves_at=NOW + leaves_in)
    seen = snapshot(
        [node("n"), node("m")], [stuck], load({"n": (0.9, 0.1), "m": (0.1, 0.1)}, {"p": (1.0, 0.1)})
    )
    plan = planned(seen)
    (verdict,) = (v for v in plan.nodes if v.node == "n")
    assert verdict.node_class is NodeClass.OVERLOADED
    assert [(r.pod.name, r.reason, r.detail) for r in plan.refusals] == [
        ("p", RefusalReason.TERMINATING, said)
    ]


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
