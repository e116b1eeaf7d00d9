"""`desched demo`: a cycle on a simulated cluster."""

import sys

from desched.cli.command import Command, Invocation, Usage
from desched.cli.exit_codes import ExitCode
from desched.cli.setting_flags import SETTING_OF_FLAG


def run(_: Invocation) -> int:
    """Run the demo."""
    from rich.console import Console

    from desched.service.reports.cycle_table import print_report
    from desched.simulation.demo import run_demo

    try:
        code = run_demo(Console(), print_report)
        sys.stdout.flush()
    except SystemExit:
        return ExitCode.DONE  # rich raises it when the reader is gone
    return code


_OWN = 'the demo has its own cluster and policy and takes no flags; omit the flag, or "demo".'

COMMAND = Command(
    "demo",
    run,
    Usage(
        details="It needs neither Kubernetes nor Prometheus, and takes no flags.",
        examples={
            "desched demo": "a hot node, the plan, and what comes of it",
            "desched demo | less": "page by page",
        },
        refused=dict.fromkeys(SETTING_OF_FLAG, _OWN),
    ),
)
