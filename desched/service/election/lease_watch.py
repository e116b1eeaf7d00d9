"""What one replica has seen of the lease, and since when: whether it may be taken."""

import math
from collections.abc import Callable

import structlog

from desched.ports import LeaseRecord

_log = structlog.get_logger(__name__)


class LeaseWatch:
    """Times how long the stored record has been as it is, on this replica's own clock.

    `duration_seconds` is for how long a record has to be unchanged before it counts as abandoned,
    or longer if its holder promised so. `seconds` is that clock.
    """

    def __init__(self, identity: str, duration_seconds: int, seconds: Callable[[], float]) -> None:
        self._identity = identity
        self._duration_seconds = duration_seconds
        self._seconds = seconds
        self._seen: LeaseRecord | None = None
        self._seen_since = -math.inf
        self.not_before = -math.inf
        """Nobody who takes the lease may act earlier than this.

        A lease that is absent may have been deleted under a holder who has not noticed yet.
        """

    @property
    def record(self) -> LeaseRecord:
        """The last record that was there."""
        return self._seen or LeaseRecord(holder="", duration_seconds=0)

    def look(self, found: LeaseRecord | None) -> None:
        """Take in what has just been read or stored; any write by anyone starts the time anew."""
        now = self._seconds()  # after the answer, so that what it says is older
        before = self.record
        if found is None:
            self.not_before = now + self._longest_seconds(before)
        elif found.version != before.version:
            self._seen, self._seen_since = found, now
            if found.holder not in {"", self._identity, before.holder}:
                _log.info("leadership.observed", holder=found.holder)

    def is_free(self, found: LeaseRecord) -> bool:
        """Whether it is our own, was released, or was abandoned: unchanged for too long."""
        if found.holder in {"", self._identity}:
            return True
        return self._seconds() - self._seen_since >= self._longest_seconds(found)

    def _longest_seconds(self, record: LeaseRecord) -> float:
        """The holder may have been set up with a longer duration than this replica."""
        return max(self._duration_seconds, record.duration_seconds)
