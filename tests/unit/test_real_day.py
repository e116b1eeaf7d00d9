"""What the benchmark on a real control plane computes by itself, without one."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import yaml

import desched.planning.eligibility.terms as eligibility
from benchmarks import faster_service
from benchmarks.closed_loop import POLICY
from benchmarks.day import CAPACITY, NODE, Kind, pace_of
from benchmarks.faster_service import LONGEST_SPEED, divide_constants, faster_policy
from benchmarks.live_load import LiveLoad
from benchmarks.real_hours import Times, lag_of, named_in
from desched.lab.closed_loop import Day, Pace
from desched.lab.history import UsageSeries
from desched.model.cluster import PodRef
from desched.model.landing import LandingChance
from desched.planning import clocks
from desched.planning.overload import forecast, outlook
from desched.policy_file.loading import parse_policy

DAY = Day({"n1": NODE, "n2": NODE}, ())
TARGETS = np.array([0.8, 0.85])
HALF_A_NODE, WHOLE_NODE = UsageSeries(300.0, [CAPACITY / 2]), UsageSeries(300.0, [CAPACITY])


def pod(name: str, node: str = "", owner: str = "rs", **metadata: Any) -> dict[str, Any]:
    """A pod as the API server has it, running if it has a node."""
    return {
        "metadata": {
            "namespace": "day",
            "name": name,
            "uid": f"uid of {name}",
            "ownerReferences": [{"uid": owner}],
            **metadata,
        },
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": "Running" if node else "Pending"},
    }


def began(*pods: tuple[dict[str, Any], UsageSeries]) -> LiveLoad:
    """The load of these pods at second 0."""
    load = LiveLoad(DAY, speed=20)
    load.begin(pods)
    load.see(0.0, [each for each, _ in pods])
    return load


def test_a_replacement_takes_over_the_load_of_the_pod_that_it_replaces() -> None:
    a, b = pod("a", "n1"), pod("b", "n1")
    load = began((a, HALF_A_NODE), (b, WHOLE_NODE))
    load.see(60.0, [a, pod("b", "n1", deletionTimestamp="now"), pod("c")])
    load.see(120.0, [a, pod("c", "n2")])
    found = load.result(TARGETS, Pace(300.0), 240.0)
    assert found.load[:, :, 0].tolist() == [[1.5, 1.5, 0.5, 0.5], [0, 0, 1, 1]]
    (move,) = found.moves
    assert (move.at, move.node, move.landed_at, move.landed_on) == (60.0, "n1", 120.0, "n2")
    assert move.ref == PodRef("day", "b", "uid of b")
    assert move.overloaded  # three minutes after the landing, and it was not its source
    assert found.landed_overloaded == 1
    assert found.pending_minutes == 1
    assert found.replicas == {"rs": 2}


def test_a_pod_that_ends_takes_its_load_to_its_end_while_the_replacement_has_it_too() -> None:
    a = pod("a", "n1")
    load = began((a, HALF_A_NODE))
    load.see(60.0, [pod("a", "n1", deletionTimestamp="now"), pod("b", "n2")])
    load.see(120.0, [pod("b", "n2")])
    assert load.result(TARGETS, Pace(300.0), 180.0).load[:, :, 0].tolist() == [
        [0.5, 0.5, 0],
        [0, 0.5, 0.5],
    ]


def test_a_pod_of_another_workload_replaces_nothing() -> None:
    load = began((pod("a", "n1"), HALF_A_NODE))
    load.see(60.0, [pod("z", "n2", owner="other")])
    found = load.result(TARGETS, Pace(300.0), 120.0)
    assert found.load[1, :, 0].tolist() == [0, 0]
    assert [move.landed_on for move in found.moves] == [""]


def test_the_result_is_of_the_time_after_the_lead_in() -> None:
    a = pod("a", "n1")
    load = began((a, UsageSeries(300.0, [CAPACITY, CAPACITY / 4])))
    load.see(300.0, [pod("b")])
    load.see(330.0, [pod("b", "n2")])
    load.see(420.0, [pod("c", "n1")])  # too late to count
    found = load.result(TARGETS, Pace(300.0, begins_at=300.0), 120.0)
    assert found.load[1, :, 0].tolist() == [0.125, 0.25]
    assert [(move.at, move.landed_at) for move in found.moves] == [(0.0, 30.0)]


def test_the_exporter_sees_the_usage_of_the_moment() -> None:
    first, second = UsageSeries(300.0, [[1500.0, 10.0]]), UsageSeries(300.0, [[1.0, 1.0]])
    a, b, other = pod("a", "n1"), pod("b", "n1"), pod("z", "n1", owner="other")
    load = began((a, first), (b, second))
    pods = (a, b, other)
    shown = load.with_usage(pods)
    assert [each["metadata"].get("annotations") for each in shown] == [
        {"kwok.x-k8s.io/usage-cpu": "1500m", "kwok.x-k8s.io/usage-memory": "10"},
        {"kwok.x-k8s.io/usage-cpu": "1m", "kwok.x-k8s.io/usage-memory": "1"},
        None,
    ]
    assert load.with_usage(pods) is shown  # so that the exporter need not compare them


def test_the_faster_policy_divides_every_duration() -> None:
    usual = parse_policy(POLICY, "usual").policy
    fast = parse_policy(faster_policy(POLICY, LONGEST_SPEED, "http://here"), "fast").policy
    assert fast.metrics.address == "http://here"
    for part in ("follow_up", "limits", ""):
        slow_part, fast_part = (getattr(p, part) if part else p for p in (usual, fast))
        for name in slow_part.__struct_fields__:
            is_time = name.endswith(("_seconds", "_minutes"))
            if is_time and (time := getattr(slow_part, name)):
                assert getattr(fast_part, name) == time / LONGEST_SPEED, name
    assert [rule.windows_seconds for rule in fast.rules] == [(15,), (15,)]
    assert (usual.limits.per_minute, fast.limits.per_minute) == (20, 400)
    assert fast.rules[0].target_ratio == usual.rules[0].target_ratio


def test_written_durations_are_divided_too() -> None:
    document = yaml.safe_load(POLICY)
    args = document["profiles"][0]["pluginConfig"][0]["args"]
    args |= {"evictionPrice": "20m", "followUp": {"coolDown": {"first": "2h"}}}
    fast = parse_policy(faster_policy(yaml.safe_dump(document), 20, "http://here"), "fast").policy
    assert fast.eviction_price_minutes == 1
    assert fast.follow_up.cool_down_first_seconds == 360
    assert fast.follow_up.cool_down_longest_seconds == 1080


@pytest.fixture
def constants() -> Iterator[None]:
    """What is divided is whole again afterwards."""
    kept = [
        (module, name, value)
        for module in faster_service.modules()
        for name, value in vars(module).items()
        if name.isupper()
    ]
    yield
    for module, name, value in kept:
        setattr(module, name, value)


@pytest.mark.usefixtures("constants")
def test_constants_are_divided_wherever_they_are_used() -> None:
    divide_constants(20)
    assert vars(eligibility)["HOUR"] == timedelta(minutes=3)
    assert vars(forecast)["AHEAD_SECONDS"] == vars(outlook)["AHEAD_SECONDS"] == 180
    assert timedelta(seconds=7) == clocks.SEEMS_EARLIER  # of the real clocks


def test_the_audit_log_has_the_node_that_is_named_first() -> None:
    landing = [{"node": "n2", "probability": 0.75}, {"node": "n3", "probability": 0.25}]
    line = {
        "event": "eviction",
        "verdict": "evicted",
        "pod": {"namespace": "day", "name": "a", "uid": "1"},
        "forecast": {"landing": landing},
    }
    refused = line | {"verdict": "refused", "pod": {"namespace": "day", "name": "b", "uid": "2"}}
    found = named_in([line, refused, {"event": "result"}])
    assert found == {PodRef("day", "a", "1"): LandingChance("n2", 0.75)}


def test_lag_is_in_seconds_of_the_day() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    cycles = [
        {
            "timestamp": (start + timedelta(seconds=at)).isoformat(),
            "duration_seconds": 0.5,
            "nodes": {"unknown": 1} if at > 80 else {},
        }
        for at in (76.0, 91.5, 106.0)
    ]
    found = lag_of(
        cycles, start.timestamp(), Times(pace_of(Kind.MILD_HOURS), hours=1, speed=20), 1.0, 4.0
    )
    assert (found.due_cycles, found.cycles, found.unknown_loads) == (11, 3, 2)
    assert found.first_cycle == pytest.approx(76 * 20 - 1500)
    assert found.longest_cycle == pytest.approx(10)
    assert found.longest_interval == pytest.approx(310)
