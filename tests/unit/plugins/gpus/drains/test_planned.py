"""The moves that drains plan, as part of a whole plan."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.gangs.objects import DeclaredGroup
from desched.gangs.pod_groups import VOLCANO_GROUP
from desched.gangs.topology import GroupTopology
from desched.model.checkpoints import CHECKPOINTS
from desched.model.cluster import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodVolume,
    VolumeKind,
)
from desched.model.plan import HoldReason, Plan
from desched.model.resources import Resource
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.model.state import Pause, PauseScope, State
from desched.network.objects import HyperNode, NetworkObjects
from desched.plugins.gpus.drains.drain import GPU_DEMAND, Drain, DrainEnd, DrainPlan, drains_of
from desched.plugins.gpus.drains.rules import GpuDrainRules, Reserve
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from tests.builders import NOW, WINDOW_SECONDS, evicted, measured, no_limits_but, planned
from tests.unit.plugins.gpus.gpu_cluster import (
    RULES,
    drain_for,
    draining,
    drains,
    gpu_node,
    gpus,
    runs,
    seen,
    waits,
)

SPREAD = [runs(f"p{i}", f"g{i}") for i in range(8)]
NODES = [gpu_node(f"g{i}") for i in range(8)]
BIG = waits("big")


def why(plan: Plan) -> str:
    """Why the only demand is not served."""
    [unserved] = DrainPlan.of(plan.extras).unserved
    return unserved.why


def test_one_node_is_drained_for_a_pod_with_eight_gpus() -> None:
    plan = planned(seen(NODES, [*SPREAD, BIG]), drains())
    [eviction] = plan.evictions
    assert eviction.purpose is GPU_DEMAND
    assert drain_for(eviction).nodes == (eviction.node,)
    assert drain_for(eviction).pods == (BIG.ref,)
    assert eviction.node in eviction.steered
    assert eviction.node not in eviction.likely_nodes
    assert "pod train/big, which waits for 8 GPUs" in eviction.reason


def test_nothing_moves_without_the_plugin() -> None:
    assert not evicted(planned(seen(NODES, [*SPREAD, BIG]), drains(None)))


@pytest.mark.parametrize(
    "rules",
    [
        GpuDrainRules(namespaces=("serve",), pending_seconds=60),
        GpuDrainRules(least_priority=1000, pending_seconds=60),
        GpuDrainRules(namespaces=("train",), pending_seconds=120),
    ],
)
def test_pods_that_the_policy_does_not_name_or_that_wait_for_a_short_time_move_nobody(
    rules: GpuDrainRules,
) -> None:
    plan = planned(seen(NODES, [*SPREAD, BIG]), drains(rules))
    assert not plan.evictions
    assert not DrainPlan.of(plan.extras).unserved


def test_a_pod_of_the_named_priority_is_a_demand_in_any_namespace() -> None:
    rules = GpuDrainRules(least_priority=1000, pending_seconds=60)
    assert evicted(planned(seen(NODES, [*SPREAD, waits("big", priority=1000)]), drains(rules)))


def test_a_pending_pod_that_no_scheduler_has_refused_is_no_demand() -> None:
    young = msgspec.structs.replace(BIG, unschedulable=False)
    assert not evicted(planned(seen(NODES, [*SPREAD, young]), drains()))


def test_the_node_with_the_fewest_pods_is_drained() -> None:
    more = [runs(f"more{i}", f"g{i}") for i in range(8) if i != 3]
    assert evicted(planned(seen(NODES, [*SPREAD, *more, BIG]), drains())) == ["p3"]


def test_pods_without_checkpoints_that_have_run_for_long_are_dearer() -> None:
    pods = [msgspec.structs.replace(p, started_at=NOW - timedelta(hours=20)) for p in SPREAD]
    pods[5] = msgspec.structs.replace(pods[5], annotations={CHECKPOINTS: "true"})
    assert evicted(planned(seen(NODES, [*pods, BIG]), drains())) == ["p5"]


def test_only_as_many_pods_leave_as_the_demand_needs() -> None:
    pods = [runs("one", "g0"), runs("two", "g0", 2), runs("four", "g0", 4), runs("other", "g1", 4)]
    plan = planned(seen(NODES[:2], [*pods, waits("big", 5)]), drains())
    assert evicted(plan) == ["four"]


def test_pods_without_gpus_leave_too_where_the_demand_lacks_cpu() -> None:
    hungry = runs("web", "g0", request=gpus(0, cpu=40))
    nodes = [gpu_node("g0"), gpu_node("g1", gpus=0)]
    plan = planned(seen(nodes, [hungry, waits("big", 8, request=gpus(8, cpu=60))]), drains())
    assert evicted(plan) == ["web"]


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([runs(f"p{i}", f"g{i}", annotations={"desched.io/evict": "false"}) for i in range(8)],
         "apps/p0 stays: opted_out"),
        ([runs(f"p{i}", f"g{i}", priority=5) for i in range(8)],
         "apps/p0 stays: its priority 5 is higher"),
        ([runs(f"p{i}", f"g{i}", 5) for i in range(8)], "apps/p0 fits on no other node"),
    ],
)  # fmt: skip
def test_without_a_whole_drain_nothing_moves_and_the_reason_is_shown(
    pods: list[Pod], reason: str
) -> None:
    plan = planned(seen(NODES, [*pods, BIG]), drains())
    assert not plan.evictions
    assert reason in why(plan)


def test_nothing_moves_if_only_some_of_the_pods_of_a_node_have_another_place() -> None:
    nodes = [gpu_node("g0"), gpu_node("g1", gpus=1)]
    plan = planned(seen(nodes, [runs("a", "g0"), runs("b", "g0"), BIG]), drains())
    assert not plan.evictions
    assert "no_node_fits" in why(plan)


def test_without_soft_taints_nothing_moves() -> None:
    by = drains(steering=SteeringRules(SteeringMode.OFF))
    plan = planned(seen(NODES, [*SPREAD, BIG]), by)
    assert not plan.evictions
    assert "soft taints" in why(plan)


def test_a_demand_that_has_room_moves_nobody() -> None:
    plan = planned(seen([*NODES, gpu_node("free")], [*SPREAD, BIG]), drains())
    assert not plan.evictions
    assert "it has room on free" in why(plan)


def test_two_demands_get_a_node_each() -> None:
    plan = planned(seen(NODES, [*SPREAD, BIG, waits("huge")]), drains())
    assert len({eviction.node for eviction in plan.evictions}) == 2
    assert {str(drain_for(each)) for each in plan.evictions} == {"pod train/big", "pod train/huge"}
    landings = {node for eviction in plan.evictions for node in eviction.likely_nodes}
    assert landings.isdisjoint(eviction.node for eviction in plan.evictions)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (msgspec.structs.replace(RULES, most_moves=1), "a drain makes at most 1"),
        (msgspec.structs.replace(RULES, daily_moves=1), "at most 1 within a day"),
    ],
)
def test_a_drain_of_too_many_moves_does_not_begin(rules: GpuDrainRules, reason: str) -> None:
    more = [runs(f"more{i}", f"g{i}") for i in range(8)]
    plan = planned(seen(NODES, [*SPREAD, *more, BIG]), drains(rules))
    assert not plan.evictions
    assert reason in why(plan)


def test_the_moves_of_drains_within_a_day_count() -> None:
    earlier = Drain((), ("g7",), 8, NOW - timedelta(hours=2), NOW, namespace="train", moves=100)
    state = draining(earlier.ended(DrainEnd.LANDED, NOW - timedelta(hours=1)))
    plan = planned(seen(NODES, [*SPREAD, BIG]), drains(), state)
    assert not plan.evictions
    assert "100 moves within a day" in why(plan)


@pytest.mark.parametrize(
    "pause",
    [
        Pause(PauseScope.NAMESPACE, NOW, None, "train", by="jo"),
        Pause(PauseScope.EVERYTHING, NOW, NOW - timedelta(hours=1)),
    ],
)
def test_no_drain_begins_while_its_namespace_or_everything_is_paused(pause: Pause) -> None:
    plan = planned(seen(NODES, [*SPREAD, BIG]), drains(), State(pauses=(pause,)))
    assert not plan.evictions
    assert "is paused" in why(plan)


def test_nothing_is_drained_until_the_windows_show_what_a_lost_state_had() -> None:
    state = State(since=NOW - timedelta(seconds=WINDOW_SECONDS - 1))
    plan = planned(seen(NODES, [*SPREAD, BIG]), drains(), state)
    assert not plan.evictions
    assert plan.hold is HoldReason.JUST_STARTED
    earlier = msgspec.structs.replace(state, since=NOW - timedelta(seconds=WINDOW_SECONDS))
    assert planned(seen(NODES, [*SPREAD, BIG]), drains(), earlier).evictions
    assert planned(seen(NODES, SPREAD), drains(), state).hold is None


def test_the_limits_of_a_cycle_hold_and_the_next_cycle_goes_on() -> None:
    pods = [runs(f"{name}{i}", f"g{i}") for i in range(8) for name in "abc"]
    by = drains(limits=no_limits_but(node=2))
    plan = planned(seen(NODES, [*pods, BIG]), by)
    first = plan.evictions[0]
    assert len(plan.evictions) == 2
    left = [pod for pod in pods if pod.name not in evicted(plan)]
    state = draining(msgspec.structs.replace(drain_for(first), moves=2))
    following = planned(seen(NODES, [*left, BIG]), by, state)
    assert [each.node for each in following.evictions] == [first.node]
    assert DrainPlan.of(following.extras).drains == drains_of(state)


def test_a_drain_that_cannot_go_on_ends_with_the_reason() -> None:
    drain = Drain((BIG.ref,), ("g0",), 8, NOW, NOW + timedelta(hours=1), namespace="train")
    pods = [msgspec.structs.replace(SPREAD[0], annotations={"desched.io/evict": "false"})]
    plan = planned(seen(NODES, [*pods, *SPREAD[1:], BIG]), drains(), draining(drain))
    [ended] = DrainPlan.of(plan.extras).drains
    assert ended.end is DrainEnd.BROKEN
    assert "apps/p0 stays: opted_out" in ended.why
    assert not plan.evictions


@pytest.mark.parametrize("scope", [PauseScope.EVERYTHING, PauseScope.POOL])
def test_a_drain_under_way_waits_for_the_end_of_a_pause(scope: PauseScope) -> None:
    drain = Drain((BIG.ref,), ("g0",), 8, NOW, NOW + timedelta(hours=1), namespace="train")
    state = draining(drain, pauses=(Pause(scope, NOW, None),))
    plan = planned(seen(NODES, [*SPREAD, BIG]), drains(), state)
    assert DrainPlan.of(plan.extras).drains == (drain,)
    assert not plan.evictions
    assert "g0" in {taint.node for taint in plan.taints}


def test_a_drain_under_way_waits_while_its_node_is_overloaded() -> None:
    """Moves that relieve the node are for it, too."""
    drain = Drain((BIG.ref,), ("g0",), 8, NOW, NOW + timedelta(hours=1), namespace="train")
    found = seen(NODES, [*SPREAD, BIG])
    hot = {Resource.CPU: measured(0.95), Resource.MEMORY: measured(0.1)}
    of_load = msgspec.structs.replace(found.load, nodes={**found.load.nodes, "g0": hot})
    found = msgspec.structs.replace(found, load=of_load)
    plan = planned(found, drains(), draining(drain))
    assert DrainPlan.of(plan.extras).drains == (drain,)
    assert "g0" in {taint.node for taint in plan.taints}


def test_a_drain_under_way_holds_its_node_without_further_moves() -> None:
    drain = Drain((BIG.ref,), ("g0",), 8, NOW, NOW + timedelta(hours=1), namespace="train")
    plan = planned(seen(NODES, [*SPREAD[1:], BIG]), drains(), draining(drain))
    assert not plan.evictions
    assert DrainPlan.of(plan.extras).drains == (drain,)
    assert [taint.node for taint in plan.taints] == ["g0"]


def test_the_room_of_a_drain_under_way_is_not_for_another_demand() -> None:
    """The scheduler may place the first one a moment later; the other one needs its own node."""
    drain = Drain((BIG.ref,), ("g0",), 8, NOW, NOW + timedelta(hours=1), namespace="train")
    plan = planned(seen(NODES, [*SPREAD[1:], BIG, waits("huge")]), drains(), draining(drain))
    [eviction] = plan.evictions
    assert [pod.name for pod in drain_for(eviction).pods] == ["huge"]


def test_a_newcomer_on_a_held_node_leaves_too() -> None:
    drain = Drain((BIG.ref,), ("g0",), 8, NOW, NOW + timedelta(hours=1), namespace="train")
    pods = [*SPREAD[1:], runs("newcomer", "g0"), BIG]
    plan = planned(seen(NODES, pods), drains(), draining(drain))
    assert evicted(plan) == ["newcomer"]


def test_newcomers_do_not_make_a_drain_exceed_its_limits() -> None:
    drain = Drain((BIG.ref,), ("g0",), 8, NOW, NOW + timedelta(hours=1), "train", moves=3)
    pods = [*SPREAD[1:], runs("newcomer", "g0"), BIG]
    limits: tuple[dict[str, int], ...] = {"most_moves": 3}, {"daily_moves": 3}, {}
    rules = [msgspec.structs.replace(RULES, **limit) for limit in limits]
    plans = [planned(seen(NODES, pods), drains(each), draining(drain)) for each in rules]
    assert [evicted(plan) for plan in plans] == [[], [], ["newcomer"]]
    after = [DrainPlan.of(plan.extras).drains[0] for plan in plans]
    assert [drain.end for drain in after] == [DrainEnd.BROKEN, DrainEnd.BROKEN, None]
    assert "4 moves, and a drain makes at most 3" in after[0].why


def test_a_pod_gets_a_node_although_one_that_only_has_another_volume_does_not() -> None:
    """The volume of the first one is reachable from no node."""
    claims = {("train", n): PersistentVolumeClaim("train", n, "nfs", n) for n in ("a", "b")}
    nowhere = NodeSelectorTerm((Requirement("zone", Operator.IN, ("far",)),))
    volumes = {"a": PersistentVolume("a", "nfs", (nowhere,)), "b": PersistentVolume("b", "nfs")}
    pods = [
        waits(f"big-{n}", labels={}, volumes=(PodVolume(VolumeKind.CLAIM, n),)) for n in ("a", "b")
    ]
    plan = planned(seen(NODES, [*SPREAD, *pods], claims=claims, volumes=volumes), drains())
    [eviction] = plan.evictions
    assert drain_for(eviction).pods == (pods[1].ref,)


def test_a_node_whose_gpus_are_shared_is_left_alone() -> None:
    shared = gpu_node("g0", labels={"nvidia.com/gpu.sharing-strategy": "mps"})
    pods = [*SPREAD, *(runs(f"more{i}", f"g{i}") for i in range(1, 8))]
    plan = planned(seen([shared, *NODES[1:]], [*pods, BIG]), drains())
    assert {eviction.node for eviction in plan.evictions}.isdisjoint({"g0"})
    assert len(plan.evictions) == 2


GANG = {VOLCANO_GROUP: "llama"}
RACKS = (
    HyperNode("r0", 1, "rack", ("g0", "g1", "g2", "g3")),
    HyperNode("r1", 1, "rack", ("g4", "g5", "g6", "g7")),
)


def gang(topology: GroupTopology | None, minimum: int = 2) -> DeclaredGroup:
    return DeclaredGroup("Volcano", "train", "llama", minimum, topology=topology)


OF_JOB = {"volcano.sh/job-name": "llama"}
"""A Job of Volcano marks its pods besides the PodGroup that it makes."""


def ranks(count: int, **fields: Any) -> list[Pod]:
    fields = {"annotations": GANG, "scheduler": "volcano"} | fields
    return [waits(f"rank{i}", **fields) for i in range(count)]


@pytest.mark.parametrize("labels", [{}, OF_JOB])
def test_a_gang_gets_all_its_nodes_in_one_domain(labels: dict[str, str]) -> None:
    more = [runs("more", f"g{i}") for i in (1, 2, 3, 5, 6, 7)]
    even_more = [runs("still-more", f"g{i}") for i in (1, 2, 3)]
    plan = planned(
        seen(NODES, [*SPREAD, *more, *even_more, *ranks(2, labels=labels)],
             extras=NetworkObjects(RACKS).extras,
             declared_groups=(gang(GroupTopology(hard=True, highest_tier=1)),)),
        drains(),
    )  # fmt: skip
    assert len(plan.evictions) == 3
    assert {eviction.node for eviction in plan.evictions} <= {"g4", "g5", "g6", "g7"}
    [drain] = {drain_for(eviction) for eviction in plan.evictions}
    assert drain is not None
    assert drain.gpus == 16


@pytest.mark.parametrize("labels", [{}, OF_JOB])
def test_a_gang_whose_pods_do_not_all_wait_gets_nothing(labels: dict[str, str]) -> None:
    pods = [*SPREAD, *ranks(2, labels=labels)]
    plan = planned(seen(NODES, pods, declared_groups=(gang(None, 3),)), drains())
    assert not plan.evictions
    assert "1 of the 3 pods" in why(plan)


ZONE = "topology.kubernetes.io/zone"


def test_a_reserve_is_drained_within_one_domain() -> None:
    nodes = [gpu_node(f"g{i}", labels={ZONE: "a" if i < 2 else "b"}) for i in range(6)]
    pods = [runs(f"p{i}", f"g{i}") for i in range(6)] + [runs("second", "g0")]
    rules = GpuDrainRules(reserves=(Reserve(8, 2, ZONE),))
    plan = planned(seen(nodes, pods), drains(rules))
    assert len(plan.evictions) == 2
    assert {eviction.node for eviction in plan.evictions} <= {"g2", "g3", "g4", "g5"}


def test_a_reserve_that_is_free_is_held_without_a_drain() -> None:
    rules = GpuDrainRules(reserves=(Reserve(8, 2),))
    plan = planned(seen(NODES, SPREAD[2:]), drains(rules))
    assert not plan.evictions
    assert {taint.node for taint in plan.taints} == {"g0", "g1"}
