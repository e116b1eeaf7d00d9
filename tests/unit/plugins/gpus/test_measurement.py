"""The load of GPUs never touches that of other resources; tests of its queries need Prometheus."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from desched.adapters.kept_history import KeptTracks, Span
from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.device_loads import DeviceLoads
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.model.cluster import ClusterState, Node, Pod
from desched.model.load import (
    ClusterLoad,
    DeviceUsage,
    Level,
    Measured,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Amounts, Resource
from desched.plugins import HOUSE
from desched.plugins.gpus.dcgm import DCGM_SCOPE
from desched.plugins.gpus.load import GpuLoad
from desched.plugins.gpus.measurement import GPU_COUNT_LABEL
from desched.policy.policy import MetricsSource, Policy
from tests.unit.adapters.prometheus.fake_server import (
    EVALUATED_AT,
    Asked,
    FakePrometheus,
    Reply,
    matrix,
    refusal,
    vector,
)
from tests.unit.adapters.prometheus.test_reader import good, policy
from tests.unit.adapters.prometheus.worlds import cluster, node, pod


def by_windows(windows: Mapping[Resource, tuple[int, ...]]) -> Policy:
    return replace(policy(windows), plugins=HOUSE)


POLICY_WITHOUT = by_windows({Resource.CPU: (300,)})
WATCHED = by_windows({Resource.CPU: (300,), Resource.GPU: (300, 600)})


def with_gpu(name: str, resource: str = "nvidia.com/gpu", **fields: float) -> Node:
    return replace(node(name, **fields), allocatable=Amounts(extended=((resource, 8),)))


def read_of(fake: FakePrometheus, world: ClusterState, by: Policy) -> ClusterLoad:
    nodes: dict[str, dict[Resource, Measured | Unknown]] = {node.name: {} for node in world.nodes}
    return loads_of(fake, world, by, {}).added_to(ClusterLoad(nodes, {}), world)


def loads_of(
    fake: FakePrometheus, world: ClusterState, by: Policy, kept: dict[Resource, KeptTracks]
) -> DeviceLoads:
    client = PrometheusClient(PrometheusConnection(url=fake.url), lambda _: False)
    return DeviceLoads(client, NodeIndex(world), by, kept)


def gpus_of(load: ClusterLoad) -> Mapping[str, Measured | Unknown]:
    return GpuLoad.of(load.extras).nodes


def read(
    fake: FakePrometheus, *nodes: Node, sources: Mapping[str, str] | None = None
) -> Mapping[str, Measured | Unknown]:
    source = MetricsSource("", {}, {}, sources or {})
    by = replace(POLICY_WITHOUT, metrics=source)
    return gpus_of(read_of(fake, cluster(*nodes), by))


def gpus(
    *of: Mapping[str, str],
    age: float = 20.0,
    covered: float = 10.0,
    load: float = 0.5,
    apart: float = 0.0,
    warnings: Sequence[str] = (),
) -> Callable[[Asked], Reply]:
    """The answers of an exporter without profiling: it has no DCGM_FI_PROF_GR_ENGINE_ACTIVE."""
    values = {
        "min by": apart,
        "count_over_time": covered,
        "time() - ": age,
        "avg_over_time": load,
    }

    def answer(asked: Asked) -> Reply:
        if "DCGM_FI_DEV_GPU_UTIL" not in asked.query:
            return vector()
        value = next(value for mark, value in values.items() if mark in asked.query)
        return vector(*((labels, value) for labels in of), warnings=[*warnings])

    return answer


ONE = {"hostname": "n-a", "UUID": "u0"}
TWO = {"Hostname": "n-a", "UUID": "u1"}


def test_a_cluster_without_gpus_is_asked_nothing(fake: FakePrometheus) -> None:
    assert read(fake, node("n-a"), with_gpu("n-b", "amd.com/gpu")) == {}
    assert fake.asked == []


def test_the_gpus_of_all_nodes_are_one_request(fake: FakePrometheus) -> None:
    fake.answer = gpus(ONE, TWO, {**ONE, "hostname": "n-b"})
    nodes = [with_gpu(name) for name in ("n-a", "n-b")]
    assert read(fake, *nodes) == {
        "n-a": Measured((Level(300, 0.5),), devices=2),
        "n-b": Measured((Level(300, 0.5),), devices=1),
    }
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
    fake: FakePrometheus, values: Mapping[str, Any], reason: UnknownReason
) -> None:
    fake.answer = gpus(ONE, **values)
    (found,) = read(fake, with_gpu("n-a")).values()
    assert isinstance(found, Unknown)
    assert found.reason is reason


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
    others, warned = good("n-a"), gpus(ONE, warnings=["partial"])

    def answer(asked: Asked) -> Reply:
        if "DCGM" not in asked.query:
            return others(asked)
        return refusal(422) if trouble == "refused" else warned(asked)

    fake.answer = answer
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)
    load = reader.read_load(cluster(with_gpu("n-a")), POLICY_WITHOUT)
    assert isinstance(load.nodes["n-a"][Resource.CPU], Measured)
    assert load.problems == ()
    assert isinstance(gpus_of(load)["n-a"], Unknown)


def used_by(*pods: str, gpu: Mapping[str, str] = ONE) -> list[Mapping[str, str]]:
    return [{**gpu, "namespace": "a", "pod": name} for name in pods]


def shared(
    users: list[Mapping[str, str]], *of: Mapping[str, str], share: float = 0.25
) -> Callable[[Asked], Reply]:
    """The answers about GPUs whose users each have this share."""
    whole = gpus(*(of or (ONE,)))

    def answer(asked: Asked) -> Reply:
        if "exported_pod" not in asked.query:
            return whole(asked)
        is_asked = "DCGM_FI_DEV_GPU_UTIL" in asked.query
        return vector(*((labels, share) for labels in users if is_asked))

    return answer


@pytest.mark.parametrize(("apart", "known"), [(0.01, True), (0.7, False)])
def test_series_that_differ_about_a_gpu_are_not_all_of_its_exporter(
    fake: FakePrometheus, apart: float, *, known: bool
) -> None:
    """Whoever may replace labels adds one that is busier, and the busiest would count."""
    agreeing, differing = shared(used_by("one", "two")), gpus(ONE, apart=apart)
    fake.answer = lambda asked: (differing if "min by" in asked.query else agreeing)(asked)
    found = gpus_of(read_of(fake, cluster(with_gpu("n-a")), WATCHED))["n-a"]
    assert isinstance(found, Measured) is known


def user(name: str) -> Pod:
    one = pod("a", name, "n-a")
    requests = Amounts(extended=(("nvidia.com/gpu", 1),))
    return replace(one, scheduling=replace(one.scheduling, requests=requests))


def usages(
    fake: FakePrometheus,
    answer: Callable[[Asked], Reply],
    *pods: Pod,
) -> Mapping[str, DeviceUsage]:
    fake.answer = answer
    load = read_of(fake, cluster(with_gpu("n-a"), pods=pods), WATCHED)
    return GpuLoad.of(load.extras).usages.get("a", {})


def test_pods_of_one_gpu_share_it_and_the_others_have_theirs_alone(fake: FakePrometheus) -> None:
    second = {**ONE, "UUID": "u1"}
    users = [*used_by("web", "other"), *used_by("web", gpu=second)]
    both = DeviceUsage((0.25, 0.25), (0.25, 0.25))
    other = DeviceUsage((0.25, 0.25), (0.0, 0.0))
    found = usages(
        fake, shared(users, ONE, second), user("web"), user("other"), pod("a", "x", "n-a")
    )
    assert found == {"web": both, "other": other}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(shared(used_by("web")), id="a pod is not named"),
        pytest.param(shared(used_by("web", "other"), share=-0.1), id="negative"),
        pytest.param(shared(used_by("web", "other"), share=float("nan")), id="no number"),
        pytest.param(
            shared(used_by("web", "other"), ONE, {**ONE, "instance": "second"}),
            id="two exporters of one GPU",
        ),
        pytest.param(
            shared(
                [
                    *used_by("web", "other"),
                    {**ONE, "exported_namespace": "a", "exported_pod": "web", "pod": "exporter"},
                ]
            ),
            id="two series of one pod",
        ),
    ],
)
def test_nothing_is_known_of_any_pod_of_a_node_if_one_is_in_doubt(
    fake: FakePrometheus, answer: Callable[[Asked], Reply]
) -> None:
    assert usages(fake, answer, user("web"), user("other")) == {}


def test_gpus_are_a_resource_of_nodes_that_offer_more_than_they_have(
    fake: FakePrometheus,
) -> None:
    fake.answer = shared(used_by("web"))
    half = Measured((Level(300, 0.5), Level(600, 0.5)), devices=1)
    for offered, judged in ((1, {}), (2, {Resource.GPU: half})):
        one = replace(node("n-a"), allocatable=Amounts(extended=(("nvidia.com/gpu", offered),)))
        load = read_of(fake, cluster(one), WATCHED)
        assert (load.nodes["n-a"], gpus_of(load)["n-a"]) == (judged, half)


@pytest.mark.parametrize("label", ["cluster", "instance"])
def test_gpus_that_several_exporters_report_are_unknown(fake: FakePrometheus, label: str) -> None:
    """One of them may be a stranger's, which could make the node seem overloaded."""
    fake.answer = shared([], {**ONE, label: "one"}, {**ONE, "UUID": "u1", label: "two"})
    found = gpus_of(read_of(fake, cluster(with_gpu("n-a")), WATCHED))["n-a"]
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.CONTRADICTORY


@pytest.mark.parametrize(("count", "known"), [("2", True), ("1", False), ("", True), ("٢", True)])
def test_more_gpus_than_the_node_has_are_a_contradiction(
    fake: FakePrometheus, count: str, *, known: bool
) -> None:
    """Forged with all labels of the node's own exporter, which `honor_labels` allows."""
    forged = {"hostname": "n-a", "UUID": "forged"}
    fake.answer = shared([], ONE, {**ONE, "GPU_I_ID": "1"}, forged)
    labelled = replace(with_gpu("n-a"), labels={GPU_COUNT_LABEL: count})
    found = gpus_of(read_of(fake, cluster(labelled), WATCHED))["n-a"]
    assert isinstance(found, Measured) is known
    if isinstance(found, Unknown):
        assert found.reason is UnknownReason.CONTRADICTORY
        assert "2 GPUs are reported" in found.detail


def test_pods_of_other_nodes_use_none_of_its_gpus(fake: FakePrometheus) -> None:
    """An exporter that names others' pods neither charges them nor takes from those it hides."""
    elsewhere = {**ONE, "namespace": "b", "pod": "elsewhere"}
    found = usages(fake, shared([*used_by("web", "other"), elsewhere]), user("web"), user("other"))
    assert set(found) == {"web", "other"}


def test_a_policy_without_gpus_asks_nothing_about_pods_and_the_past(fake: FakePrometheus) -> None:
    fake.answer = gpus(ONE)
    read(fake, with_gpu("n-a"))
    assert fake.requests == 1
    assert "group_left" not in fake.asked[0].query
    by = POLICY_WITHOUT
    loads = loads_of(fake, cluster(with_gpu("n-a")), by, {})
    loads.added_to(ClusterLoad({"n-a": {}}, {}), cluster(with_gpu("n-a")))
    assert loads.history(Span.before(EVALUATED_AT, by.history)) == {}
    assert fake.requests == 2


@pytest.mark.parametrize("trouble", ["refused", "warned"])
def test_without_the_past_of_gpus_their_load_is_not_known_to_last(
    fake: FakePrometheus, trouble: str
) -> None:
    fake.answer = shared(used_by("web"))
    world = cluster(with_gpu("n-a"))
    loads = loads_of(fake, world, WATCHED, {})
    loads.added_to(ClusterLoad({"n-a": {}}, {}), world)
    past = ({"node": "n-a"}, [0.25] * 37)
    fake.answer = lambda asked: (
        refusal(422) if trouble == "refused" else matrix(asked, past, warnings=["partial"])
    )
    span = Span.before(EVALUATED_AT, WATCHED.history)
    assert loads.history(span) == {}


def test_the_past_of_gpus_is_kept_as_that_of_nodes(fake: FakePrometheus) -> None:
    world = cluster(with_gpu("n-a"))
    span = Span.before(EVALUATED_AT, WATCHED.history)
    kept: dict[Resource, KeptTracks] = {}
    for asked_points in (37, 0):
        fake.answer = shared(used_by("web"))
        loads = loads_of(fake, world, WATCHED, kept)
        load = loads.added_to(ClusterLoad({"n-a": {}}, {}), world)
        fake.answer = lambda asked: matrix(asked, ({"node": "n-a"}, [0.25] * 37))
        fake.asked.clear()
        found = loads.history(span)[Resource.GPU]["n-a"]
        assert sum(len(asked.times) for asked in fake.asked) == asked_points
        assert found.ratios[:37] == (0.25,) * 37
        gpus_now = gpus_of(load)["n-a"]
        assert isinstance(gpus_now, Measured)
        assert found.ratios[37] == gpus_now.levels[0].ratio
