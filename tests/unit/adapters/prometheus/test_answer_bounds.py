"""Every part of an answer has a bound, and reading it has the deadline of the query."""

import json
import time
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest

from desched.adapters.bounded_http import Deadline
from desched.adapters.prometheus import client as client_module
from desched.adapters.prometheus.client import (
    LONGEST_NUMBER,
    LONGEST_TEXT_BYTES,
    Answer,
    PrometheusClient,
    Samples,
)
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.errors import AnswerTooLarge, ObservationError
from tests.unit.adapters.prometheus.fake_server import FakePrometheus, Reply, vector

BEGIN, END, STEP = 1000, 1900, 100
LONG = LONGEST_TEXT_BYTES + 1
TOO_LONG_A_NUMBER = "1" * (LONGEST_NUMBER + 1)
MIB = 2**20


def client(fake: FakePrometheus) -> PrometheusClient:
    return PrometheusClient(PrometheusConnection(url=fake.url), lambda _: False)


def samples(fake: FakePrometheus) -> Answer[Samples]:
    return client(fake).query_samples("up", BEGIN, END, STEP)


def grids(fake: FakePrometheus) -> Answer[Any]:
    return client(fake).query_range("up", datetime.fromtimestamp(END, UTC), 9, STEP)


def ranges(*series: dict[str, Any]) -> Reply:
    data = {"resultType": "matrix", "result": series}
    return Reply(json.dumps({"status": "success", "data": data}).encode())


@pytest.mark.parametrize("of", ["warnings", "infos"])
def test_megabytes_of_warnings_take_little_time_and_memory(fake: FakePrometheus, of: str) -> None:
    texts = ["w" * 8] * MIB  # 12 MiB; before, they took minutes
    fake.replies(vector(({}, 1.0), **{of: texts}))
    body_bytes = len(json.dumps(texts))

    tracemalloc.start()
    began = time.process_time()
    answer = client(fake).query("up")
    took_seconds, (_, peak_bytes) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert answer.warnings == (f"texts of {body_bytes >> 10} KiB",)
    assert took_seconds < 5
    assert peak_bytes < 8 * body_bytes


def test_of_many_warnings_the_first_are_kept(fake: FakePrometheus) -> None:
    fake.replies(vector(({}, 1.0), warnings=[f"store {i} is gone" for i in range(50)]))

    warnings = client(fake).query("up").warnings

    assert warnings[:2] == ("store 0 is gone", "store 1 is gone")
    assert (len(warnings), warnings[-1]) == (21, "30 more")


@pytest.mark.parametrize("of", ["status", "error", "message"])
def test_a_text_that_is_too_long_is_not_read(fake: FakePrometheus, of: str) -> None:
    fake.replies(Reply(json.dumps({"status": "error", of: "é" * LONG}).encode(), 422))

    with pytest.raises(ObservationError) as raised:
        client(fake).query("up")

    assert "HTTP 422" in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("text", [None, 5, {"code": 5}])
def test_an_error_of_another_form_does_not_hide_the_status(
    fake: FakePrometheus, text: object
) -> None:
    fake.replies(Reply(json.dumps({"status": "error", "error": text}).encode(), 403))

    with pytest.raises(ObservationError, match="does not permit queries"):
        client(fake).query("up")


def test_a_type_of_another_form_is_an_error(fake: FakePrometheus) -> None:
    data = {"resultType": "v" * LONG, "result": []}
    fake.replies(Reply(json.dumps({"status": "success", "data": data}).encode()))

    with pytest.raises(ObservationError, match="answered with a a text of 64 KiB"):
        client(fake).query("up")


def test_a_number_that_is_too_long_is_not_read(fake: FakePrometheus) -> None:
    data = {"resultType": "vector", "result": [{"metric": {}, "value": [1.0, TOO_LONG_A_NUMBER]}]}
    fake.replies(Reply(json.dumps({"status": "success", "data": data}).encode()))

    with pytest.raises(ObservationError, match="not understood"):
        client(fake).query("up")


@pytest.mark.parametrize("read", [samples, grids])
@pytest.mark.parametrize(
    "series",
    [
        {"metric": {}, "values": [[1000, TOO_LONG_A_NUMBER]]},
        {"metric": {}, "values": [[1000, "1"]] * 11},  # of ten times
        {"metric": {"node": "n" * LONG}, "values": [[1000, "1"]]},
    ],
)
def test_a_series_that_is_too_long_is_not_read(
    fake: FakePrometheus, series: dict[str, Any], read: Any
) -> None:
    fake.replies(ranges(series))

    with pytest.raises(ObservationError, match="not understood"):
        read(fake)


@pytest.mark.parametrize("read", [samples, grids])
def test_a_series_may_have_a_sample_for_each_time(fake: FakePrometheus, read: Any) -> None:
    fake.replies(ranges({"metric": {}, "values": [[BEGIN + i * STEP, "1"] for i in range(10)]}))

    assert len(read(fake).series) == 1


def test_megabytes_of_one_number_take_no_memory_for_each_other(fake: FakePrometheus) -> None:
    values = [[BEGIN + i * STEP, "1"] for i in range(9)]
    fake.replies(ranges({"metric": {}, "values": [*values, [END, "1" * 4 * MIB]]}))

    tracemalloc.start()
    with pytest.raises(ObservationError, match="not understood"):
        samples(fake)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 10 * 4 * MIB  # before, each number took as much as the longest


def test_labels_of_pods_are_bounded(fake: FakePrometheus) -> None:
    fake.replies(vector(({"pod": "p" * LONG}, 1.0)))

    with pytest.raises(ObservationError, match="not understood"):
        client(fake).query_pods("up")


def test_too_many_series_are_too_large(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MOST_SERIES", 3)
    fake.replies(vector(*[({}, 1.0)] * 3))
    assert len(client(fake).query("up").series) == 3

    fake.replies(vector(*[({}, 1.0)] * 4))
    with pytest.raises(AnswerTooLarge, match="more than 3 series; narrow"):
        client(fake).query("up")


def test_deep_nesting_is_no_answer(fake: FakePrometheus) -> None:
    result = "[" * 100_000
    fake.replies(Reply(f'{{"status":"success","data":{{"result":{result}'.encode()))

    with pytest.raises(ObservationError, match="other than query results"):
        client(fake).query("up")


class Over(Deadline):
    """A deadline that has passed when the answer is there."""

    def __init__(self, _: float) -> None:
        super().__init__(-1.0)


@pytest.mark.parametrize("read", [samples, lambda fake: client(fake).query("up")])
def test_reading_an_answer_ends_with_the_deadline_of_its_query(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch, read: Any
) -> None:
    monkeypatch.setattr(client_module, "Deadline", Over)
    fake.replies(ranges({"metric": {}}) if read is samples else vector(({}, 1.0)))

    with pytest.raises(ObservationError, match="no complete answer within 30 s"):
        read(fake)
