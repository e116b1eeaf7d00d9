"""A made-up morning: pods with a steady load, too many of them on one node."""

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from desched.lab.closed_loop import (
    INTERVAL_SECONDS,
    Day,
    Deployment,
    Descheduler,
    LoopMove,
    LoopResult,
    Pace,
    run,
)
from desched.lab.demo import demo_policy
from desched.lab.history import Usage, UsageSeries
from desched.lab.template import PodTemplate
from desched.model.cluster import ClusterState, SchedulingClass
from desched.model.load import ClusterLoad
from desched.model.plan import NodeClass
from desched.model.report import CycleReport, EvictionVerdict
from desched.model.resources import Amounts
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, SteeringRules
from desched.ports import ChoosePods, LoadReader, World, all_pods

NODE = Amounts(cpu_millicores=32_000, memory_bytes=128 * 2**30)
NODES = tuple(f"n{i:03}" for i in range(8))
SHARE = 0.0375
"""What a pod uses of a node: 16 pods use 60 % of it, 23 pods 86 %."""
INTERVAL = timedelta(seconds=INTERVAL_SECONDS)
CYCLES = 14
MINUTES = (CYCLES + 1) * 5
EVEN, HEAVY, LIGHT = (Amounts(cpu, 2**30, pods=1) for cpu in (500, 1_500, 10))


def policy(**changes: object) -> Policy:
    return replace(demo_policy(), **changes)


NOT_STEERING = policy(steering=SteeringRules(SteeringMode.OFF))


def deployment(name: str, requests: Amounts, *nodes: str) -> Deployment:
    """A pod on each of the nodes."""
    usage = Usage(NODE.cpu_millicores * SHARE, NODE.memory_bytes * SHARE)
    template = PodTemplate(
        scheduling=SchedulingClass(requests),
        usage_by_replica=tuple(UsageSeries(INTERVAL_SECONDS, [usage]) for _ in nodes),
        labels={"app": name},
    )
    return Deployment(name, template, nodes, "shop")  # the policy excludes default


def a_day(deployments: list[Deployment]) -> Day:
    return Day(dict.fromkeys(NODES, NODE), tuple(deployments))


def a_morning(on_n000: int = 23) -> Day:
    """In workloads of eight; what n000 has above 16 pods is missing on n001."""
    others = [name for name in NODES[2:] for _ in range(16)]
    places = ["n000"] * on_n000 + ["n001"] * (32 - on_n000) + others
    dealt = np.random.default_rng(3).permutation(places).tolist()
    return a_day([deployment(f"w{i:02}", EVEN, *dealt[8 * i : 8 * i + 8]) for i in range(16)])


def a_trap() -> Day:
    """Pods in pairs; those on n000 request hardly anything, so that it looks empty."""
    others = [NODES[2 + i % 6] for i in range(23)]
    full = ["n001"] * 9 + list(NODES[2:]) * 16
    for name in others:
        full.remove(name)
    light = [deployment(f"a{i:02}", LIGHT, "n000", name) for i, name in enumerate(others)]
    half = len(full) // 2
    pairs = zip(full[:half], full[half:], strict=True)
    return a_day(light + [deployment(f"b{i:02}", HEAVY, *pair) for i, pair in enumerate(pairs)])


def desched(day: Day, by: Policy) -> tuple[LoopResult, list[CycleReport]]:
    reports: list[CycleReport] = []
    itself = Descheduler(by, "test")

    def act(world: World) -> CycleReport:
        reports.append(itself.cycle(world))
        return reports[-1]

    return run(day.begin(), act, by, CYCLES), reports


def nobody(day: Day, cycles: int = CYCLES) -> LoopResult:
    return run(day.begin(), lambda _: None, policy(), cycles)


def test_load_is_what_pods_use_where_they_are() -> None:
    result = nobody(a_morning())
    assert result.load.shape == (len(NODES), MINUTES, 2)
    assert np.allclose(result.load[:, :, 0].T, np.array([23, 9, *[16] * 6]) * SHARE)
    assert (result.overload.node_minutes, result.moves) == (MINUTES, [])


def test_a_morning_on_which_nothing_is_above_its_target_sees_no_eviction() -> None:
    result, _ = desched(a_morning(on_n000=21), policy())
    assert result.moves == []
    assert 0.7 < result.load.max() < result.targets.min()


def test_an_overloaded_hour_ends_with_less_overload_and_no_pod_is_evicted_twice() -> None:
    result, reports = desched(a_morning(), policy())
    assert result.overload.node_minutes < 60
    assert 0 < len(result.moves) <= 4
    assert (result.came_back, result.replica_repeats, result.pending_minutes) == (0, 0, 0)
    accepted = [o for r in reports for o in r.outcomes if o.verdict is EvictionVerdict.EVICTED]
    assert [outcome.pod.uid for outcome in accepted] == [move.pod for move in result.moves]
    assert not [v for v in reports[-1].plan.nodes if v.node_class is NodeClass.OVERLOADED]


def test_a_node_far_above_its_target_is_relieved_like_one_just_above_it() -> None:
    """Pods of 3.75 points."""
    result, _ = desched(a_morning(on_n000=25), policy())
    assert result.moves


def test_cycles_begin_on_their_ticks_although_acting_takes_time() -> None:
    slow = policy(limits=replace(policy().limits, per_minute=1))
    result, reports = desched(a_morning(), slow)
    first, second, *_ = (move.at for move in result.moves)
    assert second - first == 60
    assert max(report.duration_seconds for report in reports) == 60
    began = [report.started_at for report in reports]
    assert {later - earlier for earlier, later in pairwise(began)} == {INTERVAL}


class ReadsAll(NamedTuple):
    """Reads the usage of all pods, whichever are chosen."""

    load: LoadReader

    def read_load(
        self,
        cluster: ClusterState,
        policy: Policy,
        choose: ChoosePods = all_pods,  # noqa: ARG002  (part of the port)
    ) -> ClusterLoad:
        """The load of nodes and of all pods."""
        return self.load.read_load(cluster, policy)


@pytest.mark.parametrize("begin", [a_morning, a_trap])
def test_the_usage_of_some_pods_leads_to_the_same_moves_as_that_of_all(
    begin: Callable[[], Day],
) -> None:
    with_some, _ = desched(begin(), policy())
    itself = Descheduler(policy(), "the simulation")
    with_all = run(
        begin().begin(),
        lambda world: itself.cycle(world._replace(load=ReadsAll(world.load))),
        policy(),
        CYCLES,
    )
    assert with_some.moves
    assert with_some.moves == with_all.moves
    assert np.array_equal(with_some.load, with_all.load)


def test_soft_taints_let_pods_leave_a_node_that_the_scheduler_likes_best() -> None:
    without, _ = desched(a_trap(), NOT_STEERING)
    result, reports = desched(a_trap(), policy())
    assert without.moves == []
    assert result.overload.node_minutes < 60
    assert 0 < len(result.moves) <= 4
    assert (result.came_back, result.replica_repeats) == (0, 0)
    assert any(report.taints for report in reports)


def test_what_is_evicted_without_a_forecast_may_come_back() -> None:
    day = a_trap()

    def evict_one(world: World) -> None:
        assert world.evictor is not None
        pods = world.cluster.read_cluster().pods_by_node["n000"]
        world.evictor.evict(next(pod.ref for pod in reversed(pods) if not pod.deleting), "test")

    result = run(day.begin(), evict_one, policy(), CYCLES)
    assert result.came_back == len(result.moves) == CYCLES
    assert result.landed_overloaded == 0  # it was before
    assert result.replica_repeats == CYCLES - 1
    assert all(new.pod == old.replacement for old, new in pairwise(result.moves))


def moves(*found: LoopMove) -> LoopResult:
    return LoopResult(np.zeros((1, 1, 2)), np.ones(2), found, 600.0, {"w": 4, "v": 2})


def test_the_severity_of_overload_is_in_node_minutes_and_points() -> None:
    cpu = [[0.8, 0.85, 0.9, 0.95, 1.0, 1.25], [np.nan, 0.5, 0.5, 0.5, 0.5, 0.5]]
    memory = [[0.1, 0.1, 0.1, 0.9, 0.1, 0.1], [np.nan, 0.8, 0.86, 0.95, 0.8, 0.8]]
    load, targets = np.stack([cpu, memory], axis=2), np.array([0.8, 0.85])
    result = LoopResult(load, targets, (), 720.0, {}, step_seconds=120.0)
    found = result.overload
    assert found.node_minutes == 14
    assert found.above_90_node_minutes == 8
    assert found.full_cpu_node_minutes == 4
    assert found.excess_point_minutes == pytest.approx(2 * (5 + 10 + 15 + 20 + 20 + 1 + 10))
    assert found.unmet_cpu_node_minutes == pytest.approx(2 * 0.25)
    assert (found.longest_episode_minutes, found.nodes) == (10, 2)


def test_measured_load_is_full_at_what_rounds_to_100_percent() -> None:
    load = np.array([[[0.994, 0.1], [0.996, 0.1], [1.2, 0.1]]])
    asked = LoopResult(load, np.ones(2), (), 180.0, {})
    measured = dataclasses.replace(asked, demand_is_known=False)
    assert asked.overload.full_cpu_node_minutes == 1
    assert measured.overload.full_cpu_node_minutes == 2
    assert measured.overload.unmet_cpu_node_minutes is None


def test_without_a_target_nothing_is_in_excess() -> None:
    result = LoopResult(np.full((1, 3, 2), 1.5), np.array([np.inf, np.inf]), (), 180.0, {})
    assert result.overload.excess_point_minutes == 0
    assert result.unmet_cpu_node_minutes == 1.5


def test_a_repeat_is_less_than_an_hour_after_the_eviction_before() -> None:
    first = LoopMove(0.0, "w", "a", "n1", "b")
    assert moves(first, LoopMove(3599.0, "w", "b", "n1", "c")).replica_repeats == 1
    assert moves(first, LoopMove(3600.0, "w", "b", "n1", "c")).replica_repeats == 0
    assert moves(first, LoopMove(60.0, "w", "x", "n1", "y")).replica_repeats == 0


def test_the_share_of_a_workload_counts_the_moves_of_any_hour() -> None:
    times = [0.0, 1800.0, 3599.0, 3601.0, 9000.0]
    found = [LoopMove(at, "w", f"a{i}", "n1", f"b{i}") for i, at in enumerate(times)]
    assert moves(*found).share_within_hour == 0.75
    assert moves(*found, LoopMove(0.0, "v", "x", "n1", "y")).share_within_hour == 0.75
    assert moves(LoopMove(0.0, "v", "x", "n1", "y")).share_within_hour == 0.5
    assert moves().share_within_hour == 0.0


def test_a_replacement_without_a_node_waits_until_the_end() -> None:
    landed = LoopMove(60.0, "w", "a", "n1", "b", landed_at=120.0, landed_on="n2", overloaded=True)
    result = moves(landed, LoopMove(300.0, "w", "c", "n1", "d"))
    assert (result.pending_minutes, result.landed_overloaded, result.came_back) == (6, 1, 0)


def test_every_run_of_a_day_begins_alike() -> None:
    day = a_morning()
    assert np.array_equal(nobody(day).load, nobody(day).load)


def test_the_share_that_is_done_is_of_the_time_that_all_intervals_take() -> None:
    pace = Pace(interval_seconds=300.0, begins_at=100.0)
    assert [pace.done_share(now, 4) for now in (100.0, 700.0, 5000.0)] == [0.0, 0.5, 1.0]
