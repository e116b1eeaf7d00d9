"""`desched demo`: a cycle on a simulated cluster."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from desched.cli.command import Command, Invocation, Usage
from desched.cli.exit_codes import ExitCode
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.setting_flags import SETTING_OF_FLAG

if TYPE_CHECKING:
    from desched.model.timeline import Timeline
    from desched.simulation.demo import TimelineSink


def run(invocation: Invocation) -> int:
    """Run the demo."""
    from rich.console import Console

    path = charts_file(invocation)
    keep = None if path is None else _page_writer(path)
    from desched.service.reports.cycle_table import print_report
    from desched.simulation.demo import run_demo

    try:
        code = run_demo(Console(), print_report, keep)
        sys.stdout.flush()
    except SystemExit:
        return ExitCode.DONE  # rich raises it when the reader is gone
    return code


def _page_writer(path: Path) -> "TimelineSink":
    def write(before: "Timeline", after: "Timeline") -> None:
        from desched.service.pages.timeline_page import comparison_of, timeline_page

        about = ("Two scenes of five nodes each, side by side. Nodes and time are simulated.",)
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
            "desched demo --report demo.html": "and what came of it as a page",
        },
        parameters=(REPORT,),
        refused=dict.fromkeys(SETTING_OF_FLAG, _OWN),
    ),
)
