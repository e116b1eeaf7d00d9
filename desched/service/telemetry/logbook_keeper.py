"""Keeps the logbook: each cycle goes into it, and now and then it is written.

A failure is logged and tried again later; nothing depends on it.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from desched.errors import ObservationError
from desched.history.logbook import Entry
from desched.history.logged_cycle import entry_of
from desched.history.steps import updated
from desched.history.stored import LogbookStore, encode_logbook
from desched.model.plan import HoldReason
from desched.model.report import CycleReport
from desched.ports import Clock, Fence

WRITTEN_EVERY = timedelta(minutes=10)
MOST_WAITING = 48
"""Cycles that wait to be written; the oldest go."""

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class LogbookKeeper:
    """Takes reports, and writes at once where evictions began or ended.

    The stored logbook is the truth: it is read before each write, and a write replaces only what
    was read. So a restart or another replica continues it.
    """

    store: LogbookStore
    clock: Clock
    longest_gap_seconds: float
    may_write: Fence
    _waiting: list[Entry] = field(default_factory=list, init=False)
    _written_at: datetime | None = field(default=None, init=False)
    _trouble: str = field(default="", init=False)

    def cycle_completed(self, report: CycleReport) -> None:
        """Take a cycle, unless its time is wrong."""
        if report.plan.hold is HoldReason.CLOCKS_DIFFER:
            return
        entry = entry_of(report)
        self._waiting = [*self._waiting, entry][-MOST_WAITING:]
        acted = any(not move.dry_run for move in entry.moves) or bool(entry.settled)
        if (acted or self._is_due()) and self.may_write():
            self._write()

    def _is_due(self) -> bool:
        now = self.clock.now()
        return self._written_at is None or abs(now - self._written_at) >= WRITTEN_EVERY

    def _write(self) -> None:
        self._written_at = self.clock.now()  # an attempt counts, so that trouble stays rare
        try:
            stored = self.store.load()
            if stored.problem:
                _log.warning("logbook.unusable", why=stored.problem, then="a new one begins")
            book = updated(stored.book, self._waiting, self.longest_gap_seconds)
            packed, _ = encode_logbook(book)
            self.store.save(packed)
        except ObservationError as error:
            if str(error) != self._trouble:
                _log.warning("logbook.not_written", why=str(error))
            self._trouble = str(error)
            return
        except Exception:  # noqa: BLE001  (no cycle may fail by its logbook)
            _log.exception("logbook.crashed", meaning="this is a bug in desched; please report it")
        self._waiting, self._trouble = [], ""
