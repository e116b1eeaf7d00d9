"""How long a replica has seen the lease unchanged, and whether it may take it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from desched.ports import LeaseRecord

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class LeaseWatch:
    """Measures with this replica's own clock how long the stored record has not changed.

    A record counts as abandoned after `duration_seconds` without a change, or after its own
    duration if that is longer. `seconds` is the clock.
    """

    identity: str
    duration_seconds: int
    seconds: Callable[[], float]
    _seen: LeaseRecord | None = field(default=None, init=False)
    _seen_since: float = field(default=-math.inf, init=False)
    not_before: float = field(default=-math.inf, init=False)
    """The earliest time at which a new holder may act.

    An absent lease may have been deleted under a holder that has not noticed yet.
    """

    @property
    def record(self) -> LeaseRecord:
        """The last record that existed."""
        return self._seen or LeaseRecord(holder="", duration_seconds=0)

    def look(self, record: LeaseRecord | None) -> None:
        """Process what was just read or stored; every write restarts the measurement."""
        now = self.seconds()  # after the answer, so that its content is older
        before = self.record
        if record is None:
            self.not_before = now + self._longest_seconds(before)
        elif record.version != before.version:
            self._seen, self._seen_since = record, now
            if record.holder not in {"", self.identity, before.holder}:
                _log.info("leadership.observed", holder=record.holder)

    def is_free(self, record: LeaseRecord) -> bool:
        """Whether the lease is our own, released or abandoned."""
        if record.holder in {"", self.identity}:
            return True
        return self.seconds() - self._seen_since >= self._longest_seconds(record)

    def _longest_seconds(self, record: LeaseRecord) -> float:
        """The longer of both durations, because the holder may have a longer one configured."""
        return max(self.duration_seconds, record.duration_seconds)
