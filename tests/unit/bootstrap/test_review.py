"""`desched report` and `desched history`, to the request."""

import base64
import io
from datetime import timedelta

import pytest

from desched.bootstrap.review import (
    Asked,
    length_of,
    read_history,
    read_review,
    write_history,
    write_review,
)
from desched.errors import ConfigurationError, ObservationError
from desched.history.stored import encode_logbook
from tests.unit.adapters.kubernetes.fake_api_server import Reply
from tests.unit.bootstrap.test_commands import server, settings  # noqa: F401  (fixtures)
from tests.unit.example_logbook import dry_run, logbook

WEEK = timedelta(days=7)
PACKED, _ = encode_logbook(logbook(*(dry_run(i * 36) for i in range(30))))


def config_map(**more):
    return Reply(body={"kind": "ConfigMap", "metadata": {"resourceVersion": "1"}} | more)


@pytest.fixture
def stored(server):  # noqa: F811  (a fixture)
    """A logbook of four days in the cluster, with an eviction every three hours."""
    text = base64.b64encode(PACKED).decode()
    server.answer = lambda _: config_map(binaryData={"logbook": text})
    return server


def test_the_report_is_read_where_the_service_keeps_its_logbook(stored, settings):  # noqa: F811
    found = read_review(settings, WEEK, io.StringIO())
    out = io.StringIO()
    write_review(found, settings, out)

    assert [request.path for request in stored.requests] == [
        "/api/v1/namespaces/desched-system/configmaps/desched-logbook"
    ]
    assert found.evictions == 30
    assert "30 evictions would have begun" in out.getvalue()


@pytest.mark.usefixtures("stored")
def test_the_time_counts_back_from_the_newest_cycle(settings):  # noqa: F811
    assert read_review(settings, timedelta(hours=15), io.StringIO()).cycles == 6


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Asked(WEEK), 30),
        (Asked(timedelta(hours=15)), 6),
        (Asked(WEEK, node="te3"), 30),
        (Asked(WEEK, node="te9"), 0),
        (Asked(WEEK, workload="shop/web"), 30),
        (Asked(WEEK, workload="Deployment shop/web"), 30),
        (Asked(WEEK, workload="shop/we"), 0),
    ],
)
def test_the_history_may_be_of_one_node_or_workload(
    settings,  # noqa: F811
    asked,
    expected,
):
    moves = read_history(settings, asked, io.StringIO())
    out = io.StringIO()
    write_history(moves, settings, out)

    assert len(moves) == expected
    assert out.getvalue().count("dry run") == expected


def test_without_a_logbook_it_says_what_to_do(server, settings):  # noqa: F811
    server.answer = lambda _: config_map()
    with pytest.raises(ObservationError, match="one outside only with --logbook"):
        read_review(settings, WEEK, io.StringIO())
    server.answer = lambda _: config_map(binaryData={"logbook": "AAAA"})
    with pytest.raises(ObservationError, match="it is damaged"):
        read_review(settings, WEEK, io.StringIO())


@pytest.mark.parametrize("text", ["0s", "8d", "yesterday", "-1d"])
def test_a_time_that_is_not_kept_is_refused(text):
    with pytest.raises(ConfigurationError, match="--since"):
        length_of(text)


def test_a_week_is_kept():
    assert length_of("7d") == WEEK
