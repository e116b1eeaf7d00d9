"""Fixtures of the tests on real nodes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import (
    METRICS_SERVER,
    NEWEST,
    NODES,
    BinariesUnavailableError,
    find_or_build,
)
from tests.controlplane.cluster import BINARIES
from tests.nodes.lab import Lab
from tests.nodes.machine import SKIPPED, missing
from tests.nodes.story import Story

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Starts once; stories leave nothing but a past in Prometheus."""
    if reason := missing():  # also in CI: hosted runners have cgroups of version 2 alone
        pytest.skip(f"{SKIPPED}: {reason}")
    try:
        binaries = find_or_build(BINARIES, pinned=NEWEST)
        binaries |= find_or_build(pinned=NODES) | find_or_build(pinned=METRICS_SERVER)
    except BinariesUnavailableError as unavailable:
        if os.environ.get("CI") == "true":
            pytest.fail(str(unavailable), pytrace=False)
        pytest.skip(f"{SKIPPED}: {unavailable}")
    with Lab(binaries) as started:
        yield started


@pytest.fixture(scope="module")
def story(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Story]:
    """Named after the file of the tests."""
    name = request.path.stem.removeprefix("test_").replace("_", "-")
    told = Story(lab, tmp_path_factory.mktemp(name), name)
    yield told
    told.end()
