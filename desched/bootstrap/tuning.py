"""Searches for better policies in the past, with the workers that replay it."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Timer
from typing import NamedTuple, TypeVar

from desched.bootstrap.past import PastSource, read_past
from desched.errors import ConfigurationError, ObservationError, ObservationSource, WorkersLost
from desched.history.past import Past
from desched.policy.policy import Policy
from desched.service.process.clock import SystemClock
from desched.settings import Settings
from desched.views.progress import ProgressLine
from desched.whatif.past.backtest import backtest, covered_share
from desched.whatif.past.run import Span
from desched.whatif.tuning.figures import Tuned, tuning_of
from desched.whatif.tuning.replays import Score, Stop, local_executor, usable_processors
from desched.whatif.tuning.results import Results
from desched.whatif.tuning.sampler import OptunaSampler
from desched.whatif.tuning.search import BATCH, Recommendation, Search, Tried, spans_of
from desched.whatif.tuning.space import Space, Values

SEED = 0
MOST_SENT_BYTES = 2**31 - 2**27
"""A message of Dask has at most 2 GiB; the rest is for names and labels."""

LEAST_COVERED = 0.5

T = TypeVar("T")


class Effort(NamedTuple):
    """When a search ends, and what it looks for.

    It ends after so many policies or this time. The recommended policy may need more evictions than
    today's by the share `more_evictions`.
    """

    policies: int
    seconds: int
    more_evictions: float


class Aim(NamedTuple):
    """A search: what varies over which time, how long, what is kept of it, and what comes first."""

    space: Space
    span: Span
    effort: Effort
    results: Results | None
    first: Sequence[Values] = ()


class Workers(NamedTuple):
    """What replays the past, so many policies at a time."""

    executor: Executor
    number: int


Start = Callable[[Mapping[str, Past], Stop], AbstractContextManager[Workers]]
"""Starts workers that have these pasts."""


@contextmanager
def workers_at(address: str) -> Iterator[Start]:
    """The processors of this machine, or the workers of the Dask scheduler with this address.

    Raises:
        ConfigurationError: the address is none, or the workers cannot be used.
        WorkersLost: there are none.
    """
    if not address:
        yield _here
        return
    from desched.whatif.tuning.dask_workers import dask_client, dask_executor  # noqa: PLC0415  (optional)

    @contextmanager
    def there(pasts: Mapping[str, Past], stop: Stop) -> Iterator[Workers]:
        largest = max((past.size_bytes for past in pasts.values()), default=0)
        if largest > MOST_SENT_BYTES:
            raise ConfigurationError(
                f"--workers: the past has {largest / 2**30:.1f} GiB, and Dask sends at most "
                f"{MOST_SENT_BYTES / 2**30:.1f}; choose a shorter time or a longer --step."
            )
        with dask_executor(client, pasts, stop) as executor:
            yield Workers(executor, executor.workers)

    with dask_client(address) as client:
        yield there


@contextmanager
def _here(pasts: Mapping[str, Past], stop: Stop) -> Iterator[Workers]:
    number = usable_processors()
    with local_executor(pasts, number, stop) as executor:
        yield Workers(executor, number)


class Found(NamedTuple):
    """What a search came to, and whether a signal or the budget ended it."""

    search: Search
    recommendation: Recommendation | None
    interrupted: bool


class Searcher:
    """Searches pasts with workers; when these are lost, this machine judges what is found."""

    def __init__(
        self, pasts: Mapping[str, Past], workers: Workers, stop: Stop, clock: SystemClock
    ) -> None:
        self._pasts, self._workers, self._stop, self._clock = pasts, workers, stop, clock
        self.lost = False

    def search(self, aim: Aim, jobs: Callable[[Executor], Executor] = lambda e: e) -> Found | None:
        """What is recommended; None if the search was stopped before it had a result.

        `jobs` makes what runs the search's jobs of what runs those of the workers.

        Raises:
            ConfigurationError: there is too little memory.
            WorkersLost: there were no workers from the beginning.
        """
        executor = jobs(self._workers.executor)
        search = Search(
            aim.space, spans_of(aim.span), executor, lambda: bool(self._stop), aim.first
        )
        return self._or_here(
            search,
            jobs,
            lambda: self._recommended(search, aim) if self._is_searched(search, aim) else None,
            lambda: self._recommended(search, aim),
        )

    def judged(
        self, search: Search, policy: Policy, jobs: Callable[[Executor], Executor]
    ) -> Score | None:
        """The score of a policy on the later days; None if that was stopped."""
        judge = partial(search.judged, policy)
        return self._or_here(search, jobs, judge, judge)

    def _or_here(
        self,
        search: Search,
        jobs: Callable[[Executor], Executor],
        there: Callable[[], T],
        here: Callable[[], T],
    ) -> T:
        """What the workers do, or else, when these are lost, what this machine does."""
        try:
            return there()
        except WorkersLost as error:
            if not search.candidates:
                raise
            sys.stderr.write(f"desched: {error} This machine judges what is found.\n")
        except BrokenExecutor as error:
            raise ConfigurationError(
                "A process of the search was ended by somebody else, most likely because memory "
                "ran out; choose a shorter time or a longer --step. --results keeps what was found."
            ) from error
        self.lost = True
        # In a thread: a fork would lose those that this process has.
        with local_executor(self._pasts, 1, self._stop) as executor:
            search.go_on_with(jobs(executor))
            return here()

    def _is_searched(self, search: Search, aim: Aim) -> bool:
        """Whether today's policy was replayed, which is what all others are compared with."""
        effort, began = aim.effort, self._clock.monotonic()
        if not search.begin():
            return False
        if not search.today.played.score.node_minutes:
            return True  # no policy could leave less
        known = aim.results.tried if aim.results else ()
        today = aim.space.today_values
        sampler = OptunaSampler(aim.space.dimensions, today, SEED, len(known))
        search.resume(known, sampler)
        # A thread, so it begins after the workers are forked.
        timer = Timer(effort.seconds, self._stop.request)
        timer.daemon = True
        timer.start()
        try:
            with ProgressLine("Searching", sys.stderr, self._clock) as tell:

                def note(tried: Tried) -> None:
                    if aim.results is not None:
                        aim.results.add(tried)
                    spent = (self._clock.monotonic() - began) / effort.seconds
                    tell(min(1.0, max(spent, len(search.candidates) / effort.policies)))

                search.run(sampler, effort.policies, max(BATCH, self._workers.number), note)
        finally:
            timer.cancel()
        return True

    def _recommended(self, search: Search, aim: Aim) -> Found | None:
        interrupted = bool(self._stop)
        self._stop.withdraw()
        if interrupted:
            sys.stderr.write(f"desched: Judging the best of {len(search.candidates)} policies.\n")
        recommendation = search.recommend(aim.effort.more_evictions)
        return None if self._stop else Found(search, recommendation, interrupted)


def past_of(settings: Settings, aim: Aim, source: PastSource, clock: SystemClock) -> Past:
    """The past of a cluster for a search.

    Raises:
        ConfigurationError: there is no way to Prometheus.
        ObservationError: Prometheus could not be read, or its data does not suffice.
    """
    policies = [aim.space.today, *aim.space.extremes]
    past = read_past(settings, policies, aim.span, source, clock)
    for span in spans_of(aim.span):
        _refuse_gaps(covered_share(past, span), span)
    return past


def judged(past: Past, found: Found, clock: SystemClock) -> Tuned:
    """The result of a search with a backtest of the later days."""
    best, space = found.recommendation, found.search.space
    with ProgressLine("Judging", sys.stderr, clock) as tell:
        compared = [space.today, *([best.candidate.policy] if best else [])]
        days = backtest(past, compared, found.search.spans.judged, tell, by_first_lines=True)
    return tuning_of(found.search, best, days, interrupted=found.interrupted)


def _refuse_gaps(covered: float, span: Span) -> None:
    if covered < LEAST_COVERED:
        raise ObservationError(
            ObservationSource.PROMETHEUS,
            f"Prometheus has the load of nodes for only {covered:.0%} of the time from "
            f"{span.started_at:%Y-%m-%d %H:%M} to {span.ended_at:%Y-%m-%d %H:%M} UTC; choose a "
            "time that it has kept.",
        )
