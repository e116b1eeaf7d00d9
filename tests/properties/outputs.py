"""Everything that is made of a report for people and programs, and what none of it may hold."""

import io
import json
from collections.abc import Iterator

import structlog
from rich.console import Console

from desched.model.report import CycleReport
from desched.service.process.logs import LogFormat, configure_logs
from desched.service.telemetry.cycle_log import log_cycle
from desched.service.telemetry.metrics import ServiceMetrics
from desched.service.telemetry.status_endpoint import StatusEndpoint
from desched.views.cycle import CycleView
from desched.views.pages.cycle_page import cycle_page
from desched.views.rendering import ReportFormat
from tests.shown import print_shown, shown

FORMATS: tuple[ReportFormat, ...] = ("table", "json", "yaml")
LOG_FORMATS: tuple[LogFormat, ...] = ("json", "console")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def every_output(report: CycleReport) -> None:
    """Make them all; none may hold what a terminal obeys or a reader does not see."""
    for text in _texts(report):
        harmless(text)
    metrics = ServiceMetrics(report.mode)
    metrics.cycle_completed(report)
    assert metrics.exposition()
    assert json.loads(shown(report, "json"))["plan"]["nodes"] is not None


def harmless(text: str) -> None:
    found = {c for c in text if not c.isprintable() and c != "\n"}
    assert not found, (found, text)


def _texts(report: CycleReport) -> Iterator[str]:
    for form in FORMATS:
        yield shown(report, form)
    terminal = Terminal()
    print_shown(report, Console(file=terminal, color_system=None, width=100))
    yield terminal.getvalue()
    status = StatusEndpoint("desched-0", report.mode, lambda: report.started_at)
    status.cycle_completed(report)
    yield status.document().decode()
    yield status.page().text
    yield cycle_page(CycleView(report))
    for log_format in LOG_FORMATS:
        stream = io.StringIO()
        configure_logs(log_format, "info", stream)
        log_cycle(report)
        structlog.reset_defaults()
        yield stream.getvalue()
