"""Leader election: only the replica that certainly holds the lease acts.

Why two replicas never act at once: a renewal that starts at S keeps the fence open until S + renew
deadline, and is stored no earlier than S. Other replicas wait until they have seen that record
unchanged for the lease's duration, which is longer, and they replace only that record, so that a
renewal in between makes them fail. No two clocks are compared.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from socket import gethostname
from threading import Event, Thread
from typing import NamedTuple

import msgspec
import structlog

from desched.errors import LeaseError, LeaseRefused
from desched.ports import Lease, LeaseRecord
from desched.service.election.lease_watch import LeaseWatch
from desched.service.process.clock import seconds_since_boot

JITTER_RATIO = 0.2
"""How much shorter than the retry period a pause may be, so that replicas do not run in step.

It is never longer, because a released lease must be taken over within one retry period.
"""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LeaseTiming:
    """When a lease is renewed, when its holder gives up, and when others may take it over.

    Raises:
        ValueError: not duration > renew deadline > retry period > 0, which safety requires.
    """

    duration_seconds: int = 15
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not (
            self.duration_seconds > self.renew_deadline_seconds > self.retry_period_seconds > 0
        ):
            raise ValueError(f"not duration > renew deadline > retry period > 0: {self}")

    @property
    def request_seconds(self) -> float:
        """The time limit of a request, short enough to survive one failed renewal."""
        return (self.renew_deadline_seconds - self.retry_period_seconds) / 3


class LeadershipChange(NamedTuple):
    """Whether this replica may act from now on; `why` is the reason if not."""

    leading: bool
    holder: str
    transitions: int
    why: str = ""


class _Tenure(NamedTuple):
    """The period in which this replica may act, in seconds of its own clock."""

    begins: float
    ends: float
    transitions: int

    def covers(self, seconds: float) -> bool:
        return self.begins <= seconds < self.ends


def own_identity(pod_name: str | None) -> str:
    """A unique name for this process; a restarted container gets a new one."""
    return f"{pod_name or gethostname()}_{secrets.token_hex(4)}"


@dataclass(eq=False)
class Leadership:
    """Contends for the lease; `may_act` returns whether this replica holds it now.

    One thread calls `step` or `run`; any thread may call the other methods. `seconds` must go on
    while the process or the machine is suspended. `now` is stored for people. `random` draws from
    [0, 1).
    """

    lease: Lease
    identity: str
    timing: LeaseTiming
    _: KW_ONLY
    now: Callable[[], datetime]
    random: Callable[[], float]
    seconds: Callable[[], float] = seconds_since_boot

    def __post_init__(self) -> None:
        self._stop = Event()
        self._listeners: tuple[Callable[[LeadershipChange], None], ...] = ()
        self._tenure: _Tenure | None = None  # one assignment, so readers need no lock
        self._watch = LeaseWatch(self.identity, self.timing.duration_seconds, self.seconds)
        self._trouble = "the lease has not been requested yet"
        self.refused = False
        """Whether the last attempt failed because the account lacks a right."""
        self._last_published = False
        self._last_logged = ""

    def may_act(self) -> bool:
        """Whether a write may begin now; call it before each write."""
        return self.seconds_left() > 0

    def seconds_left(self) -> float:
        """How long writes are still allowed without a renewal; 0 if they are not."""
        tenure = self._tenure
        now = self.seconds()  # after reading the tenure, so that a pause in between counts
        return tenure.ends - now if tenure is not None and tenure.covers(now) else 0.0

    @property
    def transitions(self) -> int:
        """How often the lease had changed its holder when it was last read."""
        return self._watch.record.transitions

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last read; empty without one."""
        return self._watch.record.holder

    def why_not(self) -> str | None:
        """Why this replica must not act, as the end of a sentence; None if it may."""
        return None if self.may_act() else self._trouble or "the lease was not renewed in time"

    def on_change(self, *listeners: Callable[[LeadershipChange], None]) -> None:
        """Call these in the contending thread when leadership is gained or lost."""
        self._listeners += listeners

    @contextmanager
    def contend(self) -> Iterator[None]:
        """Contend in a separate thread during the context, then release the lease.

        Everything that acts must end within the context.
        """
        thread = Thread(target=self.run, name="leadership", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.stop()
            thread.join(self.timing.renew_deadline_seconds)

    def stop(self) -> None:
        """Let `run` release the lease and return."""
        self._stop.set()

    def run(self) -> None:
        """Contend until stopped, then release the lease."""
        while not self._stop.is_set():
            self.step()
            jitter = 1 - JITTER_RATIO * self.random()
            self._stop.wait(self.timing.retry_period_seconds * jitter)
        self.release()

    def step(self) -> None:
        """Try once to acquire or renew the lease; any error is a failed renewal."""
        try:
            self._publish_change()  # a pause may have outlasted the tenure
            self._trouble = self._attempt()
            self.refused = False
            self._last_logged = ""
            self._publish_change()
        except LeaseError as error:
            self.refused = isinstance(error, LeaseRefused)
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001  (the thread must live as long as the process)
            _log.exception(
                "leadership.crashed", meaning="this is a bug in desched; please report it"
            )
            self._failed(f"{type(error).__name__}: {error}")

    def release(self) -> None:
        """Stop acting, and release the lease if this replica still holds it.

        A lease that may replace one deleted under its holder expires by itself instead.
        """
        self._tenure = None
        self._trouble = "desched is stopping"
        try:
            self._publish_change()
            if self.seconds() < self._watch.not_before:
                return
            record = self.lease.read()
            if record is not None and record.holder == self.identity:
                self.lease.replace(msgspec.structs.replace(record, holder=""))
        except Exception as error:  # noqa: BLE001  (the lease expires by itself)
            _log.warning("leadership.not_released", why=str(error))

    def _attempt(self) -> str:
        """Read the lease and take it if it is free or ours; returns why not, empty if taken."""
        began_at = self.seconds()
        record = self.lease.read()
        self._watch.look(record)
        if record is None:
            stored = self.lease.create(self._claim(None))
        elif self._watch.is_free(record):
            stored = self.lease.replace(self._claim(record))
        else:
            self._tenure = None
            return f"{record.holder} holds the lease"
        if stored is None or stored.holder != self.identity:
            return "another writer of the lease was faster"
        self._watch.look(stored)
        ends = began_at + self.timing.renew_deadline_seconds
        self._tenure = _Tenure(self._watch.not_before, ends, stored.transitions)
        if self.seconds() < self._watch.not_before:
            return "there was no lease, and the holder of a deleted one may still act"
        return ""

    def _claim(self, record: LeaseRecord | None) -> LeaseRecord:
        now = self.now()
        renews = record is not None and record.holder == self.identity
        return LeaseRecord(
            holder=self.identity,
            duration_seconds=self.timing.duration_seconds,
            transitions=0 if record is None else record.transitions + (not renews),
            acquired_at=record.acquired_at if record is not None and renews else now,
            renewed_at=now,
            version="" if record is None else record.version,
        )

    def _failed(self, problem: str) -> None:
        self._trouble = problem
        log = _log.debug if problem == self._last_logged else _log.warning
        self._last_logged = problem
        log("leadership.renewal_failed", why=problem)

    def _publish_change(self) -> None:
        refusal = self.why_not()
        if (refusal is None) is self._last_published:
            return
        self._last_published = refusal is None
        change = LeadershipChange(refusal is None, self.holder, self.transitions, refusal or "")
        if change.leading:
            _log.info("leadership.gained", holder=change.holder, transitions=change.transitions)
        else:
            log = _log.info if self._stop.is_set() else _log.warning
            log("leadership.lost", holder=change.holder, why=change.why)
        for listen in self._listeners:
            listen(change)
