"""Removes desched's soft taints once they have expired, whatever else fails.

A plan renews each taint that it relies on before the first eviction, so that an expired one serves
nobody. To remove it requires neither a cycle, nor a policy, nor the state, nor the lease.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Event, Thread

import structlog

from desched.errors import ObservationError
from desched.model.report import CycleReport
from desched.ports import StandingTaints, TaintRemover
from desched.service.process.clock import seconds_since_boot
from desched.service.telemetry.metrics import ServiceMetrics

BUSY_SECONDS = 60.0
"""The longest pause while a taint stands, or while it is not known whether one does."""

IDLE_SECONDS = 180.0
"""The pause while no taint stands.

A taint lasts for two cycles, ten minutes by default, so that a new one is found before it expires.
"""

SHORTEST_SECONDS = 1.0
STOPPING_SECONDS = 15.0
"""How long the end of the process clears taints, and waits for a look that is under way."""

MOST_ERRORS = 5
"""In one line of the log."""

EXPIRED = "it has expired"
STOPPED = "desched is stopping"

_log = structlog.get_logger(__name__)


class Janitor:
    """Looks for expired taints at once and then again and again, in a thread of its own.

    `now` is used if the server does not send its time. `may_act` returns whether this replica may
    remove taints that have not expired. The thread ends only with the process.
    """

    def __init__(
        self,
        taints: TaintRemover,
        now: Callable[[], datetime],
        metrics: ServiceMetrics,
        may_act: Callable[[], bool],
    ) -> None:
        self._taints = taints
        self._now = now
        self._metrics = metrics
        self._may_act = may_act
        self._own: frozenset[str] = frozenset()
        self._stop = Event()
        self._trouble = ""

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Work during the context, and at least once."""
        thread = Thread(target=self._run, name="janitor", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(STOPPING_SECONDS)

    def cycle_completed(self, report: CycleReport) -> None:
        """Note which nodes have a taint of this process; an uncertain one counts."""
        for change in report.taints:
            self._own = self._own | {change.node} if change.tainted else self._own - {change.node}

    def clear(self) -> None:
        """Remove the taints of this process that still stand, at a clean stop.

        The first failure ends it, because stopping must be quick; the other taints expire.
        """
        ends = seconds_since_boot() + STOPPING_SECONDS
        for node in sorted(self._own):
            if not self._may_act() or seconds_since_boot() >= ends:
                return
            if self._note([self._remove(node, STOPPED)]):
                return

    def look(self) -> float:
        """Remove what has expired, and return the seconds until the next look."""
        try:
            standing = self._taints.standing()
        except ObservationError as error:
            self._note([str(error)])
            return BUSY_SECONDS
        now = standing.now or self._now()
        expired = sorted(node for node, until in standing.until.items() if until <= now)
        failed = self._note([self._remove(node, EXPIRED, now) for node in expired])
        return _pause_seconds(standing, now, failed=failed)

    def _run(self) -> None:
        while True:
            try:
                seconds = self.look()
            except Exception as error:  # noqa: BLE001  (the thread must live as long as the process)
                seconds = BUSY_SECONDS
                self._note([f"{type(error).__name__}: {error}; this is a bug, please report it"])
            if self._stop.wait(seconds):
                return

    def _remove(self, node: str, cause: str, expired_at: datetime | None = None) -> str:
        """Remove one taint and return the error, empty without one."""
        answer = self._taints.untaint(node, expired_at)
        if answer.done:
            self._metrics.taint_removed()
            _log.info("taint.removed", node=node, why=cause)
            return ""
        return f"{node}: {answer.detail}"

    def _note(self, errors: Iterable[str]) -> bool:
        """Count the errors, and log them if they differ from those before; whether any is."""
        errors = list(filter(None, errors))
        self._metrics.taints_not_removed(len(errors))
        more = len(errors) - MOST_ERRORS
        trouble = "; ".join([*errors[:MOST_ERRORS], *([f"and {more} more"] if more > 0 else [])])
        if trouble and trouble != self._trouble:
            _log.warning("taint.not_removed", count=len(errors), why=trouble)
        self._trouble = trouble
        return bool(errors)


def _pause_seconds(standing: StandingTaints, now: datetime, *, failed: bool) -> float:
    """Until the next taint expires, but not too long, because other replicas set taints as well."""
    lasting = [(until - now).total_seconds() for until in standing.until.values() if until > now]
    if not lasting and not failed:
        return IDLE_SECONDS
    return min(BUSY_SECONDS, max(SHORTEST_SECONDS, min(lasting, default=BUSY_SECONDS)))
