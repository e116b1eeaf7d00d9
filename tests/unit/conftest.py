from collections.abc import Iterator

import pytest

from tests.unit.adapters.kubernetes.fake_api_server import FakeApiServer


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    """The API server of the cluster; what it answers is up to the test."""
    with FakeApiServer() as fake:
        yield fake
