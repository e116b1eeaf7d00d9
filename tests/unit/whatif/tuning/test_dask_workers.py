"""What ends a search on Dask workers, with a cluster of threads of this process."""

import threading
from collections.abc import Iterator
from typing import Any

import dask
import pytest
from distributed import LocalCluster

from desched.errors import ConfigurationError, WorkersLost
from desched.whatif.past.run import Span
from desched.whatif.tuning import dask_workers, replays
from desched.whatif.tuning.dask_workers import dask_client
from desched.whatif.tuning.replays import Job, Stop, replayed
from desched.whatif.tuning.space import Space
from tests.controlplane.waiting import wait_for
from tests.unit.whatif.past.pasts import Life, a_past, at
from tests.unit.whatif.tuning.dask_threads import executor_at, workers_in_this_process
from tests.unit.whatif.tuning.hot_hours import TODAY

PATIENCE_SECONDS = 60.0
STEPS = 300_000
SHORT, LONG = (Job(Space(TODAY).today, Span(at(12), at(end))) for end in (24, STEPS))
PASTS = {"": a_past([Life(f"web-{i}", "a", [0.9] * STEPS) for i in range(4)], steps=STEPS)}


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with workers_in_this_process() as found:
        yield found


def test_a_job_that_is_stopped_frees_its_worker(cluster: LocalCluster) -> None:
    stop = Stop()
    with executor_at(cluster.scheduler_address, PASTS, stop) as executor:
        running, waiting = (executor.submit(replayed, LONG) for _ in range(2))
        stop.request()
        assert running.result(PATIENCE_SECONDS) is None
        assert waiting.result(PATIENCE_SECONDS) is None
        stop.withdraw()
        assert executor.submit(replayed, SHORT).result(PATIENCE_SECONDS) is not None


def test_a_job_is_lost_when_no_worker_comes_back(cluster: LocalCluster) -> None:
    with executor_at(cluster.scheduler_address, PASTS, Stop(), 1.0) as executor:
        running = executor.submit(replayed, LONG)
        cluster.scale(0)
        with pytest.raises(WorkersLost, match="gone"):
            running.result(PATIENCE_SECONDS)
        with pytest.raises(WorkersLost, match="gone"):
            executor.submit(replayed, SHORT).result(PATIENCE_SECONDS)


def test_a_job_is_lost_with_the_scheduler(cluster: LocalCluster) -> None:
    with executor_at(cluster.scheduler_address, PASTS, Stop(), 5.0) as executor:
        running = executor.submit(replayed, LONG)
        cluster.close()
        with pytest.raises(WorkersLost, match="connection"):
            running.result(PATIENCE_SECONDS)


def test_the_pasts_leave_the_workers_with_the_client(cluster: LocalCluster) -> None:
    scheduler: Any = cluster.scheduler
    with dask_client(cluster.scheduler_address) as another:

        def kept() -> int:
            found = another.run(lambda: len(replays._pasts))  # noqa: SLF001  (nothing else shows it)
            return sum(found.values())

        before, plugins = kept(), set(scheduler.plugins)
        with executor_at(cluster.scheduler_address, PASTS, Stop()) as executor:
            executor.submit(replayed, SHORT).result(PATIENCE_SECONDS)
            assert kept() == before + 1
        wait_for("no worker has the past any more", lambda: kept() == before)
        assert set(scheduler.plugins) == plugins


@pytest.fixture
def too_small(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Once it is set, workers of this process have no memory for a past."""
    is_full, share = threading.Event(), replays.share_past

    def share_or_fail(*args: Any) -> None:
        if is_full.is_set():
            raise MemoryError
        share(*args)

    monkeypatch.setattr(dask_workers, "share_past", share_or_fail)
    return is_full


def test_workers_without_memory_for_the_past_are_lost(
    cluster: LocalCluster, too_small: threading.Event
) -> None:
    too_small.set()
    with (
        pytest.raises(WorkersLost, match="too little memory"),
        executor_at(cluster.scheduler_address, PASTS, Stop()),
    ):
        pass


def test_a_worker_that_joins_without_memory_for_the_past_ends_the_jobs(
    cluster: LocalCluster, too_small: threading.Event
) -> None:
    with executor_at(cluster.scheduler_address, PASTS, Stop()) as executor:
        too_small.set()
        cluster.scale(0)
        wait_for("the first worker has gone", lambda: not executor.workers)
        cluster.scale(1)
        with pytest.raises(WorkersLost, match="too little memory"):
            executor.submit(replayed, SHORT).result(PATIENCE_SECONDS)


def test_workers_with_another_version_are_refused(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {**dask_workers.PACKAGES, "desched": "0.0.9"}
    monkeypatch.setattr(dask_workers, "PACKAGES", other)
    with (
        pytest.raises(ConfigurationError, match=r"has desched 0\.1.*, the command 0\.0\.9"),
        executor_at(cluster.scheduler_address, PASTS, Stop()),
    ):
        pass


def test_a_scheduler_without_workers_is_refused(cluster: LocalCluster) -> None:
    cluster.scale(0)
    with (
        pytest.raises(WorkersLost, match="no worker"),
        executor_at(cluster.scheduler_address, PASTS, Stop(), 0.5),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "error", "why"),
    [
        ("127.0.0.1:1", WorkersLost, "no Dask scheduler answers"),
        ("nowhere", ConfigurationError, "nowhere"),
        ("http://127.0.0.1:1", ConfigurationError, "http"),
        ("tls://127.0.0.1:1", ConfigurationError, "TLS"),
    ],
)
def test_a_bad_address_gets_a_sentence(address: str, error: type[Exception], why: str) -> None:
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "500ms"}),
        pytest.raises(error, match=why),
        executor_at(address, PASTS, Stop()),
    ):
        pass
