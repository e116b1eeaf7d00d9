"""The format of the log: one JSON object per line, or columns on a terminal."""

import logging
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LogFormat = Literal["auto", "json", "console"]

NOISY_LIBRARIES = ("apscheduler", "kubernetes", "urllib3", "requests")
"""Libraries that log each request or tick; only their errors are logged."""


def configure_logs(form: LogFormat, level: str, stream: TextIO, *, service: bool = False) -> None:
    """Send the log of desched and of its libraries to the stream.

    Args:
        form: `auto` is JSON for a service unless the stream is a terminal, else columns.
        level: debug, info, warning or error.
        stream: the target; standard output is for reports.
        service: whether programs collect the log; that of a command is for a person.
    """
    console = form == "console" or (form == "auto" and (stream.isatty() or not service))
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _in_reading_order,
    ]
    last: list[Processor] = (
        [neutralise, structlog.dev.ConsoleRenderer(colors=stream.isatty())]
        if console
        else [structlog.processors.JSONRenderer()]
    )
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # Below warnings, libraries log what they send, OAuth libraries even tokens.
    root.setLevel(max(number, logging.WARNING))
    for library in NOISY_LIBRARIES:
        logging.getLogger(library).setLevel(max(number, logging.ERROR))


def _in_reading_order(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    first = {key: event.pop(key) for key in ("timestamp", "level", "event") if key in event}
    return {**first, **event}


def neutralise(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Make control characters visible, because labels may contain terminal sequences."""
    return {key: _visible(value) for key, value in event.items()}


def _visible(value: Any) -> Any:
    match value:
        case str():
            return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in value)
        case dict():
            return {_visible(key): _visible(item) for key, item in value.items()}
        case list() | tuple():
            return [_visible(item) for item in value]
        case _:
            return value


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
