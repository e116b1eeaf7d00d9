"""`desched demo`: a cycle on a simulated cluster."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from desched.cli.command import Command, Invocation, Usage
from desched.cli.exit_codes import ExitCode
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.setting_flags import SETTING_OF_FLAG, own_flag

if TYPE_CHECKING:
    from desched.history.timeline import Timeline
    from desched.whatif.demo import TimelineSink


def run(invocation: Invocation) -> int:
    """Run the demo."""
    from rich.console import Console

    path = charts_file(invocation)
    scenario = invocation.flags.get("scenario", "load")
    keep = None if path is None else _page_writer(path, scenario)
    from desched.views.cycle_table import print_report
    from desched.whatif.demo import run_demo

    try:
        code = run_demo(Console(), print_report, keep, scenario)
        sys.stdout.flush()
    except SystemExit:
        return ExitCode.DONE  # rich raises it when the reader is gone
    return code


def _page_writer(path: Path, scenario: str) -> "TimelineSink":
    def write(before: "Timeline", after: "Timeline") -> None:
        from desched.views.pages.timeline_page import comparison_of, timeline_page
        from desched.whatif.demo import DEMONSTRATIONS

        about = (DEMONSTRATIONS[scenario].about,)
        write_page(
            path, timeline_page(comparison_of("The demo of desched", about, (before, after)))
        )

    return write


_OWN = 'the demo has its own cluster and policy and takes no settings; omit the flag, or "demo".'

COMMAND = Command(
    "demo",
    run,
    Usage(
        details="It needs neither Kubernetes nor Prometheus.",
        examples={
            "desched demo": "a hot node, the plan, and what comes of it",
            "desched demo --scenario ai --report demo.html": "a GPU cluster, also as a page",
        },
        parameters=(
            own_flag(
                "--scenario",
                "load|ai",
                "What is shown: overloaded nodes, or a rack of a GPU cluster with gangs, fast "
                "networks and model caches. Default: load.",
                type=click.Choice(("load", "ai")),
            ),
            REPORT,
        ),
        refused=dict.fromkeys(SETTING_OF_FLAG, _OWN),
    ),
)
