"""Replays on the workers of a Dask cluster, configured by Dask's own settings (TLS, timeouts)."""

import gc
import logging
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from typing import Any

from distributed import Client, KilledWorker, Status, WorkerPlugin, get_worker
from distributed.versions import VersionMismatchWarning, get_versions

from desched.errors import ConfigurationError, DeschedError, WorkersLost
from desched.history.past import Past
from desched.whatif.tuning.replays import Job, Stop, forget_past, share_past

PATIENCE_SECONDS, WATCH_SECONDS = 60.0, 0.2
"""How long to wait for a worker if there is none, and how often to look."""

Packages = Mapping[str, str | None]
PACKAGES: Packages = get_versions(packages=["desched"])["packages"]
COMPARED = {"desched": None, "python": 2, "distributed": None, "numpy": None}
DISCONNECTED = "--workers: the connection to the scheduler is lost."
_replaying = threading.Lock()


class DaskExecutor(Executor):
    """Runs jobs on the workers of a Dask cluster, which have the pasts.

    A job whose worker dies runs again on another one. A job that is stopped gives None, as those of
    `local_executor` do. Where no worker is left, its future raises `WorkersLost`.
    """

    def __init__(self, client: Client, search: str, stop: Stop, patience_seconds: float) -> None:
        self._client, self._search, self._stop = client, search, stop
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
        answer, job = Future[Any](), args[0]._replace(past=self._search + args[0].past)
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
def dask_executor(
    address: str, pasts: Mapping[str, Past], stop: Stop, patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[DaskExecutor]:
    """Runs jobs on the workers of the scheduler at this address, `HOST:PORT` or `tls://HOST:PORT`.

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
        search = secrets.token_hex(8)  # others may use the same workers
        try:
            for name, past in pasts.items():
                client.register_plugin(_SharedPast(past, search + name), name=search + name)
            with DaskExecutor(client, search, stop, patience_seconds) as executor:
                yield executor
        finally:
            for name in pasts if client.status == "running" else ():
                with suppress(OSError, ValueError):  # it is lost, or has no such plugin
                    client.unregister_worker_plugin(search + name)


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


class _SharedPast(WorkerPlugin):
    """Gives a past to each worker, also to one that joins later, and takes it away in the end."""

    def __init__(self, past: Past, name: str) -> None:
        self._past, self._name = past, name

    def setup(self, worker: object) -> None:  # noqa: ARG002  (its signature)
        share_past(self._past, _is_cancelled, self._name)

    def teardown(self, worker: object) -> None:  # noqa: ARG002  (its signature)
        forget_past(self._name)


def _alone(function: Callable[[Job], Any], job: Job, packages: Packages) -> Any:
    """Replay in a worker, in one of its threads at a time."""
    _compare("a worker that joined later", PACKAGES, packages)
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
