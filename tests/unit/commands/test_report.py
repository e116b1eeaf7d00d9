"""`desched report` and `desched history`, to the request."""

import base64
import json

import pytest

from desched.errors import ConfigurationError, ObservationError
from desched.history.stored import encode_logbook
from tests.unit.adapters.kubernetes.fake_api_server import Reply
from tests.unit.example_logbook import dry_run, logbook

PACKED, _ = encode_logbook(logbook(*(dry_run(i * 36) for i in range(30))))


def config_map(**more):
    return Reply(body={"kind": "ConfigMap", "metadata": {"resourceVersion": "1"}} | more)


@pytest.fixture
def stored(server):
    """A logbook of four days in the cluster, with an eviction every three hours."""
    text = base64.b64encode(PACKED).decode()
    server.answer = lambda _: config_map(binaryData={"logbook": text})
    return server


def test_the_report_is_read_where_the_service_keeps_its_logbook(stored, run):
    assert "30 evictions would have begun" in run("report")
    assert [request.path for request in stored.requests] == [
        "/api/v1/namespaces/desched-system/configmaps/desched-logbook"
    ]


@pytest.mark.usefixtures("stored")
def test_the_time_counts_back_from_the_newest_cycle(run):
    assert json.loads(run("report", {"since": "15h"}, output="json"))["cycles"] == 6


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, 30),
        ({"since": "15h"}, 6),
        ({"node": "te3"}, 30),
        ({"node": "te9"}, 0),
        ({"workload": "shop/web"}, 30),
        ({"workload": "Deployment shop/web"}, 30),
        ({"workload": "shop/we"}, 0),
    ],
)
def test_the_history_may_be_of_one_node_or_workload(run, flags, expected):
    assert run("history", flags).count("dry run") == expected


def test_without_a_logbook_it_says_what_to_do(server, run):
    server.answer = lambda _: config_map()
    with pytest.raises(ObservationError, match="one outside only with --logbook"):
        run("report")
    server.answer = lambda _: config_map(binaryData={"logbook": "AAAA"})
    with pytest.raises(ObservationError, match="it is damaged"):
        run("report")


@pytest.mark.parametrize("text", ["0s", "8d", "yesterday", "-1d"])
@pytest.mark.parametrize("command", ["report", "history"])
def test_a_time_that_is_not_kept_is_refused(run, command, text):
    with pytest.raises(ConfigurationError, match="--since"):
        run(command, {"since": text})
