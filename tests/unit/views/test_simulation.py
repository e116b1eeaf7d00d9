"""Simulations as tables and as JSON."""

import io
import json
from functools import cache

import pytest
import yaml
from msgspec.structs import replace
from rich.console import Console

from desched.cycle import observe
from desched.model.state import State
from desched.views.pages.simulation_page import simulation_page
from desched.views.progress import ProgressLine
from desched.views.reasons import sentence_of
from desched.views.simulation import print_simulation, render_simulation
from desched.whatif.clock import VirtualClock
from desched.whatif.demo import demo_policy
from desched.whatif.figures import Assumption, Simulated
from desched.whatif.scenarios import guarded_scenario
from desched.whatif.simulate import Beginning, Course, simulate
from tests.properties.outputs import Terminal, harmless

BY = demo_policy()
LOW = replace(BY, source="low", rules=tuple(replace(r, target_ratio=0.7) for r in BY.rules))
HIGH = replace(BY, source="high", rules=tuple(replace(r, target_ratio=0.95) for r in BY.rules))
FULL = replace(
    BY, source="full", max_landing_risk=0.0, sustained_seconds=7200, least_sustained_seconds=7200
)


@cache
def simulated() -> Simulated:
    seen = observe(guarded_scenario().world(acting=False), BY)
    return simulate(Beginning(seen, State(), BY, "the lab"), (BY, LOW, FULL), Course(2))


def shown(width: int = 80) -> str:
    stream = io.StringIO()
    print_simulation(simulated(), Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


def test_policies_stand_side_by_side() -> None:
    lines = shown(120).splitlines()

    (minutes,) = (line for line in lines if line.startswith("overloaded node-minutes"))
    ours, low, full = simulated().policies
    assert minutes.split()[2:] == [
        f"{figures:.0f}"
        for figures in (
            ours.without.node_minutes,
            *(each.with_policy.node_minutes for each in (ours, low, full)),
        )
    ]
    (evictions,) = (line for line in lines if line.startswith("evictions"))
    assert evictions.split()[1:] == ["-", *(str(p.evictions) for p in simulated().policies)]


def test_each_node_is_there_before_and_after() -> None:
    text = shown(120)
    te3 = next(each for each in simulated().policies[0].nodes if each.node == "te3")

    (row,) = (line.split() for line in text.splitlines() if line.startswith("te3 "))
    assert row[1] == f"{te3.overloaded_minutes_before:.0f}"
    assert row[2:4] == [
        f"{te3.overloaded_minutes_after:.0f}",
        f"{te3.evictions}/{te3.landings}",
    ]


def test_hours_without_an_eviction_have_their_reason() -> None:
    text = " ".join(shown().split())

    assert "full: 1 for not_sustained_yet: It has not been overloaded" in text


def test_what_is_assumed_is_said() -> None:
    text = " ".join(shown().split())

    for each in simulated().assumed:
        assert sentence_of(each.assumption).removesuffix(".") in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, shown(width).splitlines())) <= width


def test_json_and_yaml_have_the_same_content() -> None:
    document = json.loads(render_simulation(simulated(), "json"))

    assert document == yaml.safe_load(render_simulation(simulated(), "yaml"))
    assert document["version"] == "desched.io/simulation/v1"
    assert [each["policy"] for each in document["policies"]][1:] == ["low", "full"]


def test_names_cannot_move_the_cursor() -> None:
    evil = replace(simulated().policies[0], policy="\x1b[2J")
    found = replace(simulated(), target="\x9b31m", policies=(evil,))

    for form in ("table", "json", "yaml"):
        harmless(render_simulation(found, form))


def test_a_simulation_can_be_a_page() -> None:
    page = simulation_page(simulated())

    assert "desched simulate: the lab" in page
    assert "no descheduler" in page
    assert "replacements that moved again within an hour" in page
    assert sentence_of(Assumption.LOAD_STAYS) in page


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
