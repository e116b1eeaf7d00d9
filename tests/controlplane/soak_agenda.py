"""When things of the soak happen, and what did."""

import heapq
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from urllib3.exceptions import HTTPError

from tests.controlplane.cluster import UnexpectedAnswerError

Action = Callable[[], None]


class Event(NamedTuple):
    """Something that was done to the cluster or to desched."""

    seconds: float
    sort: str
    kind: str
    text: str


class Journal:
    """What happened, by the seconds since the beginning; each event is printed at once."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.events: list[Event] = []

    def restart(self) -> None:
        """Begin here, with what comes now."""
        self._began = time.monotonic()
        self.events.clear()

    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def note(self, sort: str, kind: str, text: str = "") -> None:
        """Write down an event of this sort: `churn`, `load`, `fault`, `phase` or `harness`."""
        event = Event(self.seconds(), sort, kind, text)
        self.events.append(event)
        print(f"{event.seconds:7.1f} s  {sort}: {kind} {text}".rstrip(), flush=True)

    def counts(self, sort: str) -> Counter[str]:
        """How often what happened."""
        return Counter(event.kind for event in self.events if event.sort == sort)


class Agenda:
    """What is to be done later; whoever changes something puts its end here at once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: list[tuple[float, int, Action]] = []
        self._count = 0

    def later(self, seconds: float, action: Action) -> None:
        """Do this so many seconds from now, or when everything is brought to its end."""
        self._count += 1
        heapq.heappush(self._entries, (time.monotonic() + seconds, self._count, action))

    def run_due(self) -> None:
        """Do what is due."""
        while self._entries and self._entries[0][0] <= time.monotonic():
            self.attempt(heapq.heappop(self._entries)[2])

    def finish(self) -> None:
        """Do everything that is left, now."""
        while self._entries:
            self.attempt(heapq.heappop(self._entries)[2])

    def attempt(self, action: Action) -> None:
        """Do this; what a machine that is too busy prevents is written down, and left."""
        try:
            action()
        except (HTTPError, TimeoutError, UnexpectedAnswerError) as error:
            self._journal.note("harness", type(error).__name__, str(error)[:300])
