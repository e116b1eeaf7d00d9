"""What the state holds against a move: cool-downs, pauses, probes, evictions under way."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from desched.model.plan import NodeReason
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.model.state import (
    CoolDown,
    EvictionRecord,
    Failure,
    MoveResult,
    NodeRounds,
    Pause,
    PauseScope,
    State,
)
from desched.policy.policy import NodePool, Policy
from tests.builders import (
    NOW,
    certain,
    evicted,
    load,
    no_limits_but,
    node,
    planned,
    pod,
    policy,
    reasons,
    rule,
    snapshot,
    workload,
)

HOUR = timedelta(hours=1)


def two_hot_nodes() -> Snapshot:
    """Nodes `red` and `blue` with two pods of 0.9 cores each, and idle nodes of their kinds."""
    kinds = {name: {"kind": name.partition("-")[0]} for name in ("red", "blue", "red-2", "blue-2")}
    used = {"red-a": 0.9, "red-b": 0.9, "blue-a": 0.9, "blue-b": 0.9}
    pods = [
        pod(name, on=name.partition("-")[0], of=f"w-{name}", scheduling=of_kind(name))
        for name in used
    ]
    made = snapshot(
        [node(name, labels={"kubernetes.io/hostname": name} | kinds[name]) for name in kinds],
        pods,
        load(
            {"red": (0.9, 0.1), "blue": (0.9, 0.1), "red-2": (0.0, 0.0), "blue-2": (0.0, 0.0)},
            {name: (cores, 0.1) for name, cores in used.items()},
        ),
    )
    workloads = {("apps", f"uid-w-{name}"): workload(f"w-{name}") for name in used}
    workloads["apps", "uid-w-blue-b"] = workload("w-blue-b", replicas=9)
    loaded = msgspec.structs.replace(made.cluster, workloads=workloads)
    return msgspec.structs.replace(made, cluster=loaded)


def of_kind(name: str) -> dict[str, Any]:
    return {"node_selector": (("kind", name.partition("-")[0]),)}


def by_pools() -> Policy:
    cpu = rule(stop_margin_ratio=0.05)
    pools = tuple(
        NodePool(name, LabelSelector((Requirement("kind", Operator.IN, (name,)),)), (cpu,))
        for name in ("red", "blue")
    )
    return policy(cpu, pools=pools)


def over(scope: PauseScope, subject: str = "") -> Pause:
    """A pause that began by itself and whose time is over."""
    return Pause(scope, NOW - HOUR, NOW - timedelta(minutes=1), subject)


def under_way(name: str, **fields: Any) -> EvictionRecord:
    gone = NOW - timedelta(minutes=20)
    record = EvictionRecord(
        pod(name).ref, "elsewhere", f"uid-{name}", gone, certain("n"), left_at=gone
    )
    return msgspec.structs.replace(record, **fields)


def test_without_memory_one_pod_leaves_each_node() -> None:
    assert sorted(p.partition("-")[0] for p in evicted(planned(two_hot_nodes(), by_pools()))) == [
        "blue",
        "red",
    ]


def test_a_node_that_cools_down_is_left_alone_until_its_time_is_over() -> None:
    cooling_nodes = NodeRounds("red", 2, NOW - HOUR, cooling_down_until=NOW + HOUR)
    plan = planned(two_hot_nodes(), by_pools(), State(nodes=(cooling_nodes,)))
    assert {p.partition("-")[0] for p in evicted(plan)} == {"blue"}
    assert {reasons(plan)[name] for name in ("red-a", "red-b")} == {"node_cooling_down"}
    verdict = next(v for v in plan.nodes if v.node == "red")
    assert verdict.reason is NodeReason.COOLING_DOWN
    assert "until 2026-05-01 13:00 UTC" in verdict.detail
    past = msgspec.structs.replace(cooling_nodes, cooling_down_until=NOW)
    assert len(evicted(planned(two_hot_nodes(), by_pools(), State(nodes=(past,))))) == 2


@pytest.mark.parametrize("until", [NOW + HOUR, None])
def test_a_paused_pool_is_left_alone_and_the_other_is_not(until: datetime | None) -> None:
    pause = Pause(PauseScope.POOL, NOW, until, "blue", by="jane")
    plan = planned(two_hot_nodes(), by_pools(), State(pauses=(pause,)))
    assert {p.partition("-")[0] for p in evicted(plan)} == {"red"}
    assert {reasons(plan)[name] for name in ("blue-a", "blue-b")} == {"pool_paused"}


def test_after_a_pause_of_everything_the_workload_with_most_to_spare_goes_alone() -> None:
    plan = planned(two_hot_nodes(), by_pools(), State(pauses=(over(PauseScope.EVERYTHING),)))
    (probe,) = plan.evictions
    assert probe.probe
    assert probe.pod.name == "blue-b"
    assert sum(reason == "probe_first" for reason in reasons(plan).values()) == 1


def test_a_paused_namespace_is_left_alone() -> None:
    pause = Pause(PauseScope.NAMESPACE, NOW, NOW + HOUR, "apps")
    plan = planned(two_hot_nodes(), by_pools(), State(pauses=(pause,)))
    assert set(reasons(plan).values()) == {"paused"}
    other = msgspec.structs.replace(pause, subject="app")
    assert len(evicted(planned(two_hot_nodes(), by_pools(), State(pauses=(other,))))) == 2


def test_a_workload_that_failed_is_no_probe_if_another_has_not() -> None:
    failure = Failure("Deployment apps/w-blue-b", "", NOW, MoveResult.NOT_READY)
    paused = State(pauses=(over(PauseScope.EVERYTHING),), failures=(failure,))
    (probe,) = planned(two_hot_nodes(), by_pools(), paused).evictions
    assert (probe.probe, probe.workload) == (True, "Deployment apps/w-red-a")


@pytest.mark.parametrize("scope", [over(PauseScope.EVERYTHING), over(PauseScope.NAMESPACE, "apps")])
def test_if_all_have_failed_the_one_that_failed_longest_ago_is_the_probe(scope: Pause) -> None:
    of = [f"Deployment apps/w-{name}" for name in ("red-a", "red-b", "blue-a", "blue-b")]
    cooled = tuple(CoolDown(f"u{w}", w, NOW - HOUR, level=1) for w in of)
    ages = (4, 3, 2, 1)  # hours
    failures = tuple(
        Failure(w, "", NOW - ago * HOUR, MoveResult.NOT_READY)
        for w, age in zip(of, ages, strict=True)
        for ago in (age, 5)  # the newest of a workload counts
    )
    state = State(pauses=(scope,), cool_downs=cooled, failures=failures)
    (probe,) = planned(two_hot_nodes(), by_pools(), state).evictions
    assert (probe.probe, probe.workload) == (True, of[0])
    forgotten = msgspec.structs.replace(state, failures=failures[:-2])
    (probe,) = planned(two_hot_nodes(), by_pools(), forgotten).evictions
    assert (probe.probe, probe.workload) == (True, of[-1])


def test_after_the_pause_of_a_pool_only_that_pool_is_tried_out() -> None:
    plan = planned(two_hot_nodes(), by_pools(), State(pauses=(over(PauseScope.POOL, "red"),)))
    assert {(e.pool, e.probe) for e in plan.evictions} == {("red", True), ("blue", False)}


def test_nothing_else_goes_while_a_probe_is_under_way() -> None:
    probing = State(
        (under_way("other", probe=True, pool="green"),), pauses=(over(PauseScope.EVERYTHING),)
    )
    plan = planned(two_hot_nodes(), by_pools(), probing)
    assert not plan.evictions
    assert list(reasons(plan).values()).count("probe_first") == 2


def test_a_pause_that_a_person_made_needs_no_probe_when_it_is_over() -> None:
    pause = msgspec.structs.replace(over(PauseScope.EVERYTHING), by="jane")
    plan = planned(two_hot_nodes(), by_pools(), State(pauses=(pause,)))
    assert len(plan.evictions) == 2
    assert not any(eviction.probe for eviction in plan.evictions)


def test_evictions_under_way_count_towards_the_most_at_a_time() -> None:
    chosen = msgspec.structs.replace(by_pools(), limits=no_limits_but(in_flight_total=2))
    plan = planned(two_hot_nodes(), chosen, State((under_way("other"),)))
    assert len(plan.evictions) == 1
    assert "limit_in_flight" in reasons(plan).values()
    full = State((under_way("other"), under_way("another")))
    assert not planned(two_hot_nodes(), chosen, full).evictions


def test_a_destination_that_awaits_as_many_as_allowed_gets_no_further_one() -> None:
    chosen = msgspec.structs.replace(by_pools(), limits=no_limits_but(in_flight_destination=1))
    awaited = under_way("other", landing=certain("blue-2"))
    plan = planned(two_hot_nodes(), chosen, State((awaited,)))
    assert {p.partition("-")[0] for p in evicted(plan)} == {"red"}
    assert reasons(plan)["blue-a"] == "limit_in_flight"


def test_moves_of_one_plan_count_towards_the_most_that_a_destination_may_await() -> None:
    deep = rule(target_ratio=0.6, ceiling_margin_ratio=0.1)
    chosen = policy(deep, limits=no_limits_but(in_flight_destination=1))
    plan = planned(two_hot_nodes(), chosen)
    assert sorted(e.expected_node for e in plan.evictions) == ["blue-2", "red-2"]
    assert len(planned(two_hot_nodes(), policy(deep)).evictions) == 4
