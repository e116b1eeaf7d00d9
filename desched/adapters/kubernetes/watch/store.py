"""The objects of one kind as of the last event, and whether they can be trusted."""

import math
from collections.abc import Mapping
from threading import Lock
from typing import Generic, TypeVar

from desched.adapters.kubernetes.watch.events import Change, Key, WatchLost
from desched.api_objects.memory_bounds import TooLarge
from desched.errors import ObservationError, ObservationSource

V = TypeVar("V")

SHORTEST_WATCH_SECONDS = 1.0
"""A watch after a problem must last as long, or bring a line, before it counts."""

LONGEST_AGE_SECONDS = 180.0
"""The API server confirms a kind at least once a minute, by an event or a bookmark."""


class Store(Generic[V]):
    """The values of one kind by namespace and name; one thread writes, others read.

    They may be used while the kind is watched. `resource` is for error messages, and `lock` is
    held for each change. `version` is that up to which all changes are known. `is_worth_a_wait` is
    false if the kind is unlikely to be watched again in the next seconds.
    """

    def __init__(self, resource: str, lock: Lock) -> None:
        self.version = 0
        self.is_worth_a_wait = True
        self._problem = ""
        self._watched_from = math.inf
        self._resource = resource
        self._lock = lock
        self._values: dict[Key, V] = {}
        self._too_large: dict[Key, TooLarge] = {}
        self._confirmed_at = 0.0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def values(self) -> tuple[V, ...]:
        """All values; threads that do not write need the lock."""
        return tuple(self._values.values())

    @property
    def too_large(self) -> tuple[TooLarge, ...]:
        """The objects that are not kept; as for `values`."""
        return tuple(self._too_large.values())

    def is_watched(self, now: float) -> bool:
        """Whether all changes arrive."""
        return now >= self._watched_from

    def problem(self, now: float) -> str:
        """Why changes did not arrive when this was last tried; empty if they do."""
        return "" if self.is_watched(now) else self._problem

    def age_seconds(self, now: float) -> float:
        """How long ago the API server last confirmed the values."""
        return now - self._confirmed_at

    def replace(self, items: Mapping[Key, V | TooLarge], version: int, at: float) -> None:
        """Put what a list has in place of all others."""
        large = {key: item for key, item in items.items() if isinstance(item, TooLarge)}
        values = {key: item for key, item in items.items() if not isinstance(item, TooLarge)}
        with self._lock:
            self._values, self._too_large = values, large
            self.version = version
            self._confirmed_at = at

    def begin(self, at: float) -> None:
        """Note that all changes arrive from now on; after a problem, once a watch has lasted."""
        with self._lock:
            self.is_worth_a_wait = True
            if not self.is_watched(at):
                self._watched_from = at + SHORTEST_WATCH_SECONDS if self._problem else at

    def apply(self, change: Change[V | TooLarge], at: float) -> None:
        """Apply an event; one that is known already changes nothing.

        Raises:
            WatchLost: it is older than one before it.
        """
        if change.version < self.version:
            raise WatchLost("events arrived out of order")
        with self._lock:
            self._confirmed_at = at
            self._watched_from = min(self._watched_from, at)
            if change.version == self.version:
                return
            self.version = change.version
            if change.key is None:
                return
            value = change.value
            if value is None or isinstance(value, TooLarge):
                self._values.pop(change.key, None)
            else:
                self._values[change.key] = value
            if isinstance(value, TooLarge):
                self._too_large[change.key] = value
            else:
                self._too_large.pop(change.key, None)

    def lose(self, problem: str, *, is_worth_a_wait: bool) -> None:
        """Note why changes do not arrive any more."""
        with self._lock:
            self._watched_from = math.inf
            self.is_worth_a_wait = is_worth_a_wait
            self._problem = problem.rstrip(".")

    def require(self, now: float) -> None:
        """Check that the values may be used; only with the lock.

        Raises:
            ObservationError: they are not watched, or have not been confirmed for long.
        """
        age_seconds = self.age_seconds(now)
        if not self.is_watched(now):
            doubt = self._problem or "the first list takes too long"
        elif age_seconds > LONGEST_AGE_SECONDS:
            doubt = f"the API server last confirmed them {age_seconds:.0f} s ago"
        else:
            return
        raise ObservationError(
            ObservationSource.CLUSTER,
            f"The {self._resource} are not known at present: {doubt}. They are read again until "
            "that succeeds.",
        )
