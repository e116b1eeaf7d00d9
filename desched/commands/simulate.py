"""`desched simulate`: what policies would do from a snapshot on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.setting_flags import own_flag
from desched.errors import ConfigurationError

if loaded_to_run(__name__):
    from desched.lab.comparison import simulation_view
    from desched.lab.demo import GPU_DRAINS_FILE, POLICY_FILE, demo_policy
    from desched.lab.figures import Simulated
    from desched.lab.scenarios import (
        ai_scenario,
        gpus_scenario,
        guarded_scenario,
        published_scenario,
        steering_scenario,
    )
    from desched.lab.simulate import Beginning, Course, simulate
    from desched.lab.world import Simulation
    from desched.model.state import State
    from desched.observation import observe
    from desched.policy.policy import Policy
    from desched.policy_file.loading import load_policy
    from desched.service.process.clock import SystemClock
    from desched.snapshot_file.load_check import own_policy, refuse_unseen
    from desched.snapshot_file.report import target_of
    from desched.snapshot_file.storage import load_snapshot
    from desched.views.comparison_table import comparison_blocks
    from desched.views.progress import ProgressLine
    from desched.views.rendering import write_out
    from desched.wording.formatting import plain

    SCENARIOS: Mapping[str, Callable[[], Simulation]] = {
        "published": published_scenario,
        "guarded": guarded_scenario,
        "steering": steering_scenario,
        "ai": ai_scenario,
        "gpus": gpus_scenario,
    }

SHORTEST_HOURS = 0.25  # a few cycles
LONGEST_HOURS = 24 * 7
DEFAULT_HOURS = 4.0


def run(invocation: Invocation) -> None:
    """Simulate, and print the figures of all policies side by side."""
    flags, page = invocation.flags, charts_file(invocation)
    hours = flags.get("hours", DEFAULT_HOURS)
    if not SHORTEST_HOURS <= hours <= LONGEST_HOURS:
        raise ConfigurationError(f"--hours must be from {SHORTEST_HOURS} to {LONGEST_HOURS}.")
    simulation = simulated(
        flags["start"],
        [Path(name) for name in flags.get("policies", ())],
        Course(hours, seed=flags.get("seed", 0)),
    )
    view = simulation_view(simulation)
    write_out(flags.get("form"), simulation, comparison_blocks(view))
    if page is not None:
        from desched.views.pages.timeline_page import timeline_page  # noqa: PLC0415  (optional)

        write_page(page, timeline_page(view))


def simulated(start: str, policies: Sequence[Path], course: Course) -> Simulated:
    """Simulate a snapshot file, or else the scenario of this name.

    Without policies, that of the file or of the demonstration is simulated.

    Raises:
        ConfigurationError: the file or a policy cannot be used.
    """
    given = [load_policy(path).policy for path in policies]
    names = [policy.source for policy in given]
    if len(set(names)) < len(names):
        raise ConfigurationError("Name each policy once; two runs of one policy are equal.")
    beginning = _beginning(start, given)
    with ProgressLine("Simulating", sys.stderr, SystemClock()) as tell:
        return simulate(beginning, given or [beginning.policy], course, tell)


def _beginning(start: str, policies: Sequence[Policy]) -> Beginning:
    path = Path(start)
    if not path.exists() and start in SCENARIOS:
        own = demo_policy(GPU_DRAINS_FILE if start == "gpus" else POLICY_FILE)
        snapshot = observe(SCENARIOS[start]().world(acting=False), own)
        return Beginning(snapshot, State(), own, f"scenario {start}")
    if not path.exists():
        raise ConfigurationError(
            f"{plain(start)} is neither a file nor one of the scenarios {', '.join(SCENARIOS)}."
        )
    content, name = load_snapshot(path), plain(start)
    own = own_policy(content, name)
    for policy in policies:
        refuse_unseen(policy, content, own, name)
    return Beginning(content.snapshot, content.state, own, target_of(content))


COMMAND = Command(
    "simulate",
    details="It lets time pass in a simulated cluster: each pod goes on to use what it uses "
    "now, cycles run, evicted pods are placed again, and their load follows them. Policies "
    "stand side by side. The start is a file of `desched snapshot`, or a scenario of the "
    "demonstration: published, guarded, steering, ai or gpus.",
    examples={
        "desched simulate now.snapshot --policy a.yaml --policy b.yaml": "two policies",
        "desched simulate steering --hours 2 -o json": "a scenario, for programs",
    },
    parameters=(
        click.Argument(["start"], metavar="SNAPSHOT|SCENARIO"),
        own_flag(
            "--policy FILE",
            "A policy to simulate; repeat the flag to compare several. By default that of the "
            "snapshot.",
            name="policies",
            multiple=True,
        ),
        own_flag("--hours HOURS", f"How long. Default: {DEFAULT_HOURS:g}.", type=float),
        own_flag(
            "--seed NUMBER",
            "Decides which nodes kube-scheduler compares in clusters of more than 100. Default: 0.",
            type=int,
        ),
        own_flag(
            "--output, -o table|json|yaml",
            "The format of the figures. Default: table.",
            name="form",
            choices=True,
        ),
        REPORT,
    ),
)
