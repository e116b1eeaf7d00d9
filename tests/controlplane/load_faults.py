"""Everything that goes wrong with Prometheus' answers, and what desched does about each."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from functools import cache
from typing import Any

from tests.controlplane import faults
from tests.controlplane.fault_proxy import REFUSED, Answer, Fault
from tests.controlplane.faults import status
from tests.controlplane.load_drill import API_SERVER, PROMETHEUS, QUERY_SECONDS, SKIPPED, Case

HOUR = timedelta(hours=1)
MANY = 100_000

EVERY = ""
QUERY = r"/api/v1/query\?query="
PART = r"(label_replace%28)?"
AGES = QUERY + PART + r"time%28%29\+-\+"
LOADS = QUERY + PART + r"1\+(-|%2F)\+"
PODS = QUERY + PART + r"sum\+by\+%28namespace"
SUMS = QUERY + PART + r"sum\+without"
NODES = r"/api/v1/nodes\?"

Samples = list[Any]


def with_samples(name: str, change: Callable[[Samples], Samples], part: str = "") -> Fault:
    """The samples of an answer, changed; only of some parts if the query has several."""

    def edit(document: Any) -> Any:
        data = document["data"]
        told = [s for s in data["result"] if part in s["metric"].get("desched_part", part)]
        others = [s for s in data["result"] if s not in told]
        return {**document, "data": {**data, "result": [*change(told), *others]}}

    return faults.edited(name, edit)


def with_values(
    name: str, change: Callable[[float, str], tuple[float, str]], part: str = ""
) -> Fault:
    """The time and the value of every sample, changed; of a range, of all its samples."""

    def changed(sample: Any) -> Any:
        if "values" in sample:
            return {**sample, "values": [list(change(*each)) for each in sample["values"]]}
        return {**sample, "value": list(change(*sample["value"]))}

    return with_samples(name, lambda samples: [changed(sample) for sample in samples], part)


def valued(name: str, text: str, part: str = "load") -> Fault:
    """Every sample has this value."""
    return with_values(name, lambda at, _: (at, text), part)


def later(name: str, by: timedelta) -> Fault:
    """Every value is a number of seconds that is larger by so much."""
    return with_values(name, lambda at, value: (at, str(float(value) + by.total_seconds())))


def without_nodes(name: str, lacks: Callable[[str], bool]) -> Fault:
    """No series of these nodes, by the end of their names."""

    def change(samples: Samples) -> Samples:
        return [s for s in samples if not lacks(s["metric"].get("node", "").rpartition("-")[2])]

    return with_samples(name, change)


def with_another_cluster(name: str, own: str) -> Fault:
    """Each series once more, of another cluster; `own` is what the label says of this one."""

    def change(samples: Samples) -> Samples:
        labelled = [_with_cluster(sample, own) for sample in samples] if own else samples
        return [*labelled, *(_with_cluster(sample, "other") for sample in samples)]

    return with_samples(name, change)


def _with_cluster(sample: Any, cluster: str) -> Any:
    return {**sample, "metric": {**sample["metric"], "cluster": cluster}}


@cache
def strangers() -> bytes:
    """A hundred thousand series of nodes that nobody here knows."""
    series = '{"metric":{"node":"x%06d"},"value":[0,"0.5"]}'
    return ",".join([series % number for number in range(MANY)]).encode()


def with_strangers(given: Answer) -> Answer:
    """The answer with them at its end."""
    end = b"]}}"
    body = given.body.rstrip()
    assert body.endswith(end)
    known = body.removesuffix(end)
    comma = b"" if known.endswith(b"[") else b","  # a busy machine may have no samples for a while
    return given._replace(body=b"".join((known, comma, strangers(), end)))


def of_another_time(name: str, by: timedelta) -> Fault:
    """The Date of the answer."""

    def change(given: Answer) -> Answer:
        told: datetime = parsedate_to_datetime(given.headers["Date"])
        return given._replace(
            headers={**given.headers, "Date": format_datetime(told + by, usegmt=True)}
        )

    return faults.changed(name, change)


def document(**fields: Any) -> Answer:
    return Answer(200, {"Content-Type": "application/json"}, json.dumps(fields).encode())


LOGIN = Answer(200, {"Content-Type": "text/html"}, b"<html>Sign in</html>")
ERROR = document(status="error", errorType="timeout", error="query timed out")
EMPTY = document(status="success", data={"resultType": "vector", "result": []})
MATRIX = document(status="success", data={"resultType": "matrix", "result": []})


def named(name: str, fault: Fault) -> Fault:
    """The same with another name."""
    return Fault(name, fault.act)


ONCE = named("status 503, once", status(503))

# Cases


def skipped(fault: Fault, says: str) -> Case:
    """The cycle cannot be decided on."""
    return Case(fault, "every query", EVERY, SKIPPED, (says,))


def held(fault: Fault, of: str, path: str, *says: str, server: str = PROMETHEUS) -> Case:
    """It sees, and must not act; the first word is the reason."""
    return Case(fault, of, path, "held", says, server=server)


def idle(fault: Fault, of: str, path: str, result: str, *says: str) -> Case:
    """There is no eviction that would be right."""
    return Case(fault, of, path, result, says, exit_code=0)


def acting(fault: Fault, of: str, path: str, *says: str, times: int | None = None) -> Case:
    """What it knows is enough for its eviction."""
    return Case(fault, of, path, "not_evicted", says, exit_code=0, acts=True, times=times)


TOO_MANY = "too_many_unknown_nodes"
NO_ANSWER = f"sent no complete answer within {QUERY_SECONDS} s"
NO_RESULTS = "answered with something other than query results"

STRANGERS = acting(
    faults.changed("a hundred thousand series more", with_strangers),
    *("age of samples, usage of pods", f"({AGES}|{PODS}|{SUMS}).*_cpu_"),
)
CASES = [
    skipped(REFUSED, "cannot be reached"),
    skipped(faults.BROKEN_OFF, "broke off its answer"),
    skipped(faults.NEVER, NO_ANSWER),
    skipped(faults.late(QUERY_SECONDS + 1), NO_ANSWER),
    skipped(faults.drip(), NO_ANSWER),
    skipped(status(401), "requires credentials (HTTP 401)"),
    skipped(status(403), "does not permit queries (HTTP 403)"),
    skipped(status(429), "refuses because of too many requests (HTTP 429)"),
    skipped(status(500), "failed (HTTP 500)"),
    skipped(status(503), "failed (HTTP 503)"),
    acting(ONCE, "one query", EVERY, times=1),
    skipped(faults.redirect("/elsewhere"), "redirects elsewhere (HTTP 307)"),
    skipped(faults.answer("login page", LOGIN), NO_RESULTS),
    skipped(faults.MALFORMED, NO_RESULTS),
    skipped(faults.CUT_SHORT, NO_RESULTS),
    skipped(named("null instead of data", faults.nulls("data")), "an error instead of data"),
    skipped(named("null instead of values", faults.nulls("value")), "samples that are not"),
    skipped(
        faults.answer("status 200 with an error in the body", ERROR),
        "answered with an error instead of data: query timed out",
    ),
    skipped(faults.answer("matrix instead of a vector", MATRIX), "answered with a matrix"),
    held(faults.answer("no series", EMPTY), "every query", EVERY, TOO_MANY, "absent"),
    held(
        faults.edited("warnings", lambda given: {**given, "warnings": ["store-1 is down"]}),
        *("every query", EVERY, "partial_data", "Prometheus warns: store-1 is down"),
    ),
    held(
        faults.edited("marked as partial", lambda given: {**given, "isPartial": True}),
        *("every query", EVERY, "partial_data", "the answer is marked as partial"),
    ),
    held(
        without_nodes("no series of most nodes", lambda node: node.startswith("cool")),
        *("every query", EVERY, TOO_MANY, "absent"),
    ),
    idle(
        without_nodes("no series of the hot node", lambda node: node == "hot"),
        *("every query", EVERY, "nothing_to_do", "absent"),
    ),
    acting(
        without_nodes("no series of a cool node", lambda node: node == "cool1"),
        *("every query", EVERY, "absent"),
    ),
    held(valued("NaN", "NaN"), "load of nodes", LOADS, TOO_MANY, "not_finite"),
    held(valued("infinity", "+Inf"), "load of nodes", LOADS, TOO_MANY, "not_finite"),
    held(valued("400 %", "4.0"), "load of nodes", LOADS, TOO_MANY, "implausible"),
    held(later("samples an hour old", HOUR), "age of samples", AGES, TOO_MANY, "stale"),
    held(later("samples an hour ahead", -HOUR), "age of samples", AGES, TOO_MANY, "implausible"),
    held(
        with_values("answer of an hour ago", lambda at, value: (at - 3600, value)),
        *("load of nodes", LOADS, "clocks_differ", "ahead of Prometheus'"),
    ),
    held(
        with_values("clock an hour ahead", lambda at, value: (at + 3600, value)),
        *("every query", EVERY, "clocks_differ", "behind Prometheus'"),
    ),
    held(
        with_another_cluster("series of another cluster", "ours"),
        *("load of nodes", f"{AGES}|{LOADS}", "several_clusters", "(other, ours)"),
    ),
    held(
        with_another_cluster("series of another cluster, its own have no label", ""),
        *("load of nodes", LOADS, "several_clusters", "(other, none)"),
    ),
    acting(
        with_samples("every series twice", lambda samples: samples * 2),
        *("usage of pods", f"{PODS}|{SUMS}"),
    ),
    acting(valued("NaN", "NaN", part=""), "sums of pods", SUMS),
    acting(with_samples("every series twice", lambda samples: samples * 2), "load of nodes", LOADS),
    STRANGERS,
    held(
        of_another_time("clock an hour ahead", HOUR),
        *(f"{API_SERVER}, list of nodes", NODES, "clocks_differ", "behind the API server's"),
        server=API_SERVER,
    ),
    held(
        of_another_time("clock an hour behind", -HOUR),
        *(f"{API_SERVER}, list of nodes", NODES, "clocks_differ", "ahead of the API server's"),
        server=API_SERVER,
    ),
]
