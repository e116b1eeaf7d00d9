"""`desched plan`: one cycle that changes nothing."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from signal import Signals

from desched.cli.command import Command, Invocation, refuse_live_settings
from desched.cli.exit_codes import exit_code_of
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.page_file import REPORT, page_file, write_page
from desched.cli.setting_flags import CONNECTION, PROMETHEUS, own_flag
from desched.errors import ConfigurationError

if loaded_to_run(__name__):
    from desched.bootstrap import runs
    from desched.bootstrap.look import LiveCluster, with_look
    from desched.bootstrap.runs import PolicyChange
    from desched.cycle import planned_report
    from desched.cycle_report import CycleInfo
    from desched.model.report import CycleReport, Mode
    from desched.observation import observe
    from desched.policy.durations import duration_seconds, duration_text
    from desched.policy.eviction_price import price_minutes, with_price
    from desched.policy.windows_of_samples import KEPT_WINDOW_SECONDS, with_one_window
    from desched.service.cycles.runner import ReportSink
    from desched.service.process.clock import SystemClock
    from desched.settings import Settings
    from desched.snapshot_file.load_check import with_policy
    from desched.snapshot_file.report import report_of
    from desched.views.cycle import CycleView
    from desched.views.pages.cycle_page import cycle_page
    from desched.views.progress import ProgressLine


def run(invocation: Invocation) -> int:
    """Run one cycle as a dry run, whatever the environment says; or plan a snapshot."""
    flags, page = invocation.flags, page_file(invocation)
    settings = invocation.settings(dry_run=True, evict=False, once=True)
    node, all_pods = flags.get("node", ""), "all" in flags
    view = partial(CycleView, node=node, all_pods=all_pods)
    if (node or all_pods) and settings.output not in {None, "table"}:
        raise ConfigurationError(
            f"--node and --all are for the table; {settings.output} always has everything."
        )
    change = _change(invocation)
    sinks: list[ReportSink] = []
    if page is not None:
        sinks.append(lambda report: write_page(page, cycle_page(CycleView(report, single=True))))
    if "snapshot" not in flags and "wait" not in flags:
        ending = runs.run(settings, sys.stdout, sys.stderr, view, *sinks, change=change)
        return exit_code_of(ending)
    if "snapshot" in flags:
        refuse_live_settings(invocation, "--snapshot")
        if "wait" in flags:
            raise ConfigurationError("--wait has no effect with --snapshot; omit it.")
        # A policy from the environment is that of the live cluster.
        policy = settings.policy if "policy" in invocation.texts else None
        content, by = with_policy(Path(flags["snapshot"]), policy)
        report = report_of(content, change(by), SystemClock())
    else:
        plan_of_samples = plan_by_samples(settings, wait_seconds(flags["wait"]), change)
        if isinstance(plan_of_samples, Signals):
            return exit_code_of(runs.Ending(cut_short_by=plan_of_samples))
        report = plan_of_samples
    for sink in (runs.report_printer(settings, sys.stdout, view), *sinks):
        sink(report)
    return exit_code_of(runs.Ending(inconclusive=runs.is_inconclusive(report)))


def wait_seconds(text: str) -> int:
    """How long to take samples, which is also the window that they cover.

    Raises:
        ConfigurationError: it is no duration, or too short or long for a window.
    """
    least, most = KEPT_WINDOW_SECONDS
    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise ConfigurationError(f'--wait: "{text}" {error}.') from error
    if not least <= seconds <= most:
        raise ConfigurationError(
            f'--wait: found "{text}"; allowed are {duration_text(least)} to {duration_text(most)}.'
        )
    return seconds


def _change(invocation: Invocation) -> PolicyChange:
    """What the flags change about the policy."""
    if "price" not in invocation.flags:
        return lambda policy: policy
    minutes = price_minutes(invocation.flags["price"])
    return lambda policy: with_price(policy, minutes)


def plan_by_samples(
    settings: Settings, seconds: int, change: PolicyChange
) -> CycleReport | Signals:
    """Take samples of load for so long, and plan by them; or the signal that ended it.

    Raises:
        ConfigurationError: a person must change something.
        ObservationError: the cluster or its load could not be read.
    """
    clock = SystemClock()

    def planned(look: LiveCluster) -> CycleReport:
        policy = look.policy.policy
        if not policy.metrics.type.is_sampled:
            raise ConfigurationError(
                f"--wait is for metrics-server and the custom metrics API, which have no history; "
                f"{policy.source} reads Prometheus, which has one. Omit it."
            )
        for warning in look.policy.warnings:
            sys.stderr.write(f"desched: {warning}\n")
        by = with_one_window(change(policy), seconds)
        what = f"Taking samples for {duration_text(seconds)}"
        with ProgressLine(what, sys.stderr, clock) as tell:
            look.source.collect(by, seconds, tell)
        info = CycleInfo(1, Mode.DRY_RUN, look.target)
        return planned_report(observe(look.world, by), by, look.state, info, clock)

    return with_look(settings, planned)


COMMAND = Command(
    "plan",
    details="It reads the cluster and Prometheus, and prints each eviction that a cycle would "
    "begin now and the reason why every other pod stays.",
    examples={
        "desched plan --policy policy.yaml": "in the current context",
        "desched plan --snapshot now.snapshot --report plan.html": "of a file, as a page",
    },
    settings=("policy", "output", *CONNECTION, "api_server_timeout", *PROMETHEUS),
    parameters=(
        own_flag(
            "--snapshot FILE",
            "Plan the cluster in this file, by its own policy unless --policy is given.",
        ),
        own_flag(
            "--wait DURATION",
            "Without Prometheus: take samples for so long, such as 3m, and plan by them.",
        ),
        own_flag(
            "--price DURATION",
            "Plan with this evictionPrice, such as 3m, in place of the policy's.",
        ),
        own_flag("--node NAME", "Show only this node and its pods."),
        own_flag("--all", "Show each pod that stays, not ten names for each reason."),
        REPORT,
    ),
    refused={
        "--evict": "`desched plan` changes nothing; omit the flag.",
        "--dry-run": "`desched plan` is always a dry run; omit the flag.",
        "--from": "did you mean --snapshot?",
    },
)
