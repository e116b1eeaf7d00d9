"""Simulations as tables and as JSON."""

import io
import re
from functools import cache

from msgspec.structs import replace

from desched.lab.clock import VirtualClock
from desched.lab.comparison import simulation_view
from desched.lab.demo import demo_policy
from desched.lab.figures import Simulated
from desched.lab.scenarios import guarded_scenario
from desched.lab.simulate import Beginning, Course, simulate
from desched.model.state import State
from desched.observation import observe
from desched.views.comparison_table import comparison_blocks
from desched.views.progress import ProgressLine
from desched.wording.reasons import sentence_of
from tests.properties.outputs import Terminal
from tests.shown import text_of

BY = demo_policy()
LOW = replace(BY, source="low", rules=tuple(replace(r, target_ratio=0.7) for r in BY.rules))
FULL = replace(BY, source="full", max_landing_risk=0.0, eviction_price_minutes=90.0)


@cache
def simulated() -> Simulated:
    seen = observe(guarded_scenario().world(acting=False), BY)
    return simulate(Beginning(seen, State(), BY, "the lab"), (BY, LOW, FULL), Course(2))


def shown(width: int = 80) -> str:
    return text_of(comparison_blocks(simulation_view(simulated())), width)


def test_what_plugins_count_at_the_end_stands_beside_that_at_the_beginning() -> None:
    before, after = ({"idle GPUs": idle, "fragmented GPUs": 1.5} for idle in (7, 9))
    found = simulated()
    first, *others = found.policies
    measured = replace(first, figures_before=before, figures_after=after)
    view = simulation_view(replace(found, policies=(measured, *others)))

    values = {each.label: each.values for each in view.figures}
    assert values["idle GPUs"][:2] == (7, 9)
    assert values["fragmented GPUs"][:2] == (1.5, 1.5)
    assert not [each.label for each in simulation_view(found).figures if "GPU" in each.label]


def test_policies_stand_side_by_side() -> None:
    lines = shown(120).splitlines()

    (minutes,) = (line for line in lines if line.startswith("overloaded node-minutes"))
    ours, low, full = simulated().policies
    assert minutes.split()[2:] == [
        f"{figures:.0f}"
        for figures in (
            ours.without.node_minutes,
            ours.with_policy.node_minutes,
            low.without.node_minutes,  # its lines differ
            low.with_policy.node_minutes,
            full.with_policy.node_minutes,
        )
    ]
    (evictions,) = (line for line in lines if line.startswith("evictions  "))
    numbers = [str(policy.evictions) for policy in (ours, low, full)]
    assert evictions.split()[1:] == ["-", numbers[0], "-", *numbers[1:]]


def test_each_node_is_there_before_and_after() -> None:
    text = shown(120)
    te3 = next(each for each in simulated().policies[0].nodes if each.node == "te3")

    (row,) = (line.split() for line in text.splitlines() if line.startswith("te3 "))
    minutes = te3.overloaded_minutes_before, te3.overloaded_minutes_after
    assert row[1:3] == [f"{each:.0f}" for each in minutes]
    assert row[-3] == str(te3.evictions)


def test_cycles_without_an_eviction_have_their_reason() -> None:
    text = shown(200)

    assert re.search(r"nodes were overloaded · full:\n.+\n +\d+ +overload_passes +Its over", text)


def test_what_is_assumed_is_said() -> None:
    text = " ".join(shown().split())

    for each in simulated().assumed:
        assert sentence_of(each.assumption).removesuffix(".") in text


def test_progress_is_shown_on_a_terminal_after_a_second() -> None:
    terminal, clock = Terminal(), VirtualClock()
    with ProgressLine("Simulating", terminal, clock) as tell:
        tell(0.1)
        assert terminal.getvalue() == ""
        clock.advance(1.5)
        tell(0.5)
    assert "Simulating" in terminal.getvalue()
    assert "50%" in terminal.getvalue()


def test_progress_is_not_shown_elsewhere() -> None:
    stream, clock = io.StringIO(), VirtualClock()
    with ProgressLine("Simulating", stream, clock) as tell:
        clock.advance(5.0)
        tell(0.5)
    assert stream.getvalue() == ""
