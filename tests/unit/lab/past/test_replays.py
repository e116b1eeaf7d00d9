"""Replays beside each other find what one process finds."""

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from desched.errors import ConfigurationError
from desched.lab.figures import Backtest
from desched.lab.past import replays
from desched.lab.past.backtest import backtest
from desched.lab.past.replays import Workers, backtests, dask_workers, local_workers
from desched.lab.past.run import Span
from desched.views.rendering import json_text, plain_value
from tests.builders import policy, rule
from tests.unit.lab.past.pasts import Life, a_past, at

# Python 3.12 and later warn of any thread; numpy's survive a fork.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

PASTS = {
    "hot": a_past([Life(f"web-{i}", "a", [0.9] * 60) for i in range(4)], steps=60),
    "calm": a_past([Life("web", "a", [0.2] * 60)], steps=60),
}
POLICIES = [policy(), policy(rules=(rule(),))]
SPAN = Span(at(24), at(60))
NO_DASK = "DASK TESTS SKIPPED: install it with `pip install 'desched[workers]'`."


def texts(found: Mapping[str, Backtest]) -> list[tuple[str, str]]:
    return [(name, json_text(plain_value(each))) for name, each in found.items()]


@pytest.fixture(scope="module")
def expected() -> list[tuple[str, str]]:
    found = {name: backtest(past, POLICIES, SPAN) for name, past in PASTS.items()}
    assert [each.evictions > 0 for each in found["hot"].policies] == [True, True]
    return texts(found)


def found_by(workers: Workers) -> list[tuple[str, str]]:
    told: list[float] = []
    found = texts(backtests(workers, PASTS, POLICIES, SPAN, told.append))
    assert told == [0.25, 0.5, 0.75, 1.0]
    return found


def test_processes_find_the_same(expected) -> None:
    with local_workers(PASTS, 2) as workers:
        assert found_by(workers) == expected


@pytest.fixture
def scheduler() -> Iterator[str]:
    distributed: Any = pytest.importorskip("distributed", reason=NO_DASK)
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=2,
        processes=False,
        protocol="tcp://",  # as between machines, so that all is really sent
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",  # or else a port that others may have
    ) as cluster:
        yield cluster.scheduler_address


def test_workers_of_dask_find_the_same(scheduler: str, expected) -> None:
    with dask_workers(PASTS, scheduler) as workers:
        assert found_by(workers) == expected


def test_workers_with_other_versions_are_refused(scheduler: str, monkeypatch) -> None:
    from distributed import Client  # noqa: PLC0415  (the fixture skips without it)

    known = Client.get_versions

    def with_another(client: Client, **given: Any) -> Any:
        found: Any = known(client, **given)
        found["scheduler"]["packages"]["numpy"] = "1.0"
        return found

    monkeypatch.setattr(Client, "get_versions", with_another)
    with (
        pytest.raises(ConfigurationError, match="need the same version of numpy"),
        dask_workers(PASTS, scheduler),
    ):
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "tls://127.0.0.1:1"])
def test_no_scheduler_is_a_sentence(address: str) -> None:
    dask: Any = pytest.importorskip("dask", reason=NO_DASK)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "500ms"}),
        pytest.raises(ConfigurationError, match="no Dask scheduler answers"),
        dask_workers(PASTS, address),
    ):
        pass


def end_this_process(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_ended_is_a_sentence(monkeypatch) -> None:
    monkeypatch.setattr(replays, "PastRun", end_this_process)
    with (
        pytest.raises(ConfigurationError, match="memory ran out"),
        local_workers(PASTS, 2) as workers,
    ):
        backtests(workers, PASTS, POLICIES, SPAN)


def interrupted(workers: Workers, steps: int) -> None:
    """As with Ctrl-C while a long replay runs."""
    workers.executor.submit(replays.replayed, "", POLICIES[0], Span(at(24), at(steps)))
    raise KeyboardInterrupt


def test_nobody_waits_for_the_rest_after_ctrl_c() -> None:
    steps = 300_000
    long = a_past([Life(f"web-{i}", "a", [0.9] * steps) for i in range(4)], steps=steps)
    with pytest.raises(KeyboardInterrupt), local_workers({"": long}, 2) as workers:
        interrupted(workers, steps)
    assert multiprocessing.active_children() == []
