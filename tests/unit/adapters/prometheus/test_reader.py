"""The reader over real HTTP, with a Prometheus that answers each kind of query as told."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.errors import ConfigurationError, ObservationError
from desched.model.cluster import ClusterState
from desched.model.load import (
    ClusterLoad,
    Level,
    LoadProblem,
    Measured,
    PodUsage,
    SeenLoad,
    Unknown,
)
from desched.model.load import UnknownReason as Why
from desched.model.resources import Amounts, Resource
from desched.policy.policy import MetricsSource, Policy, ResourceRule
from tests.unit.adapters.prometheus.fake_server import (
    Asked,
    FakePrometheus,
    Reply,
    matrix,
    refusal,
    vector,
)
from tests.unit.adapters.prometheus.worlds import NOW, cluster, node, pod

CPU, MEMORY, PODS = Resource.CPU, Resource.MEMORY, Resource.PODS
Sample = tuple[Mapping[str, str], float]

WORLD = cluster(node("n-a", "10.0.0.1"), node("n-b"), pods=(pod("apps", "web", "n-a"),))


WEB = {"namespace": "apps", "pod": "web", "node": "n-a", "instance": "10.0.0.1:10250"}


class Answers:
    """Results by kind of query; what is not given is empty."""

    def __init__(self, **results: list[Sample]) -> None:
        self.results = results
        self.more: dict[str, Any] = {}

    def __call__(self, asked: Asked) -> Reply:
        if asked.times:
            return matrix(asked, **self.more)
        return vector(*self.results.get(kind_of(asked.query), []), **self.more)


def kind_of(query: str) -> str:
    """A name for each question that the reader puts."""
    marks = {
        "own": "own_metric",
        "interval": "quantile",
        "covered": "count_over_time",
        "in_use": "Inactive_file",
        "reach": "time() - min_over_time",
        "age": "time() - ",
        "names": "node_uname_info",
        "size": "count without (cpu) (group",
        "quick_size": "count without (cpu, mode)",
        "total": "max without () (node_memory_MemTotal_bytes",
        "least": "min by (node, instance)",
        "cpu": "sum without (cpu, mode)",
        "memory": "1 - (avg_over_time(node_memory_MemAvailable_bytes",
        "root": "machine_",
        "throttled": "_throttled_",
        "pods": "sum by (namespace, pod, node, instance)",
    }
    kind = next(kind for kind, mark in marks.items() if mark in query)
    if "node_memory_" in query:
        kind = {"memory": "memory", "in_use": "in_use"}.get(kind, f"memory_{kind}")
    if "container_memory" in query and kind == "pods":
        kind = "pod_memory"
    if 'id="/"' in query and kind != "root":
        kind = f"root_{kind}"
    return kind


def policy(
    windows: Mapping[Resource, tuple[int, ...]],
    matchers: Mapping[str, str] | None = None,
    queries: Mapping[str, str] | None = None,
) -> Policy:
    rules = tuple(ResourceRule(r, 0.3, 0.8, 0.05, 0.1, w) for r, w in windows.items())
    source = MetricsSource("", matchers or {}, queries or {})
    return Policy("test", "", rules, source)


def read(
    fake: FakePrometheus,
    answers: Answers,
    asked_policy: Policy | None = None,
    world: ClusterState = WORLD,
) -> ClusterLoad:
    fake.answer = answers
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)
    return reader.read_load(world, asked_policy or policy({CPU: (300,)}))


def good(*names: str, **more: list[Sample]) -> Answers:
    """Nodes at half load whose samples are fresh and cover the window."""
    values = {"cpu": 0.5, "age": 20.0, "covered": 10.0}
    half: dict[str, list[Sample]] = {
        key: [({"node": name}, value) for name in names] for key, value in values.items()
    }
    return Answers(**(half | more))


def test_nodes_and_pods_are_measured(fake: FakePrometheus) -> None:
    usage: list[Sample] = [(WEB, 1.25)]

    load = read(fake, good("n-a", "n-b", pods=usage))

    assert load == ClusterLoad(
        nodes={name: {CPU: Measured((Level(300, 0.5),), (0.5,), 0.0)} for name in ("n-a", "n-b")},
        pods={("apps", "web"): PodUsage(cpu_millicores=(1250.0,))},
        server_times=(NOW, NOW),
        seen={name: {CPU: SeenLoad(20.0)} for name in ("n-a", "n-b")},
    )


def test_every_query_is_put_once_whatever_the_number_of_nodes(fake: FakePrometheus) -> None:
    nodes = [f"n-{i}" for i in range(50)]
    both = policy({CPU: (300, 900), MEMORY: (300,)})

    read(fake, good(*nodes), both, cluster(*map(node, nodes)))

    queries = [asked.query for asked in fake.asked if not asked.times]
    assert len(queries) == len(set(queries))
    # CPU: age, three per window, CPUs, kubelets, throttled pods; memory: two ages, pods
    assert len(queries) == 1 + 2 * 3 + 2 + 1 + 2 + 1


def test_the_queries_about_nodes_are_few_requests(fake: FakePrometheus) -> None:
    read(fake, good("n-a"), policy({CPU: (300,), MEMORY: (300,)}))

    # Ages twice, because memory has no source in this world; loads; history; pods by
    # resource; throttling.
    assert fake.requests == 2 + 1 + 1 + 2 + 1


def test_only_resources_with_a_rule_are_asked_for(fake: FakePrometheus) -> None:
    load = read(fake, good("n-a"), policy({MEMORY: (300,), PODS: ()}))

    assert all("cpu" not in asked.query for asked in fake.asked)
    assert {*load.nodes["n-a"]} == {MEMORY}


def test_a_policy_without_measured_resources_asks_nothing(fake: FakePrometheus) -> None:
    load = read(fake, Answers(), policy({PODS: ()}))

    assert fake.asked == []
    assert load.nodes == {"n-a": {}, "n-b": {}}


def test_a_node_without_series_is_absent_and_the_others_are_not(fake: FakePrometheus) -> None:
    load = read(fake, good("n-a"))

    assert load.nodes["n-b"][CPU] == Unknown(
        Why.ABSENT, "no series of node_exporter belongs to this node"
    )
    assert isinstance(load.nodes["n-a"][CPU], Measured)


def test_without_node_exporter_one_more_query_finds_cadvisor(fake: FakePrometheus) -> None:
    labels = {"instance": "n-a"}
    answers = Answers(
        root_age=[(labels, 9.0)], root=[(labels, 0.25)], root_covered=[(labels, 10.0)]
    )

    assert read(fake, answers).nodes["n-a"][CPU] == Measured((Level(300, 0.25),), (0.25,), 0.0)
    assert [kind_of(asked.query) for asked in fake.asked if not asked.times] == [
        "age",
        "root_age",
        "root",
        "root_covered",
        "pods",
        "throttled",
    ]


def test_names_are_queried_only_where_labels_do_not_identify_the_node(fake: FakePrometheus) -> None:
    labels = {"instance": "192.0.2.1:9100"}
    named = {**labels, "nodename": "n-b"}
    answers = Answers(
        cpu=[(labels, 0.5)],
        age=[(labels, 9.0)],
        covered=[(labels, 10.0)],
        names=[(named, 1.0)],
    )

    assert isinstance(read(fake, answers).nodes["n-b"][CPU], Measured)
    assert [kind_of(asked.query) for asked in fake.asked].count("names") == 1
    fake.asked.clear()
    read(fake, good("n-a"))
    assert "names" not in {kind_of(asked.query) for asked in fake.asked}


def test_series_of_unknown_nodes_are_counted_once(fake: FakePrometheus) -> None:
    assert read(fake, good("n-a", "n-x", "n-y")).unresolved_series == 2


def test_a_short_window_names_the_scrape_interval_and_the_way_out(fake: FakePrometheus) -> None:
    answers = Answers(age=[({"node": "n-a"}, 20.0)], interval=[({}, 59.98)])

    assert read(fake, answers, policy({CPU: (30,)})).nodes["n-a"][CPU] == Unknown(
        Why.WINDOW_NOT_COVERED,
        "window 30s is too short for a scrape interval of 60s: set windows to at least 4m",
    )


def test_the_scrape_interval_is_not_asked_while_any_node_is_covered(fake: FakePrometheus) -> None:
    read(fake, good("n-a"))

    assert "interval" not in {kind_of(asked.query) for asked in fake.asked}


def test_a_warning_of_prometheus_is_a_problem(fake: FakePrometheus) -> None:
    answers = good("n-a")
    answers.more = {"warnings": ["store-1 is down"]}

    assert read(fake, answers).problems == (
        (LoadProblem.PARTIAL_DATA, "Prometheus warns: store-1 is down"),
    )


def two_clusters(own: str = "eu", other: str = "us", *, node_there: str = "n-b") -> Answers:
    here, there = {"node": "n-a", "cluster": own}, {"node": node_there, "cluster": other}
    return Answers(
        cpu=[(here, 0.5), (there, 0.5)],
        age=[(here, 9.0), (there, 9.0)],
        covered=[(here, 10.0), (there, 10.0)],
    )


def test_several_clusters_are_a_problem_that_names_the_matcher(fake: FakePrometheus) -> None:
    ((problem, sentence),) = read(fake, two_clusters()).problems

    assert problem is LoadProblem.SEVERAL_CLUSTERS
    assert "2 clusters by the label cluster (eu, us)" in sentence
    assert "add this one to metrics.matchers, as {cluster: eu} or {cluster: us}, and" in sentence


def test_labels_of_series_that_belong_to_no_node_are_not_those_of_a_cluster(
    fake: FakePrometheus,
) -> None:
    load = read(fake, two_clusters(node_there="n-x"))
    assert (load.problems, load.unresolved_series) == ((), 1)


@pytest.mark.parametrize(("nodes", "claimed"), [(3, 1), (20, 2)])
def test_up_to_a_tenth_of_the_nodes_that_series_of_another_cluster_claim_are_unknown_alone(
    fake: FakePrometheus, nodes: int, claimed: int
) -> None:
    names = [f"n-{letter}" for letter in "abcdefghijklmnopqrst"[:nodes]]
    real: list[Mapping[str, str]] = [{"node": name, "cluster": "eu"} for name in names]
    claims = [*real, *({"node": name, "cluster": "evil"} for name in names[-claimed:])]
    answers = Answers(
        cpu=[(labels, 0.5) for labels in claims],
        age=[(labels, 9.0) for labels in claims],
        covered=[(labels, 10.0) for labels in claims],
    )

    load = read(fake, answers, world=cluster(*map(node, names)))

    assert load.problems == ()
    assert isinstance(load.nodes["n-a"][CPU], Measured)
    for name in names[-claimed:]:
        found = load.nodes[name][CPU]
        assert isinstance(found, Unknown)
        assert (found.reason, "eu, evil" in found.detail) == (Why.CONTRADICTORY, True)


def test_a_matcher_for_the_label_settles_it(fake: FakePrometheus) -> None:
    matched = policy({CPU: (300,)}, matchers={"cluster": "~"})

    assert read(fake, two_clusters(), matched).problems == ()


def test_series_without_the_label_of_a_cluster_are_not_those_of_a_cluster(
    fake: FakePrometheus,
) -> None:
    here, there = {"node": "n-a"}, {"node": "n-b", "cluster": "us"}
    answers = Answers(
        cpu=[(here, 0.5), (there, 0.5)],
        age=[(here, 20.0), (there, 20.0)],
        covered=[(here, 10.0), (there, 10.0)],
    )

    ((problem, sentence),) = read(fake, answers).problems

    assert problem is LoadProblem.SEVERAL_CLUSTERS
    assert "2 clusters by the label cluster (us, none)" in sentence
    assert 'as {cluster: ""} or {cluster: us}, and' in sentence


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
def test_a_pod_without_a_proper_number_is_not_measured(fake: FakePrometheus, value: float) -> None:
    usage: list[Sample] = [(WEB, value)]

    assert read(fake, good("n-a", pods=usage)).pods == {}


def test_a_pod_that_is_not_there_any_more_is_left_out(fake: FakePrometheus) -> None:
    usage: list[Sample] = [({**WEB, "pod": "gone"}, 1.0), ({}, 2.0)]

    assert read(fake, good("n-a", pods=usage)).pods == {}


def test_a_pod_that_misses_a_window_is_not_measured_in_that_resource(fake: FakePrometheus) -> None:
    answers = good("n-a", pod_memory=[(WEB, 7.0)])

    def only_the_short_window(asked: Asked) -> Reply:
        if kind_of(asked.query) == "pods":
            return vector((WEB, 1.0)) if "[300s]" in asked.query else vector()
        return answers(asked)

    fake.answer = only_the_short_window
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)
    load = reader.read_load(WORLD, policy({CPU: (300, 900), MEMORY: (300,)}))

    assert load.pods == {("apps", "web"): PodUsage((), (7.0,))}


def test_own_queries_replace_the_built_in_ones(fake: FakePrometheus) -> None:
    own = {"node_cpu": "own_metric[{window}]"}
    answers = good("n-a", "n-b", own=[({"instance": "10.0.0.1:1"}, 0.7)])

    load = read(fake, answers, policy({CPU: (300,)}, queries=own))

    assert load.nodes["n-a"][CPU] == Measured((Level(300, 0.7),), (0.7,))
    assert load.nodes["n-b"][CPU] == Unknown(Why.ABSENT, "the query has no value for the last 5m")
    assert "own_metric[300s]" in {asked.query for asked in fake.asked}
    assert "cpu" not in {kind_of(asked.query) for asked in fake.asked}


def test_an_own_query_that_is_the_same_for_all_windows_is_put_once(fake: FakePrometheus) -> None:
    answers = good("n-a", own=[({"node": "n-a"}, 0.7)])

    load = read(fake, answers, policy({CPU: (300, 900)}, queries={"node_cpu": "own_metric"}))

    assert load.nodes["n-a"][CPU] == Measured((Level(300, 0.7), Level(900, 0.7)), (0.7, 0.7))
    assert [kind_of(a.query) for a in fake.asked if not a.times].count("own") == 1


@pytest.mark.parametrize(
    "labels",
    [
        {"node": "n-b"},
        {"node": "n-b", "instance": "10.0.0.1:10250"},
        {"instance": "n-b"},
        {"instance": "192.0.2.9:10250"},
        {},
    ],
)
def test_a_series_that_does_not_name_the_node_of_its_pod_does_not_count(
    fake: FakePrometheus, labels: Mapping[str, str]
) -> None:
    named = {"namespace": "apps", "pod": "web", **labels}
    answers = good("n-a", pods=[(named, 9.0)], throttled=[(named, 0.5)])
    load = read(fake, answers)
    assert load.pods == {}
    assert load.throttled == frozenset()

    beside = good("n-a", pods=[(WEB, 1.0), (named, 9.0)])
    assert read(fake, beside).pods == {("apps", "web"): PodUsage((1000.0,))}


def test_two_scrapes_of_one_kubelet_agree_or_the_pod_is_not_measured(fake: FakePrometheus) -> None:
    other = {**WEB, "node": "", "instance": "n-a"}
    alike = good("n-a", pods=[(WEB, 1.0), (other, 1.1)])
    assert read(fake, alike).pods == {("apps", "web"): PodUsage((1100.0,))}
    forged = good("n-a", pods=[(WEB, 1.0), (other, 9.0)])
    assert read(fake, forged).pods == {}


def test_the_memory_in_use_bounds_what_pods_may_claim(fake: FakePrometheus) -> None:
    both: list[Sample] = [({"node": name}, value) for name, value in (("n-a", 0.6), ("n-b", 0.5))]
    values: dict[str, list[Sample]] = {
        "memory": both,
        "memory_age": [(labels, 9.0) for labels, _ in both],
        "memory_covered": [(labels, 10.0) for labels, _ in both],
        "in_use": [({"node": "n-a"}, 0.8)],
    }
    nodes = read(fake, Answers(**values), policy({MEMORY: (300,)})).nodes
    assert nodes["n-a"][MEMORY] == Measured((Level(300, 0.6),), (0.8,), 0.0)
    assert nodes["n-b"][MEMORY] == Measured((Level(300, 0.5),), (0.5,), 0.0)

    no_number = Answers(**values | {"in_use": [({"node": "n-a"}, math.nan)]})
    nodes = read(fake, no_number, policy({MEMORY: (300,)})).nodes
    assert nodes["n-a"][MEMORY] == Measured((Level(300, 0.6),), (0.0,), 0.0)


def test_an_own_pod_query_is_in_cores(fake: FakePrometheus) -> None:
    own = {"pod_cpu": "own_metric"}
    answers = good("n-a", own=[({"namespace": "apps", "pod": "web"}, 0.5)])

    load = read(fake, answers, policy({CPU: (300, 900)}, queries=own))

    assert load.pods["apps", "web"].cpu_millicores == (500.0, 500.0)
    assert [kind_of(a.query) for a in fake.asked if not a.times].count("own") == 1


def test_the_times_of_evaluation_are_kept(fake: FakePrometheus) -> None:
    answers = good("n-a")

    def answer(asked: Asked) -> Reply:
        old = kind_of(asked.query) == "cpu"  # as from a cache
        reply = answers(asked)
        return reply._replace(
            body=reply.body.replace(b"1777636800.0", b"1777633200.0") if old else reply.body
        )

    fake.answer = answer
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)

    load = reader.read_load(WORLD, policy({CPU: (300,)}))

    assert load.server_times == (NOW - timedelta(hours=1), NOW)


def test_one_failing_query_fails_the_reading(fake: FakePrometheus) -> None:
    def failing(asked: Asked) -> Reply:
        return (
            refusal(422, error="too many samples") if kind_of(asked.query) == "pods" else vector()
        )

    fake.answer = failing
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)

    with pytest.raises(ObservationError, match="too many samples"):
        reader.read_load(WORLD, policy({CPU: (300,)}))


def test_a_matcher_that_is_no_label_is_refused_before_anything_is_asked(
    fake: FakePrometheus,
) -> None:
    with pytest.raises(ConfigurationError):
        read(fake, Answers(), policy({CPU: (300,)}, matchers={'x="y"} or up{z': "1"}))
    assert fake.asked == []


SIZED = node("n-a", capacity=Amounts(cpu_millicores=4000, memory_bytes=8 * 2**30))


def test_an_exporter_that_reports_other_cpus_than_the_node_has_is_not_believed(
    fake: FakePrometheus,
) -> None:
    for cpus, known in ((4.0, True), (5.0, False), (2.0, False)):
        answers = good("n-a", size=[({"node": "n-a"}, cpus)])
        load = read(fake, answers, world=cluster(SIZED)).nodes["n-a"][CPU]
        assert isinstance(load, Measured) is known, load
        if isinstance(load, Unknown):
            assert load.reason is Why.CONTRADICTORY
            assert f"{cpus:g} cores, its capacity is 4" in load.detail
            assert ("/proc of the host" in load.detail) is (cpus > 4)


def test_the_cpus_of_all_modes_are_counted_in_each_fourth_cycle_and_the_idle_ones_in_others(
    fake: FakePrometheus,
) -> None:
    """A node that was found out stays unknown in between, and CPUs that have been idle suffice."""
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)
    counted, known = [], []
    for all_cpus, idle_cpus in (
        (5.0, 4.0),
        (4.0, 4.0),
        (4.0, 4.0),
        (4.0, 4.0),
        (4.0, 4.0),
        (4.0, 9.0),
    ):
        found: list[list[Sample]] = [[({"node": "n-a"}, n)] for n in (all_cpus, idle_cpus)]
        fake.answer = good("n-a", size=found[0], quick_size=found[1])
        fake.asked.clear()
        load = reader.read_load(cluster(SIZED), policy({CPU: (300,)}))
        known.append(isinstance(load.nodes["n-a"][CPU], Measured))
        asked = [kind_of(a.query) for a in fake.asked]
        counted += [kind for kind in asked if kind.endswith("size")]
    assert counted == ["size", *["quick_size"] * 3, "size", "quick_size"]
    assert known == [False, False, False, False, True, False]


def test_other_exporters_have_all_their_cpus_counted(fake: FakePrometheus) -> None:
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)
    for matchers, cpus, known in (({}, 4.0, True), ({"cluster": "a"}, 5.0, False)):
        fake.answer = good("n-a", size=[({"node": "n-a"}, cpus)])
        load = reader.read_load(cluster(SIZED), policy({CPU: (300,)}, matchers=matchers))
        assert isinstance(load.nodes["n-a"][CPU], Measured) is known


def test_the_kubelets_figure_for_a_node_is_the_least_that_is_reported(fake: FakePrometheus) -> None:
    """Whoever forges a second one cannot raise it; several counters in one add up to too much."""
    for values, ratio in (((1.0,), 0.25), ((1.0, 3.9), 0.25), ((400.0,), 0.0), ((), 0.0)):
        least: list[Sample] = [({"instance": "n-a", "node": ""}, value) for value in values]
        load = read(fake, good("n-a", root_least=least), world=cluster(SIZED))
        found = load.nodes["n-a"][CPU]
        assert isinstance(found, Measured)
        assert found.kubelet_ratio == pytest.approx(ratio)
