"""Pod usage, measured and expected, at the boundaries of windows."""

from datetime import timedelta

import pytest

from desched.model.cluster import Pod
from desched.model.resources import Resource
from desched.planning.overload.pod_usage import UsageBook
from tests.builders import NOW, amounts, load, node, pod, policy, snapshot

WINDOW = timedelta(seconds=300)
MOMENT = timedelta(seconds=1)


def book(*pods: Pod, cpu: float = 0.5) -> UsageBook:
    """Every pod is measured at half a core."""
    usage = dict.fromkeys((p.name for p in pods), (0.5, 0.1))
    return UsageBook(snapshot([node("n")], pods, load({"n": (cpu, 0.1)}, usage)), policy(), NOW)


def started(age: timedelta, name: str = "p", of: str | None = None) -> Pod:
    return pod(name, on="n", of=of, started_at=NOW - age, request=amounts(0.25, 0.1))


@pytest.mark.parametrize(("cpu", "expected"), [(0.949, 500.0), (0.95, 750.0)])
def test_usage_hides_demand_from_nineteen_twentieths_of_the_nodes_cpu_on(
    cpu: float, expected: float
) -> None:
    one = started(2 * WINDOW)
    assert book(one, cpu=cpu).demand(one, Resource.CPU) == expected


@pytest.mark.parametrize(
    ("age", "expected"), [(WINDOW / 5 - MOMENT, 250.0), (WINDOW / 5, 2500.0), (WINDOW, 500.0)]
)
def test_a_young_pod_is_measured_from_a_fifth_of_the_window_on(
    age: timedelta, expected: float
) -> None:
    one = started(age)
    assert book(one).expected(one, Resource.CPU) == expected


@pytest.mark.parametrize(("age", "expected"), [(WINDOW - MOMENT, 250.0), (WINDOW, 500.0)])
def test_a_sibling_counts_once_the_window_has_fully_seen_it(
    age: timedelta, expected: float
) -> None:
    new = started(timedelta(0), "new", "web")
    assert book(new, started(age, "sibling", "web")).expected(new, Resource.CPU) == expected


@pytest.mark.parametrize(("age", "young"), [(WINDOW - MOMENT, True), (WINDOW, False)])
def test_a_pod_is_young_until_the_longest_window_has_fully_seen_it(
    age: timedelta, *, young: bool
) -> None:
    assert ("n" in book(started(age)).young_by_node) is young


def test_a_finished_pod_is_not_young() -> None:
    ended = pod("p", on="n", started_at=NOW, phase="Succeeded")
    assert book(ended).young_by_node == {}


def test_the_present_has_seen_every_pod() -> None:
    one = started(timedelta(0))
    assert book(one).seen_share(one, 0) == 1.0


def test_usage_of_devices_that_no_plugin_measures_is_unknown_not_zero() -> None:
    one = started(2 * WINDOW)
    without = UsageBook(book(one).snapshot, policy(plugins=()), NOW)
    assert without.measured(one, Resource.GPU) == ()
    assert without.relief(one, Resource.GPU) == ()
