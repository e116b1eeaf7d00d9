"""The logbook of a service: where it is kept, whether this run keeps it, and how it is read."""

from datetime import datetime, timedelta

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.logbook_store import KubernetesLogbookStore
from desched.bootstrap.process import Process
from desched.bootstrap.state import connected, state_namespace
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.history.logbook import Logbook
from desched.history.review import LONGEST_REVIEW
from desched.policy.durations import duration_seconds
from desched.service.process.clock import SystemClock
from desched.service.telemetry.logbook_keeper import LogbookKeeper
from desched.settings import Settings

CRON_GAP_SECONDS = 3600.0
"""The longest time for which a cycle by a cron expression stands."""


def read_logbook(settings: Settings, since: str) -> tuple[Logbook, datetime]:
    """The logbook in the cluster, and the time `since` before its newest cycle.

    It is not counted back from now, because clocks differ and services stop.

    Raises:
        ConfigurationError: there is no account, or the logbook does not go back so far.
        ObservationError: the logbook could not be read, or is empty.
    """
    length = _length(since)
    store = logbook_store(settings, connected(settings, SystemClock()))
    stored = store.load()
    if stored.book is not None:
        return stored.book, stored.book.newest_at - length
    problem = stored.problem or (
        "it is empty; a service in a cluster writes it after its first cycle, one outside only "
        "with --logbook, unless its log has logbook.not_written"
    )
    raise ObservationError(
        ObservationSource.CLUSTER, f"The logbook in {store.place} cannot be used: {problem}."
    )


def _length(text: str) -> timedelta:
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


def logbook_store(settings: Settings, kubernetes: KubernetesConnection) -> KubernetesLogbookStore:
    """The logbook beside the state."""
    return KubernetesLogbookStore(kubernetes, state_namespace(settings, kubernetes))


def logbook_keeper(process: Process) -> LogbookKeeper | None:
    """The keeper of a service in a cluster, or where the settings ask for one; else None."""
    settings, kubernetes = process.settings, process.kubernetes
    keeps = kubernetes.in_cluster if settings.logbook is None else settings.logbook
    if not (keeps and settings.loops):
        return None
    gap = 2 * settings.interval.total_seconds() if settings.cron is None else CRON_GAP_SECONDS
    store = logbook_store(settings, kubernetes)
    return LogbookKeeper(store, process.clock, gap, process.may_act)
