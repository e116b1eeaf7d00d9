"""Replays on real Dask workers, processes that speak TLS only, are those of this process."""

import re
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from signal import SIGKILL
from typing import Any

import dask
import pytest
import yaml
from distributed import Client, Security

from desched.errors import ConfigurationError
from desched.whatif.tuning import replays
from desched.whatif.tuning.clusters import OneCluster
from desched.whatif.tuning.replays import Job, Stop, local_executor, replayed
from desched.whatif.tuning.sampler import OptunaSampler
from desched.whatif.tuning.search import Note, Search, Tried, spans_of
from desched.whatif.tuning.space import Space
from tests.controlplane.process import Server
from tests.controlplane.waiting import PATIENCE_SECONDS, wait_for
from tests.repository import ROOT
from tests.unit.whatif.tuning.dask_threads import executor_at
from tests.unit.whatif.tuning.hot_hours import SPAN, TODAY, hot_hours

NAME = "prod"
PASTS = {NAME: hot_hours()}


class DaskCluster:
    """A scheduler and workers on loopback."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.config = _only_tls(folder)
        (folder / "dask.yaml").write_text(yaml.safe_dump(self.config))
        self.servers: list[Server] = []
        scheduler = self._start("scheduler", "--port", "0")
        self.address: str = scheduler.wait_until(
            "the scheduler listens",
            lambda: "".join(re.findall(r"Scheduler at: +(\S+)", scheduler.log.read_text())),
        )

    def start_worker(self, **variables: str) -> Server:
        """Begins to start one with a single thread."""
        folder = ("--local-directory", str(self._folder))
        return self._start(
            "worker", self.address, "--no-nanny", "--nthreads", "1", *folder, **variables
        )

    def start_search(self) -> Server:
        """Begins one that gives workers the past, and then does nothing."""
        return self._launch("search", "tests.contracts.idle_search", self.address)

    def close(self) -> None:
        for server in self.servers:
            server.stop()

    def _start(self, kind: str, *arguments: str, **variables: str) -> Server:
        loopback = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
        program = f"distributed.cli.dask_{kind}"
        return self._launch(kind, program, *loopback, *arguments, **variables)

    def _launch(self, kind: str, program: str, *arguments: str, **variables: str) -> Server:
        server = Server(
            f"{kind}-{len(self.servers)}",
            [sys.executable, "-m", program, *arguments],
            self._folder,
            {"DASK_CONFIG": str(self._folder), "PYTHONPATH": str(ROOT), **variables},
        )
        self.servers.append(server)
        return server


def _only_tls(folder: Path) -> dict[str, Any]:
    """Dask's own settings with a certificate that is its own authority."""
    made = Security.temporary().get_tls_config_for_role("worker")
    for name in ("cert", "key"):
        (folder / name).write_text(made[name])
    pair = {name: str(folder / name) for name in ("cert", "key")}
    roles = dict.fromkeys(("scheduler", "worker", "client"), pair)
    tls = {"ca-file": pair["cert"], **roles}
    return {
        "distributed": {"comm": {"default-scheme": "tls", "require-encryption": True, "tls": tls}}
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    found = DaskCluster(tmp_path_factory.mktemp("dask"))
    try:
        with dask.config.set(dask.config.merge(dask.config.config, found.config)):
            yield found
    finally:
        found.close()


def searched(executor: Executor, note: Note = lambda _: None) -> tuple[object, ...]:
    """All that a search tries and recommends."""
    search = Search(Space(TODAY), spans_of(SPAN), OneCluster(executor, NAME), lambda: False)
    assert search.begin()
    space = search.space
    search.run(OptunaSampler(space.dimensions, space.today_values, 0, 0), 13, 12, note)
    found = [(dict(each.values), each.played) for each in search.candidates]
    return found, search.recommend()


def test_nothing_is_lost_when_workers_die_and_others_join(cluster: DaskCluster) -> None:
    first, second = cluster.start_worker(), cluster.start_worker()
    tried: list[Tried] = []

    def kill(each: Tried) -> None:
        tried.append(each)
        if len(tried) == 1:
            first.signal(SIGKILL)
            cluster.start_worker()
        elif len(tried) == 6:
            second.signal(SIGKILL)  # what is left is for the one that has joined

    address = cluster.address.removeprefix("tls://")
    with executor_at(address, PASTS, Stop(), PATIENCE_SECONDS) as executor:
        second.wait_until("both workers are there", lambda: executor.workers == 2)
        found = searched(executor, kill)
    with local_executor(PASTS, 1, Stop()) as here:
        assert found == searched(here)
    assert len(tried) > 6


def kept() -> int:
    """How many pasts this worker has."""
    return len(replays._pasts)  # noqa: SLF001  (nothing else shows it)


def test_workers_forget_the_past_of_a_search_that_is_killed(cluster: DaskCluster) -> None:
    cluster.start_worker()
    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=PATIENCE_SECONDS)
        search = cluster.start_search()
        search.wait_until("a worker has the past", lambda: any(client.run(kept).values()))
        search.signal(SIGKILL)
        wait_for("no worker has the past", lambda: not any(client.run(kept).values()))


def test_a_worker_that_joins_with_another_version_is_refused(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    (tmp_path / "desched-0.0.9.dist-info").mkdir()
    (tmp_path / "desched-0.0.9.dist-info" / "METADATA").write_text("Name: desched\nVersion: 0.0.9")
    cluster.start_worker()
    with executor_at(cluster.address, PASTS, Stop(), PATIENCE_SECONDS) as executor:
        cluster.start_worker(PYTHONPATH=str(tmp_path))
        for server in cluster.servers[:-1]:
            if server.name.startswith("worker"):
                server.stop()
        job = Job(Space(TODAY).today, SPAN, past=NAME)
        with pytest.raises(ConfigurationError, match=r"joined later has desched 0\.0\.9"):
            executor.submit(replayed, job).result(PATIENCE_SECONDS)
