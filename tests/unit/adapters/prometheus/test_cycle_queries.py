"""Which queries go into one request, and how their answers are told apart."""

from collections.abc import Iterator

import pytest

from desched.adapters.prometheus.client import (
    LONGEST_QUERY_CHARACTERS,
    PrometheusClient,
    url_length,
)
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query, requests_for
from desched.errors import ObservationError
from desched.promql.sources import SEPARATOR
from tests.unit.adapters.prometheus.fake_server import (
    Asked,
    FakePrometheus,
    Reply,
    matrix,
    refusal,
    vector,
)


@pytest.fixture
def queries(fake: FakePrometheus) -> Iterator[CycleQueries]:
    client = PrometheusClient(PrometheusConnection(url=fake.url), lambda _: False)
    yield CycleQueries(client)
    client.close()


def echo(asked: Asked) -> Reply:
    """A series that has the query as a label."""
    labels = {"asked": asked.query}
    return matrix(asked, (labels, [1.0] * len(asked.times))) if asked.times else vector((labels, 1))


def test_small_queries_are_one_request(fake: FakePrometheus, queries: CycleQueries) -> None:
    fake.answer = echo

    found = queries.vectors({"a": Query("up"), "b": Query("x or y")})

    assert fake.requests == 1
    assert {name: [s.labels for s in series] for name, series in found.items()} == {
        "a": [{"asked": "up"}],
        "b": [{"asked": "x or y"}],
    }


def test_ranges_are_one_request_as_well(fake: FakePrometheus, queries: CycleQueries) -> None:
    fake.answer = echo
    queries.vector("up")

    found = queries.grids({"a": Query("up"), "b": Query("down")}, 2, 60)

    assert fake.requests == 2
    assert [grid.labels for grid in found["b"]] == [{"asked": "down"}]


def test_a_request_is_never_too_long_for_a_url(fake: FakePrometheus, queries: CycleQueries) -> None:
    fake.answer = echo
    long = {f"q{i}": Query(f"m{i}" + " + m" * 200) for i in range(20)}

    found = queries.vectors(long)

    assert all(len(series) == 1 for series in found.values())
    characters = sum(len(query.promql) for query in long.values())
    assert characters / LONGEST_QUERY_CHARACTERS < fake.requests < 10


def test_a_query_that_is_too_long_by_itself_is_refused(queries: CycleQueries) -> None:
    with pytest.raises(ObservationError, match="recording rule"):
        queries.vectors({"a": Query("up"), "b": Query("up" + " or up" * 1000)})


def test_queries_share_a_request_up_to_the_limit_and_not_beyond() -> None:
    shortest = {"a": Query("x"), "b": Query("y")}
    ((together, _),) = requests_for(shortest)
    room = LONGEST_QUERY_CHARACTERS - url_length(together + SEPARATOR)
    for longer, requests in ((0, 1), (1, 2)):
        parts = {"a": Query("x" * (room + 1 + longer)), "b": Query("y")}
        assert len(requests_for(parts)) == requests


def test_a_query_of_the_user_is_put_alone_and_once(
    fake: FakePrometheus, queries: CycleQueries
) -> None:
    fake.answer = lambda asked: refusal(400) if "or own" in asked.query else echo(asked)
    own = Query("own", alone=True)

    found = queries.vectors({"a": Query("up"), "b": own, "c": own, "d": Query("down")})

    assert fake.requests == 2
    assert found["b"] == found["c"]
    assert [s.labels for s in found["d"]] == [{"asked": "down"}]


def test_a_series_without_the_label_of_a_part_counts_nowhere(
    fake: FakePrometheus, queries: CycleQueries
) -> None:
    """As from a proxy that drops or changes labels."""
    fake.takes_apart = False
    fake.replies(vector(({"node": "n-a"}, 1.0), ({"node": "n-b", "desched_part": "x"}, 1.0)))

    assert queries.vectors({"a": Query("up"), "b": Query("down")}) == {"a": [], "b": []}


def test_one_part_that_fails_fails_all(fake: FakePrometheus, queries: CycleQueries) -> None:
    fake.answer = lambda asked: refusal(422, error="limit") if asked.query == "b" else echo(asked)

    with pytest.raises(ObservationError, match="limit"):
        queries.vectors({"a": Query("a"), "b": Query("b")})
