"""Whatever Prometheus answers, what comes of it is a load within its bounds or one error."""

import json
import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings

from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.errors import ObservationError
from desched.model.load import ClusterLoad, Measured, PodChoice
from desched.model.resources import Resource
from desched.policy.policy import ResourceRule
from tests.builders import policy
from tests.properties.mutations import STEERING_TEXTS, mutated
from tests.properties.outputs import harmless
from tests.unit.adapters.prometheus.fake_server import EVALUATED_AT, Asked, FakePrometheus, Reply
from tests.unit.adapters.prometheus.worlds import cluster, node, pod

WORLD = cluster(node("te1", "10.0.0.1"), node("te2"), pods=(pod("shop", "web-1", "te1"),))
BY = policy(
    ResourceRule(Resource.CPU, 0.3, 0.8, 0.05, 0.1, (300,)),
    ResourceRule(Resource.MEMORY, 0.3, 0.8, 0.05, 0.1, (300, 900)),
)
CHOICE = PodChoice(frozenset({"te1"}), pasts=frozenset({"te1", "te2"}))
LABELS = (
    {"node": "te1", "instance": "10.0.0.1:9100", "cluster": "eu", "nodename": "te1"},
    {"instance": "te2", "cluster": "eu"},
    {"namespace": "shop", "pod": "web-1", "node": "te1"},
)


def document(value: str = "0.5", at: float = EVALUATED_AT) -> Any:
    """An answer to every question, as good as one can be that does not look at the question."""
    result = [{"metric": labels, "value": [at, value]} for labels in LABELS]
    return {
        "status": "success",
        "warnings": [],
        "infos": ["PromQL info: none"],
        "isPartial": False,
        "data": {"resultType": "vector", "result": result},
    }


def as_range(answer: Any, asked: Asked) -> Any:
    """The same for a range query, as far as it still looks like an answer."""
    found = json.loads(json.dumps(answer))
    try:
        data = found["data"]
        if data["resultType"] == "vector":
            data["resultType"] = "matrix"
        for series in data["result"]:
            at, value = series.pop("value")
            series["values"] = [[time, value] for time in asked.times] if at else []
    except (TypeError, KeyError, ValueError, AttributeError):
        return found
    return found


@pytest.fixture(scope="module")
def prometheus() -> Iterator[FakePrometheus]:
    with FakePrometheus() as fake:
        yield fake


def read(prometheus: FakePrometheus, answer: Any) -> ClusterLoad:
    def reply(asked: Asked) -> Reply:
        is_range = asked.path.endswith("query_range")
        return Reply(json.dumps(as_range(answer, asked) if is_range else answer).encode())

    prometheus.answer = reply
    reader = PrometheusLoadReader(PrometheusConnection(url=prometheus.url), lambda _: False)
    try:
        return reader.read_load(WORLD, BY, lambda _: CHOICE)
    finally:
        reader.close()


def outcome(prometheus: FakePrometheus, answer: Any) -> tuple[ClusterLoad, str]:
    """The load, or an empty one and why there is none."""
    try:
        return read(prometheus, answer), ""
    except ObservationError as error:
        return ClusterLoad({}, {}), str(error)


def test_the_answer_as_it_is_gives_a_load(prometheus: FakePrometheus) -> None:
    # Of the freshness, the answer "0.5" says half a second, and of the coverage too little.
    found = read(prometheus, document("9"))
    assert set(found.nodes) == {"te1", "te2"}
    assert found.pods
    assert found.pod_pasts.keys() == {("shop", "web-1")}


def test_a_number_of_thousands_of_digits_is_not_understood(prometheus: FakePrometheus) -> None:
    body = json.dumps(document(at=7)).replace("[7,", f"[{'9' * 5000},").encode()
    prometheus.answer = lambda _: Reply(body)
    reader = PrometheusLoadReader(PrometheusConnection(url=prometheus.url), lambda _: False)
    with pytest.raises(ObservationError, match="not understood"):
        reader.read_load(WORLD, BY)
    reader.close()


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated(document()))
@example(document("NaN"))
@example(document("1e999"))
@example(document("-Inf"))
@example(document("1_0"))
@example(document("1e307"))
@example(document(at=1e308))
@example(document(at=-62135596800))
@example(document(at=253402300799))
@example(document(at=2**53))
@example({**document(), "warnings": [text * 999 for text in STEERING_TEXTS]})
@example({**document(), "data": {"resultType": "vector"}})
@example({**document(), "data": {"resultType": "vector", "result": None}})
@example({"status": "error", "error": STEERING_TEXTS[0] * 999})
def test_any_answer_gives_a_load_within_bounds_or_an_error_in_plain_words(
    prometheus: FakePrometheus, answer: Any
) -> None:
    load, problem = outcome(prometheus, answer)
    harmless(problem)
    assert len(problem) < 1000
    for measured in chain.from_iterable(each.values() for each in load.nodes.values()):
        if isinstance(measured, Measured):
            assert all(0 <= level.ratio <= 1 for level in measured.levels)
    for used in load.pods.values():
        assert all(math.isfinite(v) and v >= 0 for v in used.cpu_millicores + used.memory_bytes)
    for past in load.pod_pasts.values():
        points = past.cpu_millicores + past.memory_bytes
        assert all(v is None or (math.isfinite(v) and v >= 0) for v in points)
    for history in chain.from_iterable(each.values() for each in load.history.values()):
        assert all(r is None or 0 <= r <= 1 for r in history.ratios)
    for _, sentence in load.problems:
        assert len(sentence) < 1000
    assert msgspec.json.encode(load.problems)
