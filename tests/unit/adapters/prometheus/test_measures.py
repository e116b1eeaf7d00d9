"""What is found out about each measure, over real HTTP."""

import msgspec
import pytest

from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.errors import ObservationError
from desched.model.cluster import ClusterState, Owner
from desched.model.load import Measured, Unknown
from desched.model.measures import LabelGroup, MeasureFacts, MetricsFacts
from desched.model.resources import Resource
from desched.policy.policy import Policy
from tests.unit.adapters.prometheus import worlds
from tests.unit.adapters.prometheus.fake_server import Asked, FakePrometheus, Reply, refusal, vector
from tests.unit.adapters.prometheus.test_reader import WEB, WORLD, Sample, kind_of, policy

CPU, MEMORY = Resource.CPU, Resource.MEMORY


class Answers:
    """Results by kind of query, also of those that only a person asks; others are empty."""

    def __init__(self, **results: list[Sample] | Reply) -> None:
        self.results = results

    def __call__(self, asked: Asked) -> Reply:
        found = self.results.get(self._kind(asked.query), [])
        return found if isinstance(found, Reply) else vector(*found)

    def _kind(self, query: str) -> str:
        if query == "vector(1)":
            return "alive"
        if query.startswith("count by (mode)"):
            return "modes"
        if query.startswith("k8s_"):
            return "own"
        if query.startswith("count by"):
            return "sightings" if "group by" in query else "elsewhere"
        return kind_of(query)


def look(
    fake: FakePrometheus,
    answers: Answers,
    by: Policy | None = None,
    world: ClusterState = WORLD,
) -> MetricsFacts:
    fake.answer = answers
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)
    return reader.read_metrics(world, by or policy({CPU: (300,)}))


def nodes(**by_name: float) -> list[Sample]:
    return [({"node": name.replace("_", "-")}, value) for name, value in by_name.items()]


def good(**more: list[Sample] | Reply) -> Answers:
    """Both nodes at a known load, and one pod."""
    both: dict[str, list[Sample] | Reply] = {
        "cpu": nodes(n_a=0.25, n_b=0.75),
        "age": nodes(n_a=20, n_b=40),
        "covered": nodes(n_a=10, n_b=10),
        "interval": [({}, 30.0)],
        "pods": [(WEB, 0.5)],
    }
    return Answers(**(both | more))


def measure(facts: MetricsFacts, name: str) -> MeasureFacts:
    (found,) = (one for one in facts.measures if one.name == name)
    return found


def test_services_that_the_policy_would_have_to_name_are_found_by_the_nodes_they_claim(
    fake: FakePrometheus,
) -> None:
    mine = {"job": "kubernetes-service-endpoints", "namespace": "mon", "service": "exporter"}
    evil = {**mine, "namespace": "evil"}
    claims: list[Sample] = [
        ({**mine, "node": "n-a", "instance": "192.0.2.1:9100"}, 0.25),
        ({**mine, "node": "n-b", "instance": "192.0.2.2:9100"}, 0.25),
        ({**evil, "node": "n-a", "instance": "192.0.2.3:9100"}, 0.99),
        ({**evil, "node": "n-a", "instance": "192.0.2.4:9100"}, 0.99),
        ({**evil, "node": "unknown", "instance": "192.0.2.5:9100"}, 0.99),
    ]
    facts = look(fake, Answers(cpu=claims, age=claims))
    assert measure(facts, "node_cpu").services == (LabelGroup(mine, 2), LabelGroup(evil, 1))
    assert not measure(look(fake, good()), "node_cpu").services


def test_a_measured_resource_of_nodes_is_described(fake: FakePrometheus) -> None:
    found = measure(look(fake, good()), "node_cpu")

    assert (found.source, found.series, found.measured) == ("node_exporter", 2, 2)
    assert found.labels == ("node",)
    assert found.matched == {"the label node": 2}
    assert found.oldest_age_seconds == 40
    assert found.interval_seconds == 30
    assert (found.lowest, found.highest) == (0.25, 0.75)
    assert all(isinstance(load, Measured) for load in found.loads.values())


def test_a_measured_resource_of_pods_is_described(fake: FakePrometheus) -> None:
    stranger: Sample = ({**WEB, "pod": "stranger"}, 1.0)
    elsewhere: Sample = ({**WEB, "node": "n-b"}, 1.0)

    found = measure(look(fake, good(pods=[(WEB, 0.5), stranger, elsewhere])), "pod_cpu")

    assert (found.source, found.series, found.measured, found.unmatched) == ("cAdvisor", 3, 1, 2)
    assert found.matched == {"namespace and pod": 1}
    assert found.examples == (
        "there is no pod apps/stranger",
        'node="n-b", instance="10.0.0.1:10250" does not name the node that apps/web is on',
    )
    assert found.highest == 1.0


@pytest.mark.parametrize(
    ("kept", "missing"),
    [
        (["idle"], ("iowait", "steal", "user", "nice", "system", "irq", "softirq")),
        (["idle", "iowait", "steal", "user", "nice", "system", "irq", "softirq"], ()),
        ([], ()),
    ],
)
def test_modes_of_cpu_time_that_are_not_kept_are_named(
    fake: FakePrometheus, kept: list[str], missing: tuple[str, ...]
) -> None:
    facts = look(fake, Answers(modes=[({"mode": mode}, 8.0) for mode in kept]))
    assert measure(facts, "node_cpu").missing_modes == missing
    assert measure(facts, "pod_cpu").missing_modes == ()


def test_series_of_no_node_are_explained(fake: FakePrometheus) -> None:
    foreign: Sample = ({"instance": "10.9.9.9:9100"}, 0.5)

    found = measure(look(fake, good(cpu=[*nodes(n_a=0.5), foreign])), "node_cpu")

    assert found.unmatched == 1
    assert found.examples == ('instance="10.9.9.9:9100" is no name or address of a node',)
    assert isinstance(found.loads["n-b"], Unknown)


def test_a_window_that_is_too_short_is_named(fake: FakePrometheus) -> None:
    facts = look(fake, good(covered=nodes(n_a=3, n_b=3), interval=[({}, 120.0)]))
    assert measure(facts, "node_cpu").short_windows == (
        "window 5m is too short for a scrape interval of 120s: set windows to at least 8m",
    )


def test_an_error_of_one_measure_does_not_hide_the_others(fake: FakePrometheus) -> None:
    failing = good(pods=refusal(422, error="too many samples"))

    facts = look(fake, failing)

    assert "too many samples" in measure(facts, "pod_cpu").problem
    assert measure(facts, "node_cpu").measured == 2


def test_where_nothing_is_found_it_is_said_what_is_left_out(fake: FakePrometheus) -> None:
    others: list[Sample] = [({"job": "few"}, 8.0), ({"job": "mine", "cluster": "eu"}, 16.0)]

    facts = look(fake, Answers(elsewhere=others))

    for name in ("node_cpu", "pod_cpu"):
        assert measure(facts, name).elsewhere == (
            LabelGroup({"job": "mine", "cluster": "eu"}, 16),
            LabelGroup({"job": "few"}, 8),
        )


def test_a_young_prometheus_has_no_other_exporters(fake: FakePrometheus) -> None:
    """It has the usual ones, of which one sample gives no rate yet."""
    others: list[Sample] = [({"job": "node-exporter"}, 8.0)]
    young = Answers(age=nodes(n_a=20, n_b=40), reach=[({}, 40.0)], elsewhere=others)

    facts = look(fake, young)

    for name in ("node_cpu", "pod_cpu"):
        assert measure(facts, name).reach_seconds == 40
        assert not measure(facts, name).elsewhere


def test_samples_that_reach_back_a_whole_window_are_not_young(fake: FakePrometheus) -> None:
    old = Answers(age=nodes(n_a=20), reach=[({}, 296.0)], elsewhere=[({"job": "mine"}, 8.0)])
    found = measure(look(fake, old), "node_cpu")
    assert found.reach_seconds is None
    assert found.elsewhere


@pytest.mark.parametrize(
    ("measured", "metric"),
    [
        ("node_cpu", "node_cpu_"),
        ("pod_cpu", 'container_cpu_usage_seconds_total{pod!=""}'),
        ("pod_memory", 'container_memory_working_set_bytes{pod!=""}'),
    ],
)
def test_other_exporters_are_looked_for_without_matchers(
    fake: FakePrometheus, measured: str, metric: str
) -> None:
    """Series of pods by pods, because many stacks drop the root cgroup."""
    look(fake, Answers(), policy({CPU: (300,), MEMORY: (300,)}, matchers={"region": "eu"}))

    asked = [each.query for each in fake.asked if each.query.startswith("count by (job")]
    assert [query for query in asked if metric in query], measured
    assert all("region" in query and "eu" not in query and "job=" not in query for query in asked)


def test_an_own_query_has_no_elsewhere(fake: FakePrometheus) -> None:
    own = policy({CPU: (300,)}, queries={"node_cpu": "own_metric[{window}]"})

    found = measure(look(fake, Answers(elsewhere=[({"job": "mine"}, 1.0)]), own), "node_cpu")

    assert found.own_query
    assert not found.elsewhere


def test_only_measured_resources_are_looked_at(fake: FakePrometheus) -> None:
    facts = look(fake, good(), policy({MEMORY: (300,), Resource.PODS: ()}))
    assert [one.name for one in facts.measures] == ["node_memory", "pod_memory"]


def replicas(*names: str) -> ClusterState:
    owner = Owner("ReplicaSet", "web", "uid")
    pods = (msgspec.structs.replace(worlds.pod("apps", n, "n-a"), owner=owner) for n in names)
    return worlds.cluster(*WORLD.nodes, pods=tuple(pods))


def test_some_pods_show_whose_data_it_is(fake: FakePrometheus) -> None:
    ours: list[Sample] = [({"cluster": "eu"}, 2.0)]

    facts = look(fake, good(sightings=ours), world=replicas("web-1", "web.2"))

    assert facts.sampled == 2
    assert facts.sightings == (LabelGroup({"cluster": "eu"}, 2),)
    (query,) = (asked.query for asked in fake.asked if "group by" in asked.query)
    assert 'pod=~"web-1|web[.]2"' in query


def test_pods_are_seen_also_by_their_cgroups(fake: FakePrometheus) -> None:
    look(fake, good(), world=replicas("web-1"))
    (query,) = (
        a.query for a in fake.asked if a.query.startswith("count by") and "web-1" in a.query
    )
    assert "container" not in query.replace("container_memory_working_set_bytes", "")


def test_pods_are_seen_by_own_queries_if_cycles_use_no_others(fake: FakePrometheus) -> None:
    own = policy(
        {CPU: (300,), MEMORY: (300,)},
        {"cluster": "eu"},
        {"pod_cpu": "k8s_pod_cpu_usage", "pod_memory": "k8s_pod_memory"},
    )
    seen: list[Sample] = [({**WEB, "pod": name}, 0.5) for name in ("web-1", "stranger")]
    answers = good()
    answers.results["own"] = [*seen, ({"pod": "web-1"}, 0.5)]
    facts = look(fake, answers, own, replicas("web-1", "web-2"))
    assert facts.sightings == (LabelGroup({"cluster": "eu"}, 1),)
    answers.results["own"] = []
    assert look(fake, answers, own, replicas("web-1")).sightings == ()


def test_at_most_twenty_pods_are_sampled(fake: FakePrometheus) -> None:
    world = replicas(*(f"web-{number:03}" for number in range(170)))

    assert look(fake, good(), world=world).sampled == 20


def test_without_an_answer_about_pods_whose_data_it_is_stays_unknown(fake: FakePrometheus) -> None:
    facts = look(fake, good(sightings=refusal(503)), world=replicas("web-1"))
    assert facts.sightings is None


def test_labels_of_clusters_are_collected(fake: FakePrometheus) -> None:
    values: list[Sample] = [
        ({"node": "n-a", "cluster": "eu"}, 0.5),
        ({"node": "n-b", "cluster": "us"}, 0.5),
    ]
    found = look(fake, good(cpu=values, age=values, covered=values))
    assert found.cluster_values == {"cluster": ("eu", "us")}


def test_without_any_answer_there_is_nothing_to_say(fake: FakePrometheus) -> None:
    with pytest.raises(ObservationError, match="credentials"):
        look(fake, Answers(alive=refusal(401)))
    assert {asked.query for asked in fake.asked} == {"vector(1)"}
