"""What ends a search on Dask workers, with a cluster of threads of this process."""

from collections.abc import Iterator
from typing import Any

import dask
import pytest
from distributed import LocalCluster

from desched.errors import ConfigurationError, WorkersLost
from desched.whatif.past.run import Span
from desched.whatif.tuning import dask_workers
from desched.whatif.tuning.dask_workers import dask_executor
from desched.whatif.tuning.replays import Job, Stop, replayed
from desched.whatif.tuning.space import Space
from tests.unit.whatif.past.pasts import Life, a_past, at
from tests.unit.whatif.tuning.dask_threads import workers_in_this_process
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
    with dask_executor(cluster.scheduler_address, PASTS, stop) as executor:
        running, waiting = (executor.submit(replayed, LONG) for _ in range(2))
        stop.request()
        assert running.result(PATIENCE_SECONDS) is None
        assert waiting.result(PATIENCE_SECONDS) is None
        stop.withdraw()
        assert executor.submit(replayed, SHORT).result(PATIENCE_SECONDS) is not None


def test_a_job_is_lost_when_no_worker_comes_back(cluster: LocalCluster) -> None:
    with dask_executor(cluster.scheduler_address, PASTS, Stop(), 1.0) as executor:
        running = executor.submit(replayed, LONG)
        cluster.scale(0)
        with pytest.raises(WorkersLost, match="gone"):
            running.result(PATIENCE_SECONDS)
        with pytest.raises(WorkersLost, match="gone"):
            executor.submit(replayed, SHORT).result(PATIENCE_SECONDS)


def test_a_job_is_lost_with_the_scheduler(cluster: LocalCluster) -> None:
    with dask_executor(cluster.scheduler_address, PASTS, Stop(), 5.0) as executor:
        running = executor.submit(replayed, LONG)
        cluster.close()
        with pytest.raises(WorkersLost, match="connection"):
            running.result(PATIENCE_SECONDS)


def test_a_search_leaves_nothing_behind(cluster: LocalCluster) -> None:
    scheduler: Any = cluster.scheduler
    before = set(scheduler.worker_plugins)
    with dask_executor(cluster.scheduler_address, PASTS, Stop()) as executor:
        during = set(scheduler.worker_plugins)
        executor.submit(replayed, SHORT).result(PATIENCE_SECONDS)
    assert during - before
    assert set(scheduler.worker_plugins) == before


def test_workers_with_another_version_are_refused(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {**dask_workers.PACKAGES, "desched": "0.0.9"}
    monkeypatch.setattr(dask_workers, "PACKAGES", other)
    with (
        pytest.raises(ConfigurationError, match=r"has desched 0\.1.*, the command 0\.0\.9"),
        dask_executor(cluster.scheduler_address, PASTS, Stop()),
    ):
        pass


def test_a_scheduler_without_workers_is_refused(cluster: LocalCluster) -> None:
    cluster.scale(0)
    with (
        pytest.raises(WorkersLost, match="no worker"),
        dask_executor(cluster.scheduler_address, PASTS, Stop(), 0.5),
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
        dask_executor(address, PASTS, Stop()),
    ):
        pass
