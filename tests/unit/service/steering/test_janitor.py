"""Expired taints go, failures are counted and logged once, and a clean stop clears."""

import threading
from datetime import timedelta

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from desched.errors import ObservationError, ObservationSource
from desched.model.report import Mode, TaintChange
from desched.ports import StandingTaints, SteeringAnswer, TaintRemover
from desched.service.steering.janitor import (
    BUSY_SECONDS,
    IDLE_SECONDS,
    SHORTEST_SECONDS,
    STOPPED,
    Janitor,
)
from desched.service.telemetry.metrics import ServiceMetrics
from tests.builders import NOW
from tests.unit.service.example_reports import REPORT

SOON = NOW + timedelta(seconds=20)
LATER = NOW + timedelta(minutes=10)
LONG_AGO = NOW - timedelta(days=3)
AWAY = ObservationError(ObservationSource.CLUSTER, "The API server is away.")


class Nodes(TaintRemover):
    """Nodes whose taints can be removed, unless the API server refuses it."""

    def __init__(self, refuses=(), now=NOW, **until):
        self.until = dict(until)
        self.refuses = set(refuses)
        self.now = now
        self.error = None
        self.looked = threading.Semaphore(0)
        self.gone = threading.Event()

    def standing(self):
        self.looked.release()
        if self.error is not None:
            raise self.error
        return StandingTaints(dict(self.until), self.now)

    def untaint(self, node, expired_at=None):
        if node in self.refuses:
            return SteeringAnswer(done=False, detail="it may not patch nodes")
        if expired_at is None or self.until[node] <= expired_at:
            self.until.pop(node, None)
            self.gone.set()
        return SteeringAnswer(done=True)


@pytest.fixture
def metrics():
    return ServiceMetrics(Mode.EVICT)


@pytest.fixture
def janitor_of(metrics):
    return lambda nodes, may_act=lambda: True: Janitor(nodes, lambda: NOW, metrics, may_act)


def counted(metrics, name):
    lines = metrics.exposition().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def test_what_has_expired_goes_and_all_else_stays(janitor_of, metrics):
    nodes = Nodes(old=LONG_AGO, now_over=NOW, soon=SOON, later=LATER)
    with capture_logs() as logs:
        assert janitor_of(nodes).look() == 20
    assert set(nodes.until) == {"soon", "later"}
    assert [(line["event"], line["node"]) for line in logs] == [
        ("taint.removed", "now_over"),
        ("taint.removed", "old"),
    ]
    assert counted(metrics, "desched_taints_removed_total") == 2


@pytest.mark.parametrize(
    ("until", "seconds"),
    [
        ({}, IDLE_SECONDS),
        ({"a": LONG_AGO}, IDLE_SECONDS),
        ({"a": SOON, "b": LATER}, 20),
        ({"b": LATER}, BUSY_SECONDS),
        ({"a": NOW + timedelta(milliseconds=1)}, SHORTEST_SECONDS),
    ],
)
def test_the_next_look_is_when_the_next_taint_expires_and_within_a_minute_while_one_stands(
    janitor_of, until, seconds
):
    assert janitor_of(Nodes(**until)).look() == seconds


def test_without_the_servers_time_that_of_this_machine_counts(janitor_of):
    nodes = Nodes(now=None, old=LONG_AGO, later=LATER)
    janitor_of(nodes).look()
    assert set(nodes.until) == {"later"}


def test_a_failure_is_counted_each_time_and_logged_once_until_it_changes(janitor_of, metrics):
    nodes = Nodes(refuses=["a", "b"], a=LONG_AGO, b=LONG_AGO, c=LONG_AGO)
    janitor = janitor_of(nodes)

    def warnings():
        with capture_logs() as logs:
            seconds = janitor.look()
        assert (seconds == BUSY_SECONDS) == bool(nodes.until)
        return [line["why"] for line in logs if line["event"] == "taint.not_removed"]

    assert warnings() == ["a: it may not patch nodes; b: it may not patch nodes"]
    assert warnings() == []
    assert set(nodes.until) == {"a", "b"}
    nodes.error = AWAY
    assert warnings() == ["The API server is away."]
    assert warnings() == []
    nodes.error = None
    nodes.refuses.clear()
    assert warnings() == []
    nodes.until["a"] = LONG_AGO
    nodes.error = AWAY
    assert warnings() == ["The API server is away."]
    assert counted(metrics, "desched_taint_removal_failures_total") == 7


def test_it_looks_at_once_and_a_bug_does_not_end_it(janitor_of, mocker):
    nodes = Nodes(old=LONG_AGO)
    nodes.error = ZeroDivisionError("a bug")
    mocker.patch("desched.service.steering.janitor.BUSY_SECONDS", 0.0)
    with capture_logs() as logs, janitor_of(nodes).at_work():
        assert nodes.looked.acquire(timeout=20)
        nodes.error = None
        assert nodes.gone.wait(timeout=20)
    assert nodes.until == {}
    assert "ZeroDivisionError: a bug" in logs[0]["why"]


def test_it_looks_once_even_if_the_process_ends_at_once(janitor_of):
    nodes = Nodes(old=LONG_AGO)
    with janitor_of(nodes).at_work():
        pass
    assert nodes.until == {}


def cycle(*changes):
    return replace(REPORT, taints=tuple(changes))


def test_a_clean_stop_removes_the_taints_of_this_process_and_no_others(janitor_of):
    nodes = Nodes(kept=LATER, freed=LATER, unsure=LATER, others=LATER)
    janitor = janitor_of(nodes)
    janitor.cycle_completed(
        cycle(
            TaintChange("kept", tainted=True, why="for web-1"),
            TaintChange("freed", tainted=True, why="for web-1"),
            TaintChange("unsure", tainted=True, why="for web-1", done=False, detail="no answer"),
        )
    )
    janitor.cycle_completed(cycle(TaintChange("freed", tainted=False, why="it has settled")))
    with capture_logs() as logs:
        janitor.clear()
    assert set(nodes.until) == {"freed", "others"}
    assert {line["why"] for line in logs} == {STOPPED}


def test_a_replica_that_may_not_act_clears_nothing_that_has_not_expired(janitor_of):
    nodes = Nodes(kept=LATER)
    janitor = janitor_of(nodes, may_act=lambda: False)
    janitor.cycle_completed(cycle(TaintChange("kept", tainted=True, why="for web-1")))
    janitor.clear()
    assert set(nodes.until) == {"kept"}


def test_the_first_failure_ends_the_clearing_because_stopping_must_be_quick(janitor_of, metrics):
    nodes = Nodes(refuses=["a"], a=LATER, b=LATER)
    janitor = janitor_of(nodes)
    janitor.cycle_completed(cycle(*(TaintChange(n, tainted=True, why="") for n in "ab")))
    janitor.clear()
    assert set(nodes.until) == {"a", "b"}
    assert counted(metrics, "desched_taint_removal_failures_total") == 1
