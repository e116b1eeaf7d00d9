"""How long a replica has seen the lease unchanged, and whether it may take it."""

import math
from collections.abc import Callable

import structlog

from desched.ports import LeaseRecord

_log = structlog.get_logger(__name__)


class LeaseWatch:
    """Measures with this replica's own clock how long the stored record has not changed.

    A record counts as abandoned after `duration_seconds` without a change, or after its own
    duration if that is longer. `seconds` is the clock.
    """

    def __init__(self, identity: str, duration_seconds: int, seconds: Callable[[], float]) -> None:
        self._identity = identity
        self._duration_seconds = duration_seconds
        self._seconds = seconds
        self._seen: LeaseRecord | None = None
        self._seen_since = -math.inf
        self.not_before = -math.inf
        """The earliest time at which a new holder may act.

        An absent lease may have been deleted under a holder that has not noticed yet.
        """

    @property
    def record(self) -> LeaseRecord:
        """The last record that existed."""
        return self._seen or LeaseRecord(holder="", duration_seconds=0)

    def look(self, found: LeaseRecord | None) -> None:
        """Process what was just read or stored; every write restarts the measurement."""
        now = self._seconds()  # after the answer, so that its content is older
        before = self.record
        if found is None:
            self.not_before = now + self._longest_seconds(before)
        elif found.version != before.version:
            self._seen, self._seen_since = found, now
            if found.holder not in {"", self._identity, before.holder}:
                _log.info("leadership.observed", holder=found.holder)

    def is_free(self, found: LeaseRecord) -> bool:
        """Whether the lease is our own, released or abandoned."""
        if found.holder in {"", self._identity}:
            return True
        return self._seconds() - self._seen_since >= self._longest_seconds(found)

    def _longest_seconds(self, record: LeaseRecord) -> float:
        """The longer of both durations, because the holder may have a longer one configured."""
        return max(self._duration_seconds, record.duration_seconds)
