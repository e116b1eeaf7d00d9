"""The state that cycles start from; people and other replicas change it in the cluster, too."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
import structlog

from desched.errors import ObservationError, StateConflict, StopActing
from desched.model.state import Pause, PauseScope, SkippedCycles, State
from desched.model.stored_state import pruned
from desched.policy.policy import Policy
from desched.ports import Clock, Fence, StateStore

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class StateKeeper:
    """Loads the state for each cycle, and writes it if evictions are made.

    A dry run plans with the stored state like the service, but never writes; its `may_write` is
    None. `afresh` is the state if none is stored. If one was stored before and is gone, this
    process continues with what it knows, as after a start. `on_problem` is called for each state
    that is gone, or cannot be read, used or written.
    """

    store: StateStore
    clock: Clock
    afresh: State
    may_write: Fence | None
    on_problem: Callable[[], None] = lambda: None
    _last_warning: str = field(default="", init=False)
    _known: State | None = field(default=None, init=False)  # the newest to be stored
    _stored: State | None = field(default=None, init=False)  # None if it is gone or unusable

    def load(self, policy: Policy) -> State:
        """The state that the next cycle starts from.

        Raises:
            ObservationError: it could not be read, and evictions must not ignore it.
        """
        self._stored = None
        try:
            stored = self.store.load()
        except ObservationError as error:
            self.on_problem()
            if self.may_write is not None:
                raise
            self._warn_once("state.not_read", str(error))
            return self.afresh
        if stored.problem:
            self.on_problem()
            self._warn_once("state.unusable", stored.problem)
            return _cautious(stored.problem, policy, self.clock.now())
        self._last_warning = ""
        if stored.state is None and self._known is not None:
            self.afresh = self._restored(self._known)
        self._known = self._stored = stored.state
        return stored.state or self.afresh

    def write(self, state: State) -> None:
        """Write the state before an eviction.

        Raises:
            StopActing: it may not have been written.
        """
        try:
            self._save(pruned(state, self.clock.now()))
        except StateConflict:  # another writer was faster, which is no problem with the state
            raise
        except StopActing:
            self.on_problem()
            raise

    def write_last(self, state: State) -> None:
        """Write the state at the end of a cycle; after a failure the next cycle finds it out."""
        self._write_if_it_may(pruned(state, self.clock.now()))

    def write_skipped(self, reason: str) -> None:
        """Write why cycles are skipped, once for each reason; nothing is decided by it.

        All else stays as it is stored: a clock that was not compared must not prune it.
        """
        stored = self._stored
        if stored is None or (stored.skipped is not None and stored.skipped.why == reason):
            return
        since = stored.skipped.since if stored.skipped else self.clock.now()
        self._write_if_it_may(msgspec.structs.replace(stored, skipped=SkippedCycles(since, reason)))

    def _write_if_it_may(self, state: State) -> None:
        if self.may_write is None or not self.may_write():
            return
        try:
            self._save(state)
        except StateConflict as error:
            _log.info("state.changed_meanwhile", why=str(error))
        except StopActing as error:
            self.on_problem()
            _log.error("state.not_written", why=str(error))

    def _save(self, state: State) -> None:
        self._known = self._stored = state
        self.store.save(state)

    def _restored(self, stored: State) -> State:
        """The state in place of one that was deleted; another process may know more evictions."""
        self.on_problem()
        _log.warning(
            "state.gone",
            why="The stored state was deleted while desched runs. Its pauses, cool-downs and "
            "evictions stay in effect and are written again; nothing is evicted until the "
            "shortest window has passed.",
        )
        return msgspec.structs.replace(stored, since=self.clock.now())

    def _warn_once(self, event: str, problem: str) -> None:
        """Log a warning that lasts for several cycles only once."""
        if problem != self._last_warning:
            _log.warning(event, why=problem)
        self._last_warning = problem


def _cautious(problem: str, policy: Policy, now: datetime) -> State:
    """The state if earlier evictions are unknown: everything is paused, then needs a probe."""
    until = now + timedelta(seconds=policy.follow_up.pause_first_seconds)
    return State(since=now, pauses=(Pause(PauseScope.EVERYTHING, now, until, why=problem),))
