"""Where a run's audit trail and traces go, if they go anywhere."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TextIO

import structlog

from desched.errors import ConfigurationError
from desched.model.report import CycleReport
from desched.ports import World
from desched.service.cycles.runner import ReportSink
from desched.service.telemetry.audit_log import AuditLog
from desched.settings import Settings, flag_of, variable_of

STANDARD_OUTPUT = "-"

TRACE_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""A standard variable of OpenTelemetry names a collector."""

_log = structlog.get_logger(__name__)


@contextmanager
def audit_log(settings: Settings, stdout: TextIO) -> Iterator[Sequence[ReportSink]]:
    """Writes the audit trail during the context; no sink without a file.

    Raises:
        ConfigurationError: the file cannot be written, which is better known before an eviction.
    """
    target = settings.audit_log
    if target is None:
        yield ()
    elif target == STANDARD_OUTPUT:
        yield (AuditLog(stdout).publish,)
    else:
        with _opened(Path(target)) as stream:
            yield (AuditLog(stream).publish,)


def _opened(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8")
    except OSError as error:
        name = f"{flag_of('audit_log')} ({variable_of('audit_log')})"
        problem = error.strerror or str(error)
        raise ConfigurationError(f"{name}: cannot write {path} ({problem}).") from error


class Tracing(Protocol):
    """Makes spans of a world and its cycles, or none."""

    def world(self, world: World) -> World:
        """The same world, whose use makes spans."""

    def cycle(self, run: Callable[[], CycleReport]) -> Callable[[], CycleReport]:
        """The same cycle, which makes a span."""


class NoTraces:
    """Makes no spans."""

    def world(self, world: World) -> World:
        """The world itself."""
        return world

    def cycle(self, run: Callable[[], CycleReport]) -> Callable[[], CycleReport]:
        """The cycle itself."""
        return run


@contextmanager
def tracing() -> Iterator[Tracing]:
    """Traces during the context, none without a collector; logs once what is not installed."""
    if not any(os.environ.get(name) for name in TRACE_VARIABLES):  # noqa: TID251  (not desched's own)
        yield NoTraces()
    elif find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        _log.warning(
            "traces.not_exported",
            reason="OpenTelemetry is not installed; install it with `pip install 'desched[otel]'`",
        )
        yield NoTraces()
    else:
        from desched.service.telemetry.traces import exported  # noqa: PLC0415  (optional)

        with exported() as traces:
            yield traces
