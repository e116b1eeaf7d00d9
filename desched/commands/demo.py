"""`desched demo`: a cycle on a simulated cluster."""

from __future__ import annotations

import sys

from desched.cli.command import Command, Invocation
from desched.cli.exit_codes import ExitCode
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.setting_flags import SETTING_OF_FLAG, own_flag

if loaded_to_run(__name__):
    from rich.console import Console

    from desched.history.timeline import Timeline
    from desched.lab import demo
    from desched.lab.comparison import comparison_of
    from desched.model.report import CycleReport
    from desched.views.blocks import print_blocks
    from desched.views.cycle import CycleView
    from desched.views.cycle_table import cycle_blocks


def run(invocation: Invocation) -> int:
    """Run the demo."""
    path = charts_file(invocation)
    scenario = invocation.flags.get("scenario", "load")

    def show(report: CycleReport, console: Console) -> None:
        print_blocks(cycle_blocks(CycleView(report)), console)

    def write(before: Timeline, after: Timeline) -> None:
        from desched.views.pages.timeline_page import timeline_page  # noqa: PLC0415  (optional)

        about = (demo.DEMONSTRATIONS[scenario].about,)
        page = timeline_page(comparison_of("demo", about, (before, after)))
        if path is not None:
            write_page(path, page)

    try:
        code = demo.run_demo(Console(), show, write if path else None, scenario)
        sys.stdout.flush()
    except SystemExit:
        return ExitCode.DONE  # rich raises it when the reader is gone
    return code


_OWN = 'the demo has its own cluster and policy and takes no settings; omit the flag, or "demo".'

COMMAND = Command(
    "demo",
    details="It needs neither Kubernetes nor Prometheus.",
    examples={
        "desched demo": "a hot node, the plan, and what comes of it",
        "desched demo --scenario ai --report demo.html": "a GPU cluster, also as a page",
    },
    parameters=(
        own_flag(
            "--scenario load|ai|gpus",
            "What is shown: overloaded nodes, a rack of a GPU cluster with gangs, fast networks "
            "and model caches, or a pod that waits for GPUs. Default: load.",
            choices=True,
        ),
        REPORT,
    ),
    refused=dict.fromkeys(SETTING_OF_FLAG, _OWN),
)
