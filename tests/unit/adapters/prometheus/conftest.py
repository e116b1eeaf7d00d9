from collections.abc import Iterator

import pytest

from tests.unit.adapters.prometheus.fake_server import FakePrometheus


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with FakePrometheus() as server:
        yield server
