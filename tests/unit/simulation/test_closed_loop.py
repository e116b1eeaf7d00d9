"""A short form of `benchmarks.closed_loop`, on a made-up morning instead of the trace."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as replaced

from benchmarks.closed_loop import (
    DESCHED,
    DESCHED_STEERING,
    NOBODY,
    default_policy,
    quiet_day,
    run_day,
)
from benchmarks.day import MINUTES, Day, Floats, Regime, Workload, a_day
from benchmarks.placement import Placement
from benchmarks.trace import SAMPLES, SECONDS_PER_SAMPLE
from desched.model.cluster import STEERING_TAINT, Effect, Taint
from desched.model.resources import Amounts
from desched.simulation.scheduler import choose_node

NODES = 8
PODS = NODES * 16
HOT_CYCLES = 14
MOVED_TO_THE_HOT_NODE = 7
OTHER_TAINT = Taint("batch", Effect.PREFER_NO_SCHEDULE)
SOFT_TAINTS = {"n001": (STEERING_TAINT,), "n004": (OTHER_TAINT, STEERING_TAINT)}


def flat(seed: int) -> Floats:
    """Machines with a steady load, each of its own level."""
    levels = np.random.default_rng(seed).uniform(0.05, 0.35, size=(PODS, 1, 2))
    return np.broadcast_to(levels, (PODS, SAMPLES, 2)).copy()


def a_morning(moved: int = MOVED_TO_THE_HOT_NODE) -> Day:
    """Each pod takes 3.75 % of a node; n000 has 23 of them, n001 only 9, unless told otherwise."""
    even = np.full((PODS, SAMPLES, 2), 0.2)
    day = a_day(even, 3, Regime.LOW, nodes=NODES)
    places = [name for name in (f"n{i:03}" for i in range(NODES)) for _ in range(16)]
    for i in range(16, 16 + moved):
        places[i] = "n000"
    chance = np.random.default_rng(3)
    chance.shuffle(places)
    dealt = iter(places)
    requests = Amounts(500, 2**30, pods=1)
    workloads = tuple(
        replace(w, requests=requests, nodes=tuple(next(dealt) for _ in w.usage))
        for w in day.workloads
    )
    return replace(day, workloads=workloads)


def a_trap() -> Day:
    """The same, with pods in pairs; those on n000 request hardly anything, so it looks empty."""
    day = a_morning()
    others = [f"n{i:03}" for i in range(2, NODES)]
    light = [("n000", others[i % len(others)]) for i in range(16 + MOVED_TO_THE_HOT_NODE)]
    full = ["n001"] * (16 - MOVED_TO_THE_HOT_NODE) + others * 16
    for _, name in light:
        full.remove(name)
    half = len(full) // 2
    heavy = list(zip(full[:half], full[half:], strict=True))
    usage = iter([series for workload in day.workloads for series in workload.usage])
    requests = {True: Amounts(10, 2**20, pods=1), False: Amounts(1_500, 2**30, pods=1)}
    workloads = tuple(
        Workload(f"pair{i:02}", requests[nodes in light], (next(usage), next(usage)), nodes)
        for i, nodes in enumerate([*light, *heavy])
    )
    return replace(day, workloads=workloads)


def test_a_day_on_which_nothing_is_above_its_target_sees_no_eviction() -> None:
    quiet = quiet_day(flat(3), 3, Regime.LOW, NODES)
    outcome = run_day(quiet, DESCHED, default_policy(), cycles=HOT_CYCLES)
    assert outcome.evictions == []
    assert outcome.load.max() > 0.7


def test_a_hot_hour_ends_with_less_overload_and_no_pod_is_evicted_twice() -> None:
    day = a_morning()
    without = run_day(day, NOBODY, default_policy(), cycles=HOT_CYCLES)
    outcome = run_day(day, DESCHED, default_policy(), cycles=HOT_CYCLES)
    assert without.overload_minutes == MINUTES
    assert outcome.overload_minutes < 60
    assert 0 < len(outcome.evictions) <= 4
    assert (outcome.came_back, outcome.pod_repeats) == (0, 0)
    assert outcome.tally.results.total() == len(outcome.evictions)
    assert outcome.tally.stays["evicted from"] > 0


def test_cycles_begin_on_their_ticks_although_acting_takes_time() -> None:
    policy = default_policy()
    slow = replaced(policy, limits=replaced(policy.limits, per_minute=1))
    outcome = run_day(a_morning(moved=9), DESCHED, slow, cycles=HOT_CYCLES)
    first, second, third, *_ = (evicted.at for evicted in outcome.evictions)
    assert (first % SECONDS_PER_SAMPLE, second - first) == (0, 60)
    assert third % SECONDS_PER_SAMPLE == 0
    assert outcome.tally.acting_seconds == 60


def test_soft_taints_let_pods_leave_a_node_that_the_scheduler_likes_best() -> None:
    day = a_trap()
    without = run_day(day, DESCHED, default_policy(), cycles=HOT_CYCLES)
    outcome = run_day(day, DESCHED_STEERING, default_policy(), cycles=HOT_CYCLES)
    assert (without.evictions, without.tally.taints) == ([], 0)
    assert outcome.overload_minutes < 60
    assert 0 < len(outcome.evictions) <= 4
    assert (outcome.came_back, outcome.pod_repeats) == (0, 0)
    assert 0 < outcome.tally.most_tainted <= outcome.tally.taints


@pytest.mark.parametrize("regime", list(Regime))
def test_the_fast_placement_is_that_of_the_simulated_scheduler(regime: Regime) -> None:
    day = a_day(flat(5), 5, regime, nodes=NODES)
    simulation = day.begin()
    for name, taints in SOFT_TAINTS.items():
        simulation.cluster.change_node(name, taints=taints)
    for pod in simulation.cluster.read_cluster().pods[:12]:
        simulation.cluster.delete_pod(pod.namespace, pod.name)
    state = simulation.cluster.read_cluster()
    placement = Placement(state)
    for pod in state.pods[::5]:
        others = tuple(replaced(p, deleting=True) if p.uid == pod.uid else p for p in state.pods)
        leaving = replaced(state, pods=others)
        assert placement.of(pod) == choose_node(replaced(pod, node="", uid="new"), leaving)


def test_a_replacement_takes_over_the_load_of_the_pod_that_it_replaces() -> None:
    simulation = a_morning().begin()
    cluster = simulation.cluster
    evicted = cluster.read_cluster().pods[5]
    before = next(cluster.history.stays_of(evicted.uid)).usage
    cluster.delete_pod(evicted.namespace, evicted.name)
    replacement = cluster.read_cluster().pods[-1]
    assert replacement.owner == evicted.owner
    assert next(cluster.history.stays_of(replacement.uid)).usage is before
