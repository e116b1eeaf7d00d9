"""Exporters of strangers beside those of nodes, or in their place: what they can change."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from desched.model.cluster import HostPort, SchedulingClass
from desched.model.load import Measured, Unknown, UnknownReason
from desched.model.resources import Amounts, Resource
from tests.unit.adapters.prometheus.fake_server import FakePrometheus
from tests.unit.adapters.prometheus.test_reader import Answers, good, policy, read
from tests.unit.adapters.prometheus.worlds import cluster, node, pod

CPU, MEMORY = Resource.CPU, Resource.MEMORY
JOB = "kubernetes-service-endpoints"
MINE = {"job": JOB, "namespace": "monitoring", "instance": "10.0.0.1:9100"}
EVIL = {"job": JOB, "namespace": "evil", "instance": "10.0.0.1:9101", "pod": ""}
HOST_PORTS = SchedulingClass(Amounts(), host_ports=(HostPort(9100),))
WORLD = cluster(
    node("n-a", "10.0.0.1"),
    node("n-b"),
    pods=(
        replace(pod("monitoring", "exporter", "n-a"), scheduling=HOST_PORTS),
        replace(
            pod("evil", "exporter", "n-a"),
            scheduling=SchedulingClass(Amounts(), host_ports=(HostPort(9101), HostPort(9102))),
        ),
    ),
)


def reported(*loads: tuple[Mapping[str, str], float]) -> Answers:
    """Series of several exporters with these loads, and that of another node."""
    other = {"node": "n-b"}
    return Answers(
        cpu=[*loads, (other, 0.5)],
        age=[*((labels, 20.0) for labels, _ in loads), (other, 20.0)],
        covered=[*((labels, 10.0) for labels, _ in loads), (other, 10.0)],
    )


@pytest.mark.parametrize("fake_load", [0.741, 0.9, 0.1])
def test_a_fake_that_differs_by_more_than_three_points_makes_the_node_alone_unknown(
    fake: FakePrometheus, fake_load: float
) -> None:
    nodes = read(fake, reported((MINE, 0.71), (EVIL, fake_load)), world=WORLD).nodes
    found = nodes["n-a"][CPU]
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.CONTRADICTORY
    assert isinstance(nodes["n-b"][CPU], Measured)


def test_a_fake_within_three_points_of_the_true_load_raises_it_by_no_more(
    fake: FakePrometheus,
) -> None:
    """It takes `hostPort`, which the Pod Security Standard `baseline` forbids."""
    for fake_load, seen in ((0.739, 0.739), (0.681, 0.71)):
        load = read(fake, reported((MINE, 0.71), (EVIL, fake_load)), world=WORLD)
        found = load.nodes["n-a"][CPU]
        assert isinstance(found, Measured)
        assert found.levels[0].ratio == seen


def test_two_fakes_that_agree_do_not_outvote_the_exporter_of_the_node(
    fake: FakePrometheus,
) -> None:
    second = EVIL | {"instance": "10.0.0.1:9102"}
    answers = reported((MINE, 0.3), (EVIL, 0.95), (second, 0.95))
    nodes = read(fake, answers, world=WORLD).nodes
    assert isinstance(nodes["n-a"][CPU], Unknown)
    assert isinstance(nodes["n-b"][CPU], Measured)


def test_two_fakes_that_the_policy_does_not_name_change_nothing(fake: FakePrometheus) -> None:
    """They are no ports of the node, as those of a Service are not."""
    fakes = [EVIL | {"instance": f"192.0.2.{i}:9100", "node": "n-a"} for i in (1, 2)]
    answers = reported((MINE, 0.3), *((each, 0.95) for each in fakes))
    load = read(fake, answers, world=WORLD)
    found = load.nodes["n-a"][CPU]
    assert isinstance(found, Measured)
    assert found.levels[0].ratio == 0.3
    assert load.unresolved_series == 2


@pytest.mark.parametrize(
    ("total", "known"), [(8.0, True), (7.3, True), (16.0, False), (4.0, False)]
)
def test_an_exporter_with_another_memory_than_the_node_has_is_not_believed(
    fake: FakePrometheus, total: float, *, known: bool
) -> None:
    sized = node("n-a", capacity=Amounts(cpu_millicores=4000, memory_bytes=8 * 2**30))
    answers = good("n-a", memory_total=[({"node": "n-a"}, total * 2**30)])
    labels: list[tuple[Mapping[str, str], float]] = [({"node": "n-a"}, 0.9)]
    answers.results |= {"memory": labels, "memory_age": [({"node": "n-a"}, 20.0)]}
    answers.results |= {"memory_covered": [({"node": "n-a"}, 10.0)]}
    load = read(fake, answers, policy({MEMORY: (300,)}), cluster(sized)).nodes["n-a"][MEMORY]
    assert isinstance(load, Measured) is known, load
    if isinstance(load, Unknown):
        assert load.reason is UnknownReason.CONTRADICTORY
        assert "bytes of memory" in load.detail
