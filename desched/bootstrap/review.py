"""`desched report` and `desched history`: the logbook of a service, read through the API server."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple, TextIO

from rich.console import Console

from desched.adapters.kubernetes.client.connection import connect
from desched.bootstrap.logbook import logbook_store
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.history.logbook import Logbook, LoggedMove
from desched.history.review import LONGEST_REVIEW, Review, review
from desched.policy.durations import duration_seconds
from desched.service.process.clock import SystemClock
from desched.service.process.logs import configure_logs
from desched.settings import Settings
from desched.views.rendering import ReportFormat
from desched.views.review import (
    print_history,
    print_review,
    render_history,
    render_review,
)


class Asked(NamedTuple):
    """Which evictions are asked for; empty texts mean all."""

    since: timedelta
    node: str = ""
    workload: str = ""


def length_of(text: str) -> timedelta:
    """How far a report goes back.

    Raises:
        ConfigurationError: it is no time, or the logbook does not go back so far.
    """
    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise ConfigurationError(f'--since: "{text}" {error}.') from None
    if not 0 < seconds <= LONGEST_REVIEW.total_seconds():
        raise ConfigurationError(
            f'--since: "{text}" is not between 1s and {LONGEST_REVIEW.days}d, which is how long '
            "the logbook keeps everything."
        )
    return timedelta(seconds=seconds)


def read_review(settings: Settings, since: timedelta, stderr: TextIO) -> Review:
    """The review of the service's logbook.

    Raises:
        ConfigurationError: there is no account.
        ObservationError: the logbook could not be read, or is empty.
    """
    book = _logbook(settings, stderr)
    return review(book, _begins(book, since))


def read_history(settings: Settings, asked: Asked, stderr: TextIO) -> list[LoggedMove]:
    """The evictions of the service's logbook, oldest first.

    Raises:
        ConfigurationError: there is no account.
        ObservationError: the logbook could not be read, or is empty.
    """
    book = _logbook(settings, stderr)
    begins = _begins(book, asked.since)
    return [
        move
        for move in book.moves
        if move.last_at >= begins
        and asked.node in {"", move.node, move.landed_on}
        and asked.workload in {"", move.workload, move.workload.partition(" ")[2]}
    ]


def write_review(found: Review, settings: Settings, stdout: TextIO) -> None:
    """Write a review in the format of the settings."""
    _write(
        settings,
        stdout,
        lambda form: render_review(found, form),
        lambda console: print_review(found, console),
    )


def write_history(moves: list[LoggedMove], settings: Settings, stdout: TextIO) -> None:
    """Write evictions in the format of the settings."""
    _write(
        settings,
        stdout,
        lambda form: render_history(moves, form),
        lambda console: print_history(moves, console),
    )


def _write(
    settings: Settings,
    stdout: TextIO,
    render: Callable[[ReportFormat], str],
    show: Callable[[Console], None],
) -> None:
    form = settings.output or "table"
    if form == "table" and stdout.isatty():
        show(Console(file=stdout))
    else:
        stdout.write(render(form))


def _logbook(settings: Settings, stderr: TextIO) -> Logbook:
    configure_logs(settings.log_format, settings.log_level, stderr)
    kubernetes = connect(settings.kubeconfig, settings.context, SystemClock().wait)
    store = logbook_store(settings, kubernetes)
    stored = store.load()
    if stored.book is not None:
        return stored.book
    why = stored.problem or (
        "it is empty; a service in a cluster writes it after its first cycle, one outside only "
        "with --logbook, unless its log has logbook.not_written"
    )
    raise ObservationError(
        ObservationSource.CLUSTER, f"The logbook in {store.place} cannot be used: {why}."
    )


def _begins(book: Logbook, since: timedelta) -> datetime:
    """Counted back from the newest cycle, because clocks and stopped services differ from now."""
    return book.newest_at - since
