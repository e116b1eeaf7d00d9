"""`desched plan`: one cycle that changes nothing."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from desched.cli.command import Command, Invocation, Usage, refuse_live_settings
from desched.cli.page_file import REPORT, page_file, write_page
from desched.cli.runs import exit_code_of, run_cycles
from desched.cli.setting_flags import CONNECTION, PROMETHEUS, own_flag
from desched.errors import ConfigurationError

if TYPE_CHECKING:
    from desched.service.cycles.runner import ReportSink
    from desched.settings import Settings
    from desched.views.cycle_table import TableView


def run(invocation: Invocation) -> int:
    """Run one cycle as a dry run, whatever the environment says; or plan a snapshot."""
    from desched.views.cycle_table import TableView

    flags = invocation.flags
    sinks = [_page_writer(path)] if (path := page_file(invocation)) else []
    settings = invocation.settings(dry_run=True, evict=False, once=True)
    view = TableView(node=flags.get("node", ""), all_pods="all" in flags)
    if view != TableView() and settings.output not in {None, "table"}:
        raise ConfigurationError(
            f"--node and --all are for the table; {settings.output} always has everything."
        )
    if "wait" in flags and "snapshot" not in flags:
        return _collected(settings, flags["wait"], view, *sinks)
    if "snapshot" not in flags:
        return run_cycles(settings, view, *sinks)
    from desched.bootstrap.snapshot import plan, read

    refuse_live_settings(invocation, "--snapshot")
    if "wait" in flags:
        raise ConfigurationError("--wait has no effect with --snapshot; omit it.")
    # A policy from the environment is that of the live cluster.
    policy = settings.policy if "policy" in invocation.texts else None
    file = read(Path(flags["snapshot"]), policy)
    return exit_code_of(plan(settings, file, sys.stdout, view, *sinks))


def _collected(settings: "Settings", text: str, view: "TableView", *sinks: "ReportSink") -> int:
    from desched.bootstrap.plan_by_samples import plan_by_samples, wait_seconds

    output = sys.stdout, sys.stderr
    return exit_code_of(plan_by_samples(settings, wait_seconds(text), output, view, *sinks))


def _page_writer(path: Path) -> "ReportSink":
    from desched.views.pages.cycle_page import cycle_page

    return lambda report: write_page(path, cycle_page(report, single=True))


COMMAND = Command(
    "plan",
    run,
    Usage(
        details="It reads the cluster and Prometheus, and prints each eviction that a cycle would "
        "begin now and the reason why every other pod stays.",
        examples={
            "desched plan --policy policy.yaml": "in the current context",
            "desched plan --snapshot now.snapshot --report plan.html": "of a file, as a page",
        },
        settings=("policy", "output", *CONNECTION, "api_server_timeout", *PROMETHEUS),
        parameters=(
            own_flag(
                "--snapshot",
                "FILE",
                "Plan the cluster in this file, by its own policy unless --policy is given.",
            ),
            own_flag(
                "--wait",
                "DURATION",
                "Without Prometheus: take samples for so long, such as 3m, and plan by them.",
            ),
            own_flag("--node", "NAME", "Show only this node and its pods."),
            own_flag("--all", "", "Show each pod that stays, not ten names for each reason."),
            REPORT,
        ),
        refused={
            "--evict": "`desched plan` changes nothing; omit the flag.",
            "--dry-run": "`desched plan` is always a dry run; omit the flag.",
            "--from": "did you mean --snapshot?",
        },
    ),
)
