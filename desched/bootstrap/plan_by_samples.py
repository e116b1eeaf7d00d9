"""`desched plan --wait`: a plan by samples of load that the command takes itself."""

from signal import Signals
from typing import TextIO

from desched.bootstrap.look import LiveCluster, with_look
from desched.bootstrap.runs import Ending, is_inconclusive, report_printer
from desched.cycle import CycleInfo, observe, planned_report
from desched.errors import ConfigurationError
from desched.model.report import CycleReport, Mode
from desched.policy.durations import duration_seconds, duration_text
from desched.policy.resolution.metrics_source import KEPT_WINDOW_SECONDS
from desched.policy.windows_of_samples import with_one_window
from desched.service.cycles.runner import ReportSink
from desched.service.process.clock import SystemClock
from desched.settings import Settings
from desched.views.cycle_table import WHOLE, TableView
from desched.views.progress import ProgressLine


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


def plan_by_samples(
    settings: Settings,
    seconds: int,
    output: tuple[TextIO, TextIO],
    view: TableView = WHOLE,
    *sinks: ReportSink,
) -> Ending:
    """Take samples for so long, plan by them, and print the plan.

    `output` is standard output and standard error.

    Raises:
        ConfigurationError: a person must change something.
        ObservationError: the cluster or its load could not be read.
    """
    stdout, stderr = output
    clock = SystemClock()

    def planned(look: LiveCluster) -> CycleReport:
        policy = look.policy.policy
        if not policy.metrics.type.is_sampled:
            raise ConfigurationError(
                f"--wait is for metrics-server and the custom metrics API, which have no history; "
                f"{policy.source} reads Prometheus, which has one. Omit it."
            )
        for warning in look.policy.warnings:
            stderr.write(f"desched: {warning}\n")
        by = with_one_window(policy, seconds)
        with ProgressLine(f"Taking samples for {duration_text(seconds)}", stderr, clock) as tell:
            look.source.collect(by, seconds, tell)
        info = CycleInfo(1, Mode.DRY_RUN, look.target)
        return planned_report(observe(look.world, by), by, look.state, info, clock)

    report = with_look(settings, planned, stderr)
    if isinstance(report, Signals):
        return Ending(cut_short_by=report)
    for sink in (report_printer(settings, stdout, view), *sinks):
        sink(report)
    return Ending(inconclusive=is_inconclusive(report))
