"""Whether a run is traced: where a standard variable of OpenTelemetry names a collector."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Protocol

import structlog

from desched.model.report import CycleReport
from desched.ports import World

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_log = structlog.get_logger(__name__)


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
    """Traces during the context, none without a collector; says once what is not installed."""
    if not any(os.environ.get(name) for name in VARIABLES):  # noqa: TID251  (not desched's own)
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
