"""A replay leaves out cycles that would do nothing: its result is that of all cycles."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from desched.lab.closed_loop import Descheduler
from desched.lab.figures import Backtest
from desched.lab.past.backtest import backtest
from desched.lab.past.calm import CalmCycles
from desched.lab.past.replay import Replay
from desched.lab.past.run import Span
from desched.lab.recorded_past import Past
from desched.lab.template import PodTemplate
from desched.model.resources import Resource
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, SteeringRules
from tests.builders import amounts, node, policy, rule
from tests.unit.lab.past.pasts import CORES, MEMORY_GIB, Life, a_past, at, cordon

HOSTS = ("a", "b", "c", "d")
STEPS, LEAD = 48, 12


def all_cycles(past: Past, by: Policy) -> Backtest:
    with patch.object(CalmCycles, "is_next", autospec=True, return_value=False):
        return some_cycles(past, by)


def some_cycles(past: Past, by: Policy) -> Backtest:
    return backtest(past, [by], Span(at(LEAD), at(past.steps)))


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    """Pods that use more or less every hour; some come late, end, or are unknown for an hour."""
    found = []
    for number in range(draw(st.integers(4, 12))):
        first = draw(st.sampled_from([0, 0, 0, 6, 20]))
        hours = st.sampled_from([0.1, 0.1, 0.3, 0.8, 1.4, float("nan")])
        cores = [draw(hours) if i % 12 == 0 else None for i in range(STEPS - first)]
        levels = [cores[i // 12 * 12] or 0.0 for i in range(len(cores))]
        ends = draw(st.booleans())
        levels = levels[: draw(st.integers(6, len(levels)))] if ends else levels
        of = draw(st.sampled_from(["web", "db", None]))
        on = draw(st.sampled_from(HOSTS[:2]))
        found.append(Life(f"pod-{number}", on, levels, first, of, ends=ends))
    return found


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    target = draw(st.sampled_from([0.5, 0.7, 0.8]))
    rules = (
        rule(target_ratio=target),
        rule(Resource.MEMORY, target_ratio=draw(st.sampled_from([0.2, 0.8]))),
    )
    mode = draw(st.sampled_from(list(SteeringMode)))
    return replace(
        policy(*rules[: draw(st.integers(1, 2))]),
        steering=SteeringRules(mode),
        deviation=draw(st.sampled_from([False, False, False, True])),
        min_underloaded_nodes=draw(st.sampled_from([0, 2])),
    )


@st.composite
def gaps(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Up to all nodes are unknown for a while: one may be, two of four end a cycle."""
    nodes = draw(st.lists(st.sampled_from(HOSTS), max_size=4, unique=True))
    first = draw(st.integers(0, STEPS - 1))
    last = min(STEPS, first + draw(st.integers(0, 12)))
    return [(node, step) for node in nodes for step in range(first, last)]


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    # Pods may have a quarter of the memory of a, which they can fill.
    small = node("a", CORES, MEMORY_GIB, allocatable=amounts(CORES, 4))
    nodes: dict[str, Any] = {"a": {"node": small}}
    if draw(st.booleans()):
        nodes["d"] = {"changes": (cordon(draw(st.integers(0, STEPS - 1))),)}
    return a_past(draw(lives()), HOSTS, STEPS, unknown=draw(gaps()), **nodes)


@settings(deadline=None, max_examples=settings().max_examples // 2)
@given(pasts(), policies())
def test_a_replay_without_calm_cycles_has_the_result_of_all_cycles(past: Past, by: Policy) -> None:
    assert some_cycles(past, by) == all_cycles(past, by)


HOT_FOR_AN_HOUR = [0.2] * 15 + [0.9] * 12 + [0.2] * (STEPS - 27)


GPU_NODE = replace(node("d").allocatable, extended=(("nvidia.com/gpu", 4),))


def cycles_run(past: Past, by: Policy) -> int:
    with patch.object(Descheduler, "cycle", autospec=True, side_effect=Descheduler.cycle) as cycle:
        some_cycles(past, by)
    return cycle.call_count


@pytest.mark.parametrize(
    ("mode", "fewest", "most"), [(SteeringMode.WHEN_NEEDED, 5, 25), (SteeringMode.ALWAYS, 35, 50)]
)
def test_only_cycles_with_something_to_do_run(mode: SteeringMode, fewest: int, most: int) -> None:
    past = a_past([Life(f"web-{i}", "a", HOT_FOR_AN_HOUR) for i in range(4)], HOSTS, STEPS)
    by = replace(policy(rule()), steering=SteeringRules(mode))
    found = some_cycles(past, by)
    assert found == all_cycles(past, by)
    assert found.policies[0].evictions
    assert fewest <= cycles_run(past, by) <= most


def test_a_cycle_runs_after_a_start_and_while_a_soft_taint_is_set() -> None:
    past = a_past([Life("web-0", "a", [0.2] * STEPS)], HOSTS, STEPS)
    by, simulation = policy(rule()), Replay(past).begin()
    desched, calm = Descheduler(by, "test"), CalmCycles(simulation, by, has_gpus=False)
    assert not calm.is_next(desched)  # what was before the replay is not known
    simulation.clock.advance(7200)
    assert not calm.is_next(desched)  # the first one shows whether the policy can be used at all
    desched.cycle(simulation.world(acting=True))
    assert calm.is_next(desched)
    simulation.cluster.add_pod("apps", "late", PodTemplate(), "c")
    simulation.clock.advance(3600)
    assert not calm.is_next(desched)  # its past of the last hour is that of its node, too
    simulation.clock.advance(600)
    assert calm.is_next(desched)
    simulation.steerer.taint("b", simulation.clock.now())
    assert not calm.is_next(desched)


def test_all_cycles_of_a_cluster_with_gpus_run_because_each_measures_them() -> None:
    nodes: dict[str, Any] = {"d": {"node": node("d", allocatable=GPU_NODE, capacity=GPU_NODE)}}
    past = a_past([Life("web-0", "a", [0.2] * STEPS)], HOSTS, STEPS, **nodes)
    found = some_cycles(past, policy(rule()))
    assert found == all_cycles(past, policy(rule()))
    assert cycles_run(past, policy(rule())) == STEPS - LEAD - 1
