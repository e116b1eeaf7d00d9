"""The memory that cycles work by: as it is in the cluster, where people and peers change it too."""

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from desched.errors import MemoryConflict, ObservationError, StopActing
from desched.model.memory import Memory, Pause, PauseScope
from desched.model.report import Mode
from desched.model.stored_memory import pruned
from desched.policy.policy import Policy
from desched.ports import Clock, Fence, MemoryStore

_log = structlog.get_logger(__name__)


class KeptMemory:
    """Loads the memory for each cycle, and writes it only where evictions are made.

    A dry run works by what is stored, so that its plan is that of a service that acts, and writes
    nothing. Without a store the memory lives as long as the process. `afresh` is the memory where
    nothing is stored. `may_act` is asked before what a cycle leaves is written. `problem` is called
    for each memory that cannot be read, used or written.
    """

    def __init__(
        self,
        store: MemoryStore | None,
        clock: Clock,
        mode: Mode,
        afresh: Memory,
        may_act: Fence = lambda: True,
        problem: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._mode = mode
        self._memory = afresh
        self._afresh = afresh
        self._may_act = may_act
        self._problem = problem
        self._told = ""

    def load(self, policy: Policy) -> Memory:
        """What to start the next cycle from.

        Raises:
            ObservationError: it could not be read, and what is to act must not forget.
        """
        if self._store is None:
            return self._memory
        try:
            found = self._store.load()
        except ObservationError as error:
            self._problem()
            if self._mode is Mode.EVICT:
                raise
            self._tell("memory.not_read", str(error))
            return self._afresh
        if found.problem:
            self._problem()
            self._tell("memory.unusable", found.problem)
            return _cautious(found.problem, policy, self._clock.now())
        self._told = ""
        return found.memory or self._afresh

    def write(self, memory: Memory) -> None:
        """Write it down before an eviction.

        Raises:
            StopActing: it is not certain that it is written.
        """
        self._memory = pruned(memory, self._clock.now())
        if self._store is not None:
            try:
                self._store.save(self._memory)
            except MemoryConflict:  # somebody was faster, which is no problem with the memory
                raise
            except StopActing:
                self._problem()
                raise

    def write_last(self, memory: Memory) -> None:
        """Write down what a cycle leaves; if that fails, the next one finds it out again."""
        self._memory = pruned(memory, self._clock.now())
        if self._store is None or self._mode is Mode.DRY_RUN or not self._may_act():
            return
        try:
            self._store.save(self._memory)
        except MemoryConflict as error:
            _log.info("memory.changed_meanwhile", why=str(error))
        except StopActing as error:
            self._problem()
            _log.error("memory.not_written", why=str(error))

    def _tell(self, event: str, why: str) -> None:
        """Once, not in every cycle."""
        if why != self._told:
            _log.warning(event, why=why)
        self._told = why


def _cautious(problem: str, policy: Policy, now: datetime) -> Memory:
    """Nothing is known: everything rests for a while, and a single move then tries it out."""
    until = now + timedelta(seconds=policy.follow_up.pause_first_seconds)
    return Memory(since=now, pauses=(Pause(PauseScope.EVERYTHING, now, until, why=problem),))
