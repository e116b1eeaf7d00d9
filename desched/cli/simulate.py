"""`desched simulate`: what policies would do from a snapshot on."""

import sys
from pathlib import Path

import click

from desched.cli.command import Command, Invocation, Usage
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.setting_flags import own_flag
from desched.errors import ConfigurationError

SHORTEST_HOURS = 0.25  # a few cycles
LONGEST_HOURS = 24 * 7
DEFAULT_HOURS = 4.0


def run(invocation: Invocation) -> None:
    """Simulate, and print the figures of all policies side by side."""
    from desched.bootstrap.simulation import simulated, write_simulation
    from desched.views.pages.simulation_page import simulation_page
    from desched.whatif.simulate import Course

    flags, page = invocation.flags, charts_file(invocation)
    hours = flags.get("hours", DEFAULT_HOURS)
    if not SHORTEST_HOURS <= hours <= LONGEST_HOURS:
        raise ConfigurationError(f"--hours must be from {SHORTEST_HOURS} to {LONGEST_HOURS}.")
    found = simulated(
        flags["start"],
        [Path(name) for name in flags.get("policies", ())],
        Course(hours, seed=flags.get("seed", 0)),
        sys.stderr,
    )
    write_simulation(found, flags.get("form", "table"), sys.stdout)
    if page is not None:
        write_page(page, simulation_page(found))


COMMAND = Command(
    "simulate",
    run,
    Usage(
        details="It lets time pass in a simulated cluster: each pod goes on to use what it uses "
        "now, cycles run, evicted pods are placed again, and their load follows them. Policies "
        "stand side by side. The start is a file of `desched snapshot`, or a scenario of the "
        "demonstration: published, guarded, steering or ai.",
        examples={
            "desched simulate now.snapshot --policy a.yaml --policy b.yaml": "two policies",
            "desched simulate steering --hours 2 -o json": "a scenario, for programs",
        },
        parameters=(
            click.Argument(["start"], metavar="SNAPSHOT|SCENARIO"),
            own_flag(
                "--policy",
                "FILE",
                "A policy to simulate; repeat the flag to compare several. By default that of the "
                "snapshot.",
                names=("policies",),
                multiple=True,
            ),
            own_flag("--hours", "HOURS", f"How long. Default: {DEFAULT_HOURS:g}.", type=float),
            own_flag(
                "--seed",
                "NUMBER",
                "Decides which nodes kube-scheduler compares in clusters of more than 100. "
                "Default: 0.",
                type=int,
            ),
            own_flag(
                "--output",
                "table|json|yaml",
                "The format of the figures. Default: table.",
                names=("-o", "form"),
                type=click.Choice(("table", "json", "yaml")),
            ),
            REPORT,
        ),
    ),
)
