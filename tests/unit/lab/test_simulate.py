"""Policies side by side from a snapshot on."""

from datetime import timedelta

import numpy as np
import pytest
from msgspec.structs import replace

from desched.lab.demo import demo_policy
from desched.lab.figures import Assumed, Assumption, Simulated
from desched.lab.scenarios import ai_scenario, guarded_scenario, steering_scenario
from desched.lab.scheduler.choice import MOST_COMPARED, NodeSample
from desched.lab.simulate import WITHOUT, Beginning, Course, simulate
from desched.model.plan import HoldReason
from desched.model.resources import Resource
from desched.model.state import Pause, PauseScope, State
from desched.observation import observe
from desched.policy.policy import Policy
from tests.builders import no_limits_but, rule

BY = demo_policy()
CAREFUL = replace(
    BY, source="careful", rules=tuple(replace(r, target_ratio=0.95) for r in BY.rules)
)
HASTY = replace(BY, source="hasty", limits=no_limits_but(node=5))


def beginning(scenario=guarded_scenario, state: State | None = None) -> Beginning:
    seen = observe(scenario().world(acting=False), BY)
    return Beginning(seen, state or State(), BY, "the lab")


def run(*policies: Policy, hours: float = 2, **more) -> Simulated:
    return simulate(beginning(**more), policies or (BY,), Course(hours))


def test_a_policy_stands_beside_the_same_time_without_desched() -> None:
    found = run(scenario=steering_scenario)

    (figures,) = found.policies
    assert figures.before.name == WITHOUT
    assert figures.without.node_minutes == 120.0
    assert figures.with_policy.node_minutes < 30.0
    assert figures.evictions == len(figures.after.evictions) == 1
    assert (figures.came_back, figures.landed_overloaded, figures.replicas_moved_again) == (0, 0, 0)
    assert figures.pending_minutes < 1
    by_node = {each.node: each for each in figures.nodes}
    assert (by_node["te1"].evictions, by_node["te5"].landings) == (1, 1)
    assert by_node["te1"].overloaded_minutes_before == 120.0
    assert by_node["te5"].peak_after > by_node["te5"].peak_before


def test_gpus_are_measured_at_the_beginning_and_at_the_end() -> None:
    (figures,) = run(scenario=ai_scenario, hours=0.5).policies

    before, after = figures.figures_before, figures.figures_after
    assert 0 < before["fragmented GPUs"] < before["idle GPUs"]
    assert {f"places for {size}" for size in ("1 GPU", "2 GPUs", "4 GPUs", "8 GPUs")} < after.keys()


def test_without_gpus_nothing_is_measured_of_them() -> None:
    (figures,) = run(hours=0.5).policies

    assert (figures.figures_before, figures.figures_after) == ({}, {})


def test_the_times_begin_with_the_snapshot() -> None:
    start = beginning()
    found = simulate(start, (BY,), Course(3))

    assert found.started_at == start.snapshot.taken_at
    assert found.ended_at - found.started_at == timedelta(hours=3)
    (figures,) = found.policies
    assert figures.after.started_at == found.started_at
    assert figures.after.steps * figures.after.step_seconds == 3 * 3600
    assert all(found.started_at <= each.at < found.ended_at for each in figures.after.evictions)


def test_several_policies_begin_alike() -> None:
    found = run(BY, HASTY, CAREFUL)

    ours, hasty, careful = found.policies
    assert [each.policy for each in found.policies] == [BY.source, "hasty", "careful"]
    assert hasty.evictions >= ours.evictions > careful.evictions == 0
    assert ours.without == hasty.without
    assert careful.without.node_minutes == 0.0  # by its targets nothing is overloaded
    assert run(BY).policies[0] == ours


def test_a_target_for_gpus_is_among_what_is_assumed() -> None:
    of_gpus = replace(BY, source="gpus", rules=(*BY.rules, rule(Resource.GPU)))
    said = Assumed(Assumption.GPUS_UNKNOWN)
    assert said in run(BY, of_gpus, hours=0.5).assumed
    assert said not in run(BY, hours=0.5).assumed


def test_equal_arguments_give_equal_figures() -> None:
    assert run() == run()


def test_what_the_state_forbids_is_forbidden() -> None:
    start = beginning()
    pause = Pause(PauseScope.EVERYTHING, start.snapshot.taken_at, None, by="bob")

    found = simulate(start._replace(state=State(pauses=(pause,))), (BY,), Course(2))

    (figures,) = found.policies
    assert figures.evictions == 0
    assert [each.reason.value for each in figures.hours.idle] == ["paused"]


def test_a_state_without_its_beginning_holds_the_first_cycles() -> None:
    start = beginning()
    state = State(since=start.snapshot.taken_at)

    found = simulate(start._replace(state=state), (BY,), Course(1)).policies[0]

    assert HoldReason.JUST_STARTED not in {each.reason for each in found.hours.idle}
    assert found.evictions == 1


def test_progress_ends_at_the_whole() -> None:
    shares: list[float] = []

    simulate(beginning(), (BY, HASTY), Course(1), shares.append)

    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("nodes", "compared"), [(100, None), (101, 100), (1000, 420), (5000, 500), (10_000, 500)]
)
def test_in_large_clusters_the_scheduler_compares_a_part(nodes: int, compared: int | None) -> None:
    sample = NodeSample.of_cluster(nodes)

    assert (sample is None) == (nodes <= MOST_COMPARED)
    if sample is not None:
        assert int(sample.of(np.ones(nodes, dtype=bool)).sum()) == compared


def test_the_seed_decides_which_nodes_are_compared() -> None:
    every = np.ones(300, dtype=bool)

    def chosen(seed: int) -> tuple[int, ...]:
        sample = NodeSample.of_cluster(300, seed)
        assert sample is not None
        return tuple(np.flatnonzero(sample.of(every)))

    assert chosen(1) == chosen(1) != chosen(2)
