"""Replays on real Dask workers, processes that speak TLS only, are those of this process."""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from pathlib import Path
from signal import SIGKILL
from typing import Any

import dask
import pytest
import yaml
from distributed import Security

from desched.errors import ConfigurationError
from desched.policy.loading import parse_policy
from desched.policy.policy import Policy
from desched.whatif.past.run import Span
from desched.whatif.tuning.dask_workers import DaskExecutor, dask_executor
from desched.whatif.tuning.replays import Job, Played, Stop, local_executor, replayed
from tests.controlplane.process import Server
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.unit.whatif.past.pasts import Life, a_past, at

STEPS = 48
NAME = "prod"
HOT = [[0.2, 0.9][step % 12 > 3] for step in range(STEPS)]
POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig:
  - name: LoadAware
    args:
      metrics: {type: prometheus, address: "http://prometheus:9090"}
      thresholds: {cpu: 10}
      targetThresholds: {cpu: TARGET}
  plugins: {balance: {enabled: [LoadAware]}}
"""


def policy(target: int) -> Policy:
    return parse_policy(POLICY.replace("TARGET", str(target)), f"{target}.yaml").policy


PAST = a_past([Life(f"web-{i}", "a", HOT) for i in range(4)], steps=STEPS)
JOBS = [Job(policy(target), Span(at(12), at(STEPS)), past=NAME) for target in range(40, 90, 4)]


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
            lambda: next(
                (line.split()[-1] for line in _lines(scheduler) if "Scheduler at:" in line), ""
            ),
        )

    def start_worker(self, **variables: str) -> Server:
        """Begins to start one with a single thread."""
        folder = ("--local-directory", str(self._folder))
        return self._start(
            "worker", self.address, "--no-nanny", "--nthreads", "1", *folder, **variables
        )

    def close(self) -> None:
        for server in self.servers:
            server.stop()

    def _start(self, kind: str, *arguments: str, **variables: str) -> Server:
        server = Server(
            f"{kind}-{len(self.servers)}",
            [
                sys.executable,
                "-m",
                f"distributed.cli.dask_{kind}",
                "--host",
                "127.0.0.1",
                "--no-dashboard",
                *arguments,
            ],
            self._folder,
            {"DASK_CONFIG": str(self._folder), **variables},
        )
        self.servers.append(server)
        return server


def _lines(server: Server) -> Sequence[str]:
    return server.log.read_text().splitlines()


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


@pytest.fixture(scope="module")
def expected() -> Sequence[Played | None]:
    """The results of this process."""
    with local_executor({NAME: PAST}, 1, Stop()) as executor:
        return list(executor.map(replayed, JOBS))


def test_nothing_is_lost_when_workers_die_and_others_join(
    cluster: DaskCluster, expected: Sequence[Played | None]
) -> None:
    first, second = cluster.start_worker(), cluster.start_worker()
    address = cluster.address.removeprefix("tls://")
    with dask_executor(address, {NAME: PAST}, Stop(), PATIENCE_SECONDS) as executor:
        second.wait_until("both workers are there", lambda: executor.workers == 2)
        futures = [executor.submit(replayed, job) for job in JOBS]
        wait(futures, PATIENCE_SECONDS, FIRST_COMPLETED)
        assert not all(future.done() for future in futures)
        first.signal(SIGKILL)
        assert [future.result(PATIENCE_SECONDS) for future in futures] == expected
        cluster.start_worker()
        second.signal(SIGKILL)
        assert executor.submit(replayed, JOBS[0]).result(PATIENCE_SECONDS) == expected[0]
    assert len({each.score for each in expected if each is not None}) > 1
