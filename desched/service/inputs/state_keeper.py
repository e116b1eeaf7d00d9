"""The state that cycles work by: as it is in the cluster, where people and peers change it too."""

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from desched.errors import ObservationError, StateConflict, StopActing
from desched.model.report import Mode
from desched.model.state import Pause, PauseScope, State
from desched.model.stored_state import pruned
from desched.policy.policy import Policy
from desched.ports import Clock, Fence, StateStore

_log = structlog.get_logger(__name__)


class StateKeeper:
    """Loads the state for each cycle, and writes it only where evictions are made.

    A dry run works by what is stored, so that its plan is that of a service that acts, and writes
    nothing. Without a store the state lives as long as the process. `afresh` is the state where
    nothing is stored. `may_act` is asked before what a cycle leaves is written. `problem` is called
    for each state that cannot be read, used or written.
    """

    def __init__(
        self,
        store: StateStore | None,
        clock: Clock,
        mode: Mode,
        afresh: State,
        may_act: Fence = lambda: True,
        problem: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._mode = mode
        self._state = afresh
        self._afresh = afresh
        self._may_act = may_act
        self._problem = problem
        self._last_warning = ""

    def load(self, policy: Policy) -> State:
        """What to start the next cycle from.

        Raises:
            ObservationError: it could not be read, and what is to act must not forget.
        """
        if self._store is None:
            return self._state
        try:
            found = self._store.load()
        except ObservationError as error:
            self._problem()
            if self._mode is Mode.EVICT:
                raise
            self._warn_once("state.not_read", str(error))
            return self._afresh
        if found.problem:
            self._problem()
            self._warn_once("state.unusable", found.problem)
            return _cautious(found.problem, policy, self._clock.now())
        self._last_warning = ""
        return found.state or self._afresh

    def write(self, state: State) -> None:
        """Write it down before an eviction.

        Raises:
            StopActing: it is not certain that it is written.
        """
        self._state = pruned(state, self._clock.now())
        if self._store is not None:
            try:
                self._store.save(self._state)
            except StateConflict:  # somebody was faster, which is no problem with the state
                raise
            except StopActing:
                self._problem()
                raise

    def write_last(self, state: State) -> None:
        """Write down what a cycle leaves; if that fails, the next one finds it out again."""
        self._state = pruned(state, self._clock.now())
        if self._store is None or self._mode is Mode.DRY_RUN or not self._may_act():
            return
        try:
            self._store.save(self._state)
        except StateConflict as error:
            _log.info("state.changed_meanwhile", why=str(error))
        except StopActing as error:
            self._problem()
            _log.error("state.not_written", why=str(error))

    def _warn_once(self, event: str, why: str) -> None:
        """Once, not in every cycle."""
        if why != self._last_warning:
            _log.warning(event, why=why)
        self._last_warning = why


def _cautious(problem: str, policy: Policy, now: datetime) -> State:
    """Nothing is known: everything rests for a while, and a single move then tries it out."""
    until = now + timedelta(seconds=policy.follow_up.pause_first_seconds)
    return State(since=now, pauses=(Pause(PauseScope.EVERYTHING, now, until, why=problem),))
