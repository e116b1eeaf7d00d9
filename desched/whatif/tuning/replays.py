"""Replays of pasts as jobs for any `concurrent.futures.Executor`.

`replayed` is the function to submit. The process that runs it must have got the past before, by
`share_past`: worker processes on this machine inherit it, others need it once (about 60 MB for a
week of 100 nodes; `Past`, `Job` and `Played` can be pickled).
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import c_bool
from multiprocessing import sharedctypes
from typing import NamedTuple

import msgspec

from desched.history.past import Past
from desched.policy.policy import Policy
from desched.whatif.closed_loop import LoopResult
from desched.whatif.history import Floats
from desched.whatif.past.replay import Replay
from desched.whatif.past.run import PastRun, Span

PARTS = 6
"""A replay may stop after each of so many parts of its span."""

FIRST_STOP = 2
"""The number of the first part after which it may: the first may be a calm night."""

DOMINATED_SHARE = 0.9
"""A replay stops if another leaves at most this share of its overload, with as few evictions."""


class Score(msgspec.Struct, frozen=True, gc=False):
    """What a policy left of overload, and its evictions; see `Overload` for the first two."""

    node_minutes: float
    point_minutes: float
    evictions: int

    @classmethod
    def of(cls, result: LoopResult) -> "Score":
        """That of a run."""
        overload = result.overload
        return cls(overload.node_minutes, overload.excess_point_minutes, len(result.moves))

    def dominates(self, other: "Score", share: float = 1.0) -> bool:
        """Whether it is as good in all, with at most this share of the other's overload."""
        return (
            self.evictions <= other.evictions
            and self.node_minutes <= share * other.node_minutes
            and self.point_minutes <= share * other.point_minutes
            and self != other
        )


class Played(msgspec.Struct, frozen=True, gc=False):
    """The score of a policy after each part of a span; fewer than PARTS if it was stopped."""

    scores: tuple[Score, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the policy was replayed to the end."""
        return len(self.scores) == PARTS

    @property
    def score(self) -> Score:
        """The score at the end, or where it was stopped."""
        return self.scores[-1]


class Job(NamedTuple):
    """A policy to replay over a span.

    `targets` are those by which overload is judged (see `PolicyRun.targets`), by default the
    policy's own. `rivals` are whole replays with the same span and targets: the job stops where one
    of them is clearly better. `past` is the name with which the past is shared.
    """

    policy: Policy
    span: Span
    targets: Floats | None = None
    rivals: tuple[Played, ...] = ()
    past: str = ""


Stopping = Callable[[], bool]

# An argument would be copied for each job.
_pasts: dict[str, tuple[Replay, Stopping]] = {}


def share_past(past: Past, stopping: Stopping = lambda: False, name: str = "") -> None:
    """Let jobs of this process replay this past; once `stopping` is true, they end early."""
    replay = Replay(past)
    replay.prepare()
    _pasts[name] = replay, stopping


def is_shared(name: str) -> bool:
    """Whether jobs of this process can replay the past with this name."""
    return name in _pasts


def forget_past(name: str) -> None:
    """Free the memory of a past; jobs that replay it go on."""
    _pasts.pop(name, None)


class _Stopped(Exception):  # noqa: N818  (named for what happened)
    """The user stopped the search."""


def replayed(job: Job) -> Played | None:
    """The scores of a policy; None if the process is to stop."""
    found = replayed_with_targets(job)
    return found and found[0]


def replayed_with_targets(job: Job) -> tuple[Played, Floats] | None:
    """The same, and the targets of the policy, by which others are judged."""
    replay, stopping = _pasts[job.past]

    def go_on(_: float) -> None:
        if stopping():
            raise _Stopped

    run, scores = PastRun(replay, job.policy, job.span), list[Score]()
    try:
        for part in range(1, PARTS + 1):
            run.advance(max(1, job.span.intervals * part // PARTS), go_on)
            scores.append(Score.of(run.result(job.targets)))
            if part >= FIRST_STOP and any(
                rival.scores[part - 1].dominates(scores[-1], DOMINATED_SHARE)
                for rival in job.rivals
            ):
                break
    except _Stopped:
        return None
    return Played(tuple(scores)), run.targets


class Stop:
    """A request to end all jobs soon; a signal handler may make it."""

    def __init__(self) -> None:
        # Without a lock: a handler that waits for a lock of the code that it interrupts never ends.
        self._flag = sharedctypes.RawValue(c_bool, False)  # noqa: FBT003  (its first value)

    def request(self) -> None:
        """Make it."""
        self._flag.value = True

    def withdraw(self) -> None:
        """Let new jobs run again."""
        self._flag.value = False

    def __bool__(self) -> bool:
        return self._flag.value


def usable_processors() -> int:
    """How many processors this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # only Linux limits processes to some
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@contextmanager
def local_executor(pasts: Mapping[str, Past], workers: int, stop: Stop) -> Iterator[Executor]:
    """Runs jobs in worker processes that share the pasts, or where forks are unsafe in a thread.

    The workers begin with the first job, before the program has threads that a fork would lose.
    """
    for name, past in pasts.items():
        share_past(past, lambda: bool(stop), name)
    if workers == 1 or sys.platform in {"darwin", "win32"}:
        with ThreadPoolExecutor(1) as thread:
            yield thread
        return
    ours, theirs = os.pipe()
    try:
        with ProcessPoolExecutor(
            workers, multiprocessing.get_context("fork"), _begin_worker, (ours, theirs)
        ) as pool:
            yield pool
    finally:
        os.close(ours)
        os.close(theirs)


def _begin_worker(ours: int, theirs: int) -> None:
    """Leave signals to the parent, and end with it even if it is killed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A terminal sends SIGINT to all: the first stops the search, the second ends everything.
    signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, signal.SIG_DFL) and None)
    os.close(theirs)
    threading.Thread(target=_end_with_parent, args=(ours,), daemon=True).start()


def _end_with_parent(ours: int) -> None:
    os.read(ours, 1)  # nobody writes: it returns when no process has the other end any more
    os._exit(0)
