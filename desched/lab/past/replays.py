"""Replays of pasts with policies as jobs for any `concurrent.futures.Executor`."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    ProcessPoolExecutor,
    as_completed,
)
from contextlib import contextmanager
from typing import Any, NamedTuple

from desched.errors import ConfigurationError
from desched.lab.figures import Backtest, PolicyFigures
from desched.lab.past.backtest import backtest_of
from desched.lab.past.replay import Replay
from desched.lab.past.run import PastRun, Progress, Span
from desched.lab.recorded_past import Past
from desched.policy.policy import Policy

COMPARED = ("desched", "python", "distributed", "numpy")
MEMORY = (
    "most likely because memory ran out; choose a shorter time, a longer --step or fewer --jobs"
)

_pasts: dict[str, Past] = {}
_replaying = threading.Lock()


class Workers(NamedTuple):
    """An executor, and what it passes to jobs for each past by its name."""

    executor: Executor
    pasts: Mapping[str, Any]


def replayed(past: Past | str, policy: Policy, span: Span) -> PolicyFigures:
    """The figures of a policy; `past` is only a name where the process has it already."""
    with _replaying:  # threads of one process would take turns, and need more memory
        replay = Replay(_pasts[past] if isinstance(past, str) else past)
        return PastRun(replay, policy, span).figures()


def backtests(
    workers: Workers,
    pasts: Mapping[str, Past],
    policies: Sequence[Policy],
    span: Span,
    progress: Progress = lambda _: None,
) -> Mapping[str, Backtest]:
    """What `backtest` finds in each past, with each replay as a job."""
    submit, shared = workers.executor.submit, workers.pasts
    jobs = {
        name: [submit(replayed, shared[name], policy, span) for policy in policies]
        for name in pasts
    }
    every = [job for of_past in jobs.values() for job in of_past]
    for done, job in enumerate(as_completed(every), 1):
        job.result()  # the first error ends all
        progress(done / len(every))
    return {
        name: backtest_of(past, policies, span, [job.result() for job in jobs[name]])
        for name, past in pasts.items()
    }


@contextmanager
def local_workers(pasts: Mapping[str, Past], processes: int) -> Iterator[Workers]:
    """So many processes of this machine.

    Raises:
        ConfigurationError: one of them was ended.
    """
    # A fork shares the memory of the pasts; elsewhere than on Linux it is not safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    try:
        with ProcessPoolExecutor(processes, context, _begin_process, (pasts,)) as executor:
            try:
                yield Workers(executor, {name: name for name in pasts})
            except BaseException:  # also Ctrl-C: nobody waits for the rest
                for process in multiprocessing.active_children():
                    process.terminate()
                raise
    except BrokenExecutor as error:
        raise ConfigurationError(f"A process of the backtest was ended, {MEMORY}.") from error


def _begin_process(pasts: Mapping[str, Past]) -> None:
    """Take the pasts, and end at once with Ctrl-C or with the parent."""
    _pasts.update(pasts)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
    os._exit(1)


@contextmanager
def dask_workers(pasts: Mapping[str, Past], address: str) -> Iterator[Workers]:
    """The workers of a Dask scheduler, which have the pasts as long as they are used.

    Raises:
        ConfigurationError: they cannot be used, or are lost.
    """
    from distributed import KilledWorker  # noqa: PLC0415  (optional)

    try:
        with _dask_client(address) as client:
            versions: Any = client.get_versions(packages=["desched"])
            everyone = [versions["client"], versions["scheduler"], *versions["workers"].values()]
            for name in COMPARED:
                if len({versions["packages"].get(name) for versions in everyone}) > 1:
                    raise ConfigurationError(
                        f"--workers {address}: this machine, the scheduler and all workers need "
                        f"the same version of {name}."
                    )
            shared = {k: client.scatter(v, broadcast=True, hash=False) for k, v in pasts.items()}
            yield Workers(client.get_executor(pure=False), shared)
    except (KilledWorker, MemoryError) as error:
        raise ConfigurationError(f"--workers {address}: workers ended, {MEMORY}.") from error
    except (OSError, CancelledError) as error:
        raise ConfigurationError(f"--workers {address}: no worker answers ({error}).") from error


def _dask_client(address: str) -> Any:
    from distributed import Client  # noqa: PLC0415  (optional)

    try:
        return Client(address, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        problem = str(error)
    gc.collect()  # half a client would write to standard error as the program ends
    raise ConfigurationError(f"--workers {address}: no Dask scheduler answers ({problem}).")
