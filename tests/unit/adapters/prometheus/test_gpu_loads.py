"""The load of GPUs never touches that of other resources; tests of its queries need Prometheus."""

from collections.abc import Callable, Mapping

import pytest
from msgspec.structs import replace

from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.cycle_queries import CycleQueries
from desched.adapters.prometheus.gpu_loads import read_gpus
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import DCGM_SCOPE
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.model.cluster import Node
from desched.model.load import Level, Measured, Unknown, UnknownReason
from desched.model.resources import Amounts, Resource
from desched.policy.policy import MetricsSource
from tests.unit.adapters.prometheus.fake_server import Asked, FakePrometheus, Reply, refusal, vector
from tests.unit.adapters.prometheus.test_reader import good, policy
from tests.unit.adapters.prometheus.worlds import cluster, node


def with_gpu(name: str, resource: str = "nvidia.com/gpu", **fields: float) -> Node:
    return replace(node(name, **fields), allocatable=Amounts(extended=((resource, 8),)))


def read(
    fake: FakePrometheus, *nodes: Node, sources: Mapping[str, str] | None = None
) -> dict[str, Measured | Unknown]:
    world = cluster(*nodes)
    queries = CycleQueries(PrometheusClient(PrometheusConnection(url=fake.url), lambda _: False))
    return read_gpus(
        queries, NodeIndex(world), MetricsSource("", {}, {}, sources or {}), world, 300
    )


def gpus(
    *of: Mapping[str, str], age: float = 20.0, covered: float = 10.0, load: float = 0.5
) -> Callable[[Asked], Reply]:
    """The answers of an exporter without profiling: it has no DCGM_FI_PROF_GR_ENGINE_ACTIVE."""
    values = {"count_over_time": covered, "time() - ": age, "avg_over_time": load}

    def answer(asked: Asked) -> Reply:
        if "DCGM_FI_DEV_GPU_UTIL" not in asked.query:
            return vector()
        value = next(value for mark, value in values.items() if mark in asked.query)
        return vector(*((labels, value) for labels in of))

    return answer


ONE = {"hostname": "n-a", "UUID": "u0"}
TWO = {"Hostname": "n-a", "UUID": "u1"}


def test_a_cluster_without_gpus_is_asked_nothing(fake: FakePrometheus) -> None:
    assert read(fake, node("n-a"), with_gpu("n-b", "amd.com/gpu")) == {}
    assert fake.asked == []


def test_the_gpus_of_all_nodes_are_one_request(fake: FakePrometheus) -> None:
    fake.answer = gpus(ONE, TWO, {**ONE, "hostname": "n-b"})
    nodes = [with_gpu(name) for name in ("n-a", "n-b")]
    assert read(fake, *nodes) == dict.fromkeys(("n-a", "n-b"), Measured((Level(300, 0.5),)))
    assert fake.requests == 1


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"covered": 7.0}, UnknownReason.WINDOW_NOT_COVERED),
        ({"age": 200.0}, UnknownReason.STALE),
        ({"load": float("nan")}, UnknownReason.NOT_FINITE),
        ({"load": 1.2}, UnknownReason.IMPLAUSIBLE),
    ],
)
def test_the_load_of_gpus_is_trusted_as_any_other(
    fake: FakePrometheus, values: dict[str, float], reason: UnknownReason
) -> None:
    fake.answer = gpus(ONE, **values)
    (found,) = read(fake, with_gpu("n-a")).values()
    assert isinstance(found, Unknown)
    assert found.reason is reason


def test_a_node_that_has_just_come_is_unknown(fake: FakePrometheus) -> None:
    fake.answer = gpus(ONE)
    (found,) = read(fake, with_gpu("n-a", age_seconds=60)).values()
    assert isinstance(found, Unknown)
    assert found.detail == "the node joined 60s ago, within the last 5m"


def test_a_gpu_without_a_load_makes_its_node_unknown(fake: FakePrometheus) -> None:
    both, one = gpus(ONE, TWO), gpus(ONE)
    fake.answer = lambda asked: (one if "avg_over_time" in asked.query else both)(asked)
    (found,) = read(fake, with_gpu("n-a")).values()
    assert isinstance(found, Unknown)


def test_a_policy_names_the_job_of_the_exporter(fake: FakePrometheus) -> None:
    fake.answer = lambda _: vector()
    (found,) = read(fake, with_gpu("n-a"), sources={"node_gpu": 'job="mine"'}).values()
    assert found == Unknown(
        UnknownReason.ABSENT, "no series of DCGM's exporter belongs to this node"
    )
    assert all('job="mine"' in asked.query for asked in fake.asked)
    assert all(DCGM_SCOPE not in asked.query for asked in fake.asked)


@pytest.mark.parametrize("trouble", ["refused", "warned"])
def test_trouble_with_gpus_leaves_the_other_resources_as_they_are(
    fake: FakePrometheus, trouble: str
) -> None:
    others = good("n-a")

    def answer(asked: Asked) -> Reply:
        if "DCGM" not in asked.query:
            return others(asked)
        return refusal(422) if trouble == "refused" else vector(warnings=["partial"])

    fake.answer = answer
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)
    load = reader.read_load(cluster(with_gpu("n-a")), policy({Resource.CPU: (300,)}))
    assert isinstance(load.nodes["n-a"][Resource.CPU], Measured)
    assert load.problems == ()
    assert isinstance(load.gpus["n-a"], Unknown)
