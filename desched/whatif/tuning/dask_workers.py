"""Replays on the workers of a Dask cluster, configured by Dask's own settings (TLS, timeouts)."""

import gc
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from typing import Any

from distributed import Client, KilledWorker, SchedulerPlugin, Status, WorkerPlugin, get_worker
from distributed.scheduler import Scheduler
from distributed.versions import VersionMismatchWarning, get_versions

from desched.errors import ConfigurationError, DeschedError, WorkersLost
from desched.history.past import Past
from desched.whatif.tuning.replays import Job, Stop, forget_past, is_shared, share_past

PATIENCE_SECONDS, WATCH_SECONDS = 60.0, 0.2
"""How long to wait for a worker if there is none, and how often to look."""

Packages = Mapping[str, str | None]
PACKAGES: Packages = get_versions(packages=["desched"])["packages"]
COMPARED = {"desched": None, "python": 2, "distributed": None, "numpy": None}
DISCONNECTED = "--workers: the connection to the scheduler is lost."
TOO_SMALL = "--workers: a worker has too little memory for the past; its log has more."
_replaying = threading.Lock()


class DaskExecutor(Executor):
    """Runs jobs on the workers of a Dask cluster, which have the pasts.

    A job whose worker dies runs again on another one. A job that is stopped gives None, as those of
    `local_executor` do. Where no worker is left, its future raises `WorkersLost`.
    """

    def __init__(self, client: Client, stop: Stop, patience_seconds: float) -> None:
        self._client, self._stop = client, stop
        self._patience_seconds, self._lost = patience_seconds, ""
        self._running, self._changing = client.get_executor(pure=False), threading.Lock()
        self._open, self._ended = set[Future[Any]](), threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    @property
    def workers(self) -> int:
        """How many workers there are now."""
        return len(self._client.nthreads())

    def submit(self, function: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        """Run a function of `replays` whose only argument is a job."""
        answer, job = Future[Any](), args[0]._replace(past=self._client.id + args[0].past)
        with self._changing:
            if self._lost or self._client.status != "running":
                answer.set_exception(WorkersLost(self._lost or DISCONNECTED))
                return answer
            running = self._running.submit(_alone, function, job, PACKAGES)
            self._open.add(answer)
        running.add_done_callback(lambda done: self._settle(done, answer))
        return answer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  (its signature)
        """End all jobs."""
        self._ended.set()
        self._watcher.join()
        self._cancel()

    def _settle(self, done: Future[Any], answer: Future[Any]) -> None:
        self._open.discard(answer)
        error = None if done.cancelled() else done.exception()
        if isinstance(error, KilledWorker):
            error = WorkersLost("Worker after worker ended in one replay; their logs may have why.")
        elif isinstance(error, MemoryError):
            error = WorkersLost(TOO_SMALL)
        elif done.cancelled() and (self._lost or not (self._stop or self._ended.is_set())):
            error = WorkersLost(self._lost or DISCONNECTED)
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(None if done.cancelled() else done.result())

    def _cancel(self) -> None:
        with self._changing, suppress(OSError):
            running, self._running = self._running, self._client.get_executor(pure=False)
            running.shutdown(wait=False)

    def _watch(self) -> None:
        """Cancel jobs once the user stops them, or when no worker has been there for long."""
        absent_seconds = 0.0
        while not self._ended.wait(WATCH_SECONDS):
            if self._open and self._client.status == "running":
                with suppress(OSError):
                    absent_seconds = 0.0 if self.workers else absent_seconds + WATCH_SECONDS
                if absent_seconds > self._patience_seconds:
                    self._lost = f"--workers: all are gone for {self._patience_seconds:.0f} s."
                if self._stop or self._lost:
                    self._cancel()


@contextmanager
def dask_client(address: str, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[Client]:
    """A client of the scheduler at this address, `HOST:PORT` or `tls://HOST:PORT`, with workers.

    Raises:
        ConfigurationError: the address is none, TLS is not configured, or versions differ.
        WorkersLost: the scheduler cannot be reached, or has no worker.
    """
    client = _client(address)
    if isinstance(client, DeschedError):
        gc.collect()  # half a client would write to standard error as the program ends
        raise client
    with client:
        try:
            client.wait_for_workers(1, timeout=patience_seconds)
        except OSError as error:
            raise WorkersLost(f"--workers {address}: the scheduler has no worker.") from error
        found: Any = client.get_versions(packages=["desched"])
        for where, theirs in {"the scheduler": found["scheduler"], **found["workers"]}.items():
            _compare(where, theirs["packages"], PACKAGES)
        yield client


@contextmanager
def dask_executor(
    client: Client,
    pasts: Mapping[str, Past],
    stop: Stop,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[DaskExecutor]:
    """Runs jobs on the workers of a client, which have the pasts until the client has gone.

    Raises:
        WorkersLost: the pasts cannot be sent.
    """
    try:
        client.register_plugin(_Lease(client.id))
        for name, past in pasts.items():
            client.register_plugin(_SharedPast(past, client.id + name))
    except MemoryError as error:
        raise WorkersLost(TOO_SMALL) from error
    except OSError as error:
        raise WorkersLost(f"--workers: the past could not be sent ({error}).") from error
    with DaskExecutor(client, stop, patience_seconds) as executor:
        yield executor


def _client(address: str) -> Client | DeschedError:
    """A client, or why there is none: an error with its traceback would keep half of one alive."""
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what ends a search is raised
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VersionMismatchWarning)  # compared afterwards
            return Client(address, set_as_default=False)
    except OSError as error:
        return WorkersLost(f"--workers {address}: no Dask scheduler answers ({error}).")
    except (ValueError, TypeError, RuntimeError) as error:
        return ConfigurationError(f"--workers {address}: {error}.")


class _Lease(SchedulerPlugin):
    """Takes the pasts of a client from all workers once it has gone, even if it was killed."""

    def __init__(self, client: str) -> None:
        self.name = client

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        if client == self.name:
            scheduler.remove_plugin(client)
            for past in filter(lambda each: each.startswith(client), [*scheduler.worker_plugins]):
                scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, past)


class _SharedPast(WorkerPlugin):
    """Gives a past to each worker, also to one that joins later."""

    def __init__(self, past: Past, name: str) -> None:
        self._past, self.name = past, name

    def setup(self, worker: object) -> None:  # noqa: ARG002  (its signature)
        share_past(self._past, _is_cancelled, self.name)

    def teardown(self, worker: object) -> None:  # noqa: ARG002  (its signature)
        forget_past(self.name)


def _alone(function: Callable[[Job], Any], job: Job, packages: Packages) -> Any:
    """Replay in a worker, in one of its threads at a time."""
    _compare("a worker that joined later", PACKAGES, packages)
    if not is_shared(job.past):  # Dask only logs why one that joins could not take it
        raise MemoryError
    with _replaying:
        return function(job)


def _is_cancelled() -> bool:
    """Whether nobody waits for the job of this thread any more, or its worker has ended."""
    worker = get_worker()
    if worker.status not in (Status.running, Status.paused):
        return True
    task = worker.state.tasks.get(worker.get_current_task())
    return task is None or task.state == "cancelled"


def _compare(where: str, theirs: Packages, ours: Packages) -> None:
    """Replays can be sent, and give equal figures, only where the versions are the same."""
    for name, parts in COMPARED.items():
        there, here = (".".join(str(x.get(name)).split(".")[:parts]) for x in (theirs, ours))
        if there != here:
            what = f"{where} has {name} {there}, the command {here}"
            raise ConfigurationError(f"--workers: {what}; install the same version everywhere.")
