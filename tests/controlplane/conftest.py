"""Fixtures of the tests that need the real control plane."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import (
    LINTERS,
    METRICS_SERVER,
    NEWEST,
    OLDEST,
    SKIPPED,
    BinariesUnavailableError,
    PinnedSet,
    find_or_build,
)
from tests.controlplane.cluster import BINARIES, ControlPlane
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.sites import Sites

HERE = Path(__file__).parent


LONGEST = (
    "test_soak.py",
    "test_faults_of_the_api_server.py",
    "test_faults_of_prometheus.py",
    "test_contract.py",
    "test_two_replicas.py",
    "test_pace.py",
    "test_kills.py",
    "test_scenario.py",
    "test_watching.py",
    "test_follow_up.py",
    "test_decisions_in_doubt.py",
    "test_attacks_tenants.py",
    "test_janitor.py",
    "test_steered_service.py",
    "test_landing_differential.py",
    "test_least_privilege.py",
)
"""Files that take long begin first, so that no process is left with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.controlplane)
    turn = {HERE / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: turn.get(item.path, len(turn)))


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> dict[str, Path]:
    """Those of the newest Kubernetes."""
    return _found(pytestconfig, BINARIES, NEWEST)


@pytest.fixture(scope="session")
def oldest_binaries(pytestconfig: pytest.Config, binaries: dict[str, Path]) -> dict[str, Path]:
    """Those of the oldest Kubernetes that desched supports, and what goes with every version."""
    return binaries | _found(pytestconfig, OLDEST.packages, OLDEST)


@pytest.fixture(scope="session")
def metrics_server_binary(pytestconfig: pytest.Config) -> Path:
    """The real metrics-server."""
    return _found(pytestconfig, METRICS_SERVER.packages, METRICS_SERVER)["metrics-server"]


@pytest.fixture(scope="session")
def linters(pytestconfig: pytest.Config) -> dict[str, Path]:
    """Of pipelines and charts."""
    return _found(pytestconfig, LINTERS.packages, LINTERS)


def _found(pytestconfig: pytest.Config, names: Iterable[str], pinned: PinnedSet) -> dict[str, Path]:
    """Builds what is missing with visible progress, in spite of captured output."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    terminal = pytestconfig.pluginmanager.getplugin("terminalreporter")

    def report(line: str) -> None:
        if terminal is None:  # a process beside others has none
            return
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(line)

    try:
        return find_or_build(names, report, pinned)
    except BinariesUnavailableError as unavailable:
        reason = str(unavailable)
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(f"{SKIPPED}: {reason}")


@pytest.fixture(scope="session")
def running_control_plane(binaries: dict[str, Path]) -> Iterator[ControlPlane]:
    """Starts once, since a clean-up is cheaper than a start."""
    with ControlPlane(binaries) as control_plane:
        yield control_plane


@pytest.fixture(scope="module")
def empty_sites(
    running_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    """For a module that builds its sites once; after it, everything is gone."""
    with running_control_plane.prometheus() as prometheus:
        try:
            yield Sites(running_control_plane, prometheus, tmp_path_factory.mktemp("sites"))
        finally:
            running_control_plane.reset()


@pytest.fixture
def control_plane(running_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Gives each test an empty cluster, whatever the test before left behind."""
    yield running_control_plane
    running_control_plane.reset()


@pytest.fixture
def prometheus(control_plane: ControlPlane) -> Iterator[PrometheusServer]:
    """Starts with empty storage, because the windows of queries reach back into other tests."""
    with control_plane.prometheus() as server:
        yield server
