"""Whole plans for small clusters."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.model.cluster import Effect, Pod, Taint
from desched.model.load import LoadProblem
from desched.model.plan import HoldReason, NodeClass, NodeReason, Plan
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, MoveResult, RecentMove, State
from tests.builders import (
    NOW,
    amounts,
    certain,
    evicted,
    load,
    measured,
    node,
    planned,
    pod,
    policy,
    reasons,
    rule,
    selector,
    snapshot,
    unknown,
    workload,
)


def hot_node(**pods: Any) -> Snapshot:
    """`hot` with pods of so many cores (and 0.1 GiB) at their sum of 4 cores; `cool` idle."""
    cpu = sum(pods.values()) / 4
    return snapshot(
        [node("hot"), node("cool")],
        [pod(name, on="hot") for name in pods],
        load(
            {"hot": (cpu, 0.1), "cool": (0.05, 0.05)},
            {name: (cores, 0.1) for name, cores in pods.items()},
        ),
    )


def verdict(plan: Plan, name: str) -> tuple[str, str | None]:
    found = next(v for v in plan.nodes if v.node == name)
    return found.node_class.value, found.reason.value if found.reason else None


def test_the_pod_that_saves_most_is_moved_and_no_other() -> None:
    plan = planned(hot_node(most=2.0, right=0.5, other=0.5, small=0.4))
    # Each alone would end the overload; the largest leaves most room for what may come.
    assert evicted(plan) == ["most"]
    assert reasons(plan) == dict.fromkeys(["right", "other", "small"], "not_needed")
    assert plan.evictions[0].expected_node == "cool"


def test_a_balanced_cluster_is_left_alone() -> None:
    plan = planned(hot_node(a=1.0, b=1.0))
    assert not plan.evictions
    assert not plan.refusals
    assert plan.hold is None


def test_projected_loads_are_on_the_nodes_that_the_plan_touches() -> None:
    plan = planned(hot_node(a=1.7, b=1.7))
    after = {v.node: [p.after_ratio for p in v.pressures] for v in plan.nodes}
    assert after["hot"] == pytest.approx([0.1 - 0.1 / 16, 0.425])
    assert after["cool"] == pytest.approx([0.05 + 0.1 / 16, 0.05 + 0.425])


def with_priorities(seen: Snapshot, **priorities: int) -> Snapshot:
    pods = tuple(
        msgspec.structs.replace(p, priority=priorities.get(p.name, 0)) for p in seen.cluster.pods
    )
    loaded = msgspec.structs.replace(seen.cluster, pods=pods)
    return msgspec.structs.replace(seen, cluster=loaded)


def test_a_small_pod_goes_before_one_of_a_high_priority() -> None:
    seen = hot_node(important=0.6, batch1=0.3, batch2=0.3, rest=2.2)
    plan = planned(with_priorities(seen, important=1_000_000, rest=1_000_000))
    assert evicted(plan) == ["batch1"]


def test_one_fair_move_beats_twelve_tiny_ones() -> None:
    tiny = {f"tiny{i:02}": 0.05 for i in range(12)}
    plan = planned(hot_node(fair=0.6, rest=0.2, host=2.0, **tiny))
    assert len(plan.evictions) == 1
    assert evicted(plan)[0] not in tiny


def test_a_destination_is_judged_by_its_worst_window() -> None:
    two = policy(rule(Resource.CPU, windows_seconds=(300, 600)))
    seen = hot_node(a=1.7, b=1.7)
    usage = {
        key: msgspec.structs.replace(used, cpu_millicores=used.cpu_millicores * 2)
        for key, used in seen.load.pods.items()
    }
    busy = load({"hot": (measured(0.85, 0.85), 0.1), "cool": (measured(0.1, 0.5), 0.1)})
    busy = msgspec.structs.replace(busy, pods=usage)
    plan = planned(msgspec.structs.replace(seen, load=busy), two)
    assert not plan.evictions
    assert reasons(plan) == dict.fromkeys(["a", "b"], "no_node_under_ceiling")
    assert "1 node would rise above their ceiling" in plan.refusals[0].detail


def test_missing_load_makes_a_node_unknown_and_never_a_destination() -> None:
    """S2.8, X4: no data is never usage 0."""
    seen = hot_node(a=1.7, b=1.7)
    blind = load(
        {"hot": (0.85, 0.1), "cool": (unknown(), 0.05)}, {"a": (1.7, 0.1), "b": (1.7, 0.1)}
    )
    plan = planned(msgspec.structs.replace(seen, load=blind))
    assert verdict(plan, "cool") == ("unknown", "absent")
    assert not plan.evictions


def test_a_cluster_without_any_load_is_held() -> None:
    """S2.8: without Prometheus nothing is evicted."""
    seen = hot_node(a=1.7, b=1.7)
    plan = planned(msgspec.structs.replace(seen, load=load({})))
    assert plan.hold is HoldReason.TOO_MANY_UNKNOWN_NODES
    assert not plan.evictions


@pytest.mark.parametrize(
    ("problem", "hold"),
    [
        (LoadProblem.PARTIAL_DATA, HoldReason.PARTIAL_DATA),
        (LoadProblem.SEVERAL_CLUSTERS, HoldReason.SEVERAL_CLUSTERS),
    ],
)
def test_a_problem_of_the_data_as_a_whole_holds_the_cycle(
    problem: LoadProblem, hold: HoldReason
) -> None:
    seen = hot_node(a=1.7, b=1.7)
    doubtful = msgspec.structs.replace(seen.load, problems=((problem, "why"),))
    plan = planned(msgspec.structs.replace(seen, load=doubtful))
    assert (plan.hold, plan.hold_detail) == (hold, "why")
    assert reasons(plan) == dict.fromkeys(["a", "b"], "cycle_held")


def test_load_that_is_not_the_pods_to_take_away_moves_nobody() -> None:
    seen = hot_node(a=0.1, b=0.1)
    host = load({"hot": (0.95, 0.1), "cool": (0.05, 0.05)}, {"a": (0.1, 0), "b": (0.1, 0)})
    plan = planned(msgspec.structs.replace(seen, load=host))
    assert verdict(plan, "hot") == ("overloaded", "excess_not_movable")
    assert reasons(plan) == dict.fromkeys(["a", "b"], "no_relief")


def test_one_huge_pod_whose_move_only_moves_the_problem_stays() -> None:
    plan = planned(hot_node(huge=3.4))
    assert not plan.evictions
    assert reasons(plan) == {"huge": "no_node_under_ceiling"}
    assert verdict(plan, "hot") == ("overloaded", NodeReason.EXCESS_NOT_MOVABLE.value)


def record(name: str, *, seconds_ago: float, cores: float, of: str = "other") -> EvictionRecord:
    at = NOW - timedelta(seconds=seconds_ago)
    return EvictionRecord(
        pod(name).ref,
        "hot",
        f"uid-{of}",
        at,
        certain("cool"),
        cpu_millicores=cores * 1000,
        left_at=at,
    )


def test_a_pending_pod_that_would_take_the_room_left_behind_keeps_everything_in_place() -> None:
    seen = hot_node(a=1.7, b=1.7)
    resized = {"a": amounts(1.2, 0.1), "b": amounts(1.2, 0.1)}
    pods = [
        *(pod(name, on="hot", request=request) for name, request in resized.items()),
        pod("filler", on="cool", of="other", request=amounts(2.2, 0.1)),
    ]
    # It fits nowhere: 1.6 cores are free on the hot node and 1.8 on the cool one.
    waiting = pod("waiting", of="new", phase="Pending", ready=False, request=amounts(2))

    def plan(*found: Pod) -> Plan:
        loaded = msgspec.structs.replace(seen.cluster, pods=found)
        return planned(msgspec.structs.replace(seen, cluster=loaded))

    assert evicted(plan(*pods)) == ["a"]
    assert reasons(plan(*pods, waiting)) == dict.fromkeys("ab", "room_awaited")
    large = pod("large", of="new", phase="Pending", ready=False, request=amounts(3.5))
    assert evicted(plan(*pods, large)) == ["a"]


def test_a_workload_goes_on_once_its_last_move_has_landed_well() -> None:
    seen = hot_node(a=1.7, b=1.7)
    landed = msgspec.structs.replace(
        record("gone", seconds_ago=60, cores=0, of="web"),
        node="third",
        result=MoveResult.LANDED_AS_FORECAST,
    )
    state = State((landed,), moves=(RecentMove("uid-web", landed.evicted_at, "uid-b"),))
    plan = planned(seen, state=state)
    assert evicted(plan) == ["a"]
    assert reasons(plan) == {"b": "moved_recently"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"ready": False}, "not_ready"),
        ({"unschedulable": True}, "cordoned"),
        ({"deleting": True}, "being_removed"),
        ({"taints": (Taint("karpenter.sh/disrupted", Effect.NO_SCHEDULE),)}, "being_removed"),
        (
            {
                "taints": (Taint("ToBeDeletedByClusterAutoscaler", "NoSchedule", "1777000000"),),
                "unschedulable": True,
            },
            "being_removed",
        ),
        (
            {"taints": (Taint("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule"),)},
            "not_ready",
        ),
        (
            {"taints": (Taint("node.kubernetes.io/memory-pressure", "NoSchedule"),)},
            "under_pressure",
        ),
        ({"taints": (Taint("node.kubernetes.io/unreachable", "NoExecute"),)}, "not_ready"),
        ({"operating_system": "windows"}, "not_linux"),
        ({"labels": {"type": "virtual-kubelet"}}, "virtual"),
        ({"created_at": NOW - timedelta(seconds=200)}, "too_young"),
    ],
)
def test_a_node_out_of_scope_is_neither_source_nor_destination(
    fields: dict[str, Any], reason: str
) -> None:
    seen = hot_node(a=1.7, b=1.7)
    for name in ("hot", "cool"):
        nodes = tuple(node(n, **(fields if n == name else {})) for n in ("hot", "cool"))
        loaded = msgspec.structs.replace(seen.cluster, nodes=nodes)
        plan = planned(msgspec.structs.replace(seen, cluster=loaded))
        assert verdict(plan, name) == (NodeClass.OUT_OF_SCOPE.value, reason)
        assert not plan.evictions


@pytest.mark.parametrize(
    "key",
    [
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disruption",
        "virtual-kubelet.io/provider",
    ],
)
def test_a_node_with_a_taint_that_only_deters_is_source_and_destination(key: str) -> None:
    seen = hot_node(a=1.7, b=1.7)
    taints = (Taint(key, Effect.PREFER_NO_SCHEDULE, "1777000000"),)
    for name in ("hot", "cool"):
        nodes = tuple(node(n, taints=taints if n == name else ()) for n in ("hot", "cool"))
        deterred = msgspec.structs.replace(seen.cluster, nodes=nodes)
        plan = planned(msgspec.structs.replace(seen, cluster=deterred))
        assert evicted(plan)[:1] == ["a"]


def test_memory_is_watched_against_allocatable_too() -> None:
    small = amounts(4, 8)
    nodes = [node("hot", allocatable=msgspec.structs.replace(small, pods=110)), node("cool")]
    pods = [pod("a", on="hot"), pod("b", on="hot")]
    seen = snapshot(
        nodes, pods, load({"hot": (0.1, 0.45), "cool": (0.1, 0.1)}, dict.fromkeys("ab", (0.1, 3.6)))
    )
    plan = planned(seen)
    # 7.2 GiB of 16 are harmless, but they are 90 % of what the kubelet gives to pods.
    assert len(plan.evictions) == 1
    assert "memory 90.0% > 85.0%" in plan.evictions[0].reason


def test_pods_can_be_a_watched_resource() -> None:
    crowded = policy(rule(Resource.CPU), rule(Resource.PODS))
    few = msgspec.structs.replace(amounts(4, 16), pods=10)
    pods = [pod(f"p{i}", on="full") for i in range(9)]
    seen = snapshot(
        [node("full", allocatable=few), node("cool")],
        pods,
        load({"full": (0.2, 0.1), "cool": (0.1, 0.1)}, {p.name: (0.01, 0.01) for p in pods}),
    )
    plan = planned(seen, crowded)
    assert len(plan.evictions) == 2
    assert plan.evictions[0].reason == "node full pods 90.0% > 80.0%"


def trap(cool_request: float) -> Snapshot:
    """`hot` uses much and requests little; `cool` uses little, and its pod requests so much."""
    pods = [pod("a", on="hot"), pod("b", on="hot")]
    pods += [pod("idle", on="cool", of="idle", request=amounts(cool_request, 12))]
    usage = {"a": (1.7, 0.1), "b": (1.7, 0.1), "idle": (0.1, 0.1)}
    return snapshot(
        [node("hot"), node("cool")],
        pods,
        load({"hot": (0.85, 0.1), "cool": (0.05, 0.05)}, usage),
        [workload("web", 20, ready_replicas=20), workload("idle", 20, ready_replicas=20)],
    )


def test_a_pod_that_the_scheduler_would_put_back_is_not_evicted() -> None:
    careful = policy(max_landing_risk=0.15)
    plan = planned(trap(cool_request=3.8), careful)
    assert reasons(plan) == dict.fromkeys(["a", "b"], "landing_risk")
    assert "100% likely to come back to hot" in plan.refusals[0].detail
    assert "soft taints on those nodes could prevent this" in plan.refusals[0].detail


def test_a_pod_that_the_scheduler_would_put_elsewhere_is_evicted_with_its_chances() -> None:
    seen = trap(cool_request=0.1)
    # Its siblings keep it away from hot: the scheduler spreads a workload over nodes.
    selectors = {("apps", "uid-web"): selector(app="web")}
    loaded = msgspec.structs.replace(seen.cluster, controller_selectors=selectors)
    plan = planned(msgspec.structs.replace(seen, cluster=loaded), policy(max_landing_risk=0.15))
    (eviction,) = plan.evictions
    assert eviction.landing_risk == pytest.approx(0.0)
    assert [(c.node, c.probability) for c in eviction.landing] == [("cool", 1.0)]


def test_a_node_that_bears_one_more_pod_does_not_get_two() -> None:
    # Nobody requests anything of `warm`, so the scheduler puts every replacement there.
    overloaded = ("hot-a", "hot-b")
    pods = [pod(name[-1], on=name, of=name[-1]) for name in overloaded]
    pods += [pod(f"big-{n}", on=n, of="big", request=amounts(3, 12)) for n in (*overloaded, "cool")]
    usage = {"a": (0.3, 0.1), "b": (0.3, 0.1), "big-hot-a": (2.9, 0.1), "big-hot-b": (2.9, 0.1)}
    loads = {"hot-a": (0.82, 0.1), "hot-b": (0.82, 0.1), "warm": (0.72, 0.1), "cool": (0.05, 0.1)}
    owners = [workload(name, 20) for name in ("a", "b", "big")]
    seen = snapshot([node(name) for name in loads], pods, load(loads, usage), owners)
    plan = planned(seen, policy(max_landing_risk=0.15))
    assert [(e.pod.name, e.landing[0].node) for e in plan.evictions] == [("a", "warm")]
    assert plan.evictions[0].scheduler == ""
    assert reasons(plan)["b"] == "landing_risk"
