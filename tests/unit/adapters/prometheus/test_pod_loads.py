"""Which pods are asked for and how, over real HTTP."""

import re
from collections.abc import Iterator, Mapping

import pytest
from msgspec.structs import replace

from desched.adapters.prometheus.client import LONGEST_QUERY_CHARACTERS, url_length
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.pod_loads import MOST_REQUESTS
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.model.cluster import ClusterState, Owner
from desched.model.load import ClusterLoad, PodChoice, PodUsage
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource, Policy, ResourceRule
from desched.ports import ChoosePods
from tests.unit.adapters.prometheus.fake_server import (
    Asked,
    FakePrometheus,
    Reply,
    matrix,
    vector,
)
from tests.unit.adapters.prometheus.worlds import cluster, node, pod

CPU, MEMORY = Resource.CPU, Resource.MEMORY
NODES = 100
Labels = Mapping[str, str]
MATCHER = re.compile(r'(node|instance|pod)=~"([^"]*)"')


def labels_of(number: int, *, name: bool = True, instance: bool = True) -> dict[str, str]:
    """The labels of cAdvisor on a node."""
    found = {"node": f"n-{number:03d}"} if name else {}
    return found | ({"instance": f"10.0.0.{number}:10250"} if instance else {})


BY_POD = "namespace, pod, node, instance"


class Pods:
    """One pod per node, of which each uses as many cores and bytes as the number of its node."""

    def __init__(self, count: int = NODES, *, name: bool = True, instance: bool = True) -> None:
        self.labels = [labels_of(i, name=name, instance=instance) for i in range(count)]
        self.world = cluster(
            *(node(f"n-{i:03d}", f"10.0.0.{i}") for i in range(count)),
            pods=tuple(pod("apps", f"p-{i}", f"n-{i:03d}") for i in range(count)),
        )
        self.forged: list[tuple[Labels, float]] = []
        self.kubelets: list[dict[str, str]] | None = None
        self.roots: list[tuple[Labels, float]] = []
        self.labelled = True
        self.only_cgroups: set[int] = set()

    def __call__(self, asked: Asked) -> Reply:
        if asked.times:
            return matrix(asked)
        if "node_memory" in asked.query or "node_cpu" in asked.query or 'id="/"' in asked.query:
            return vector()
        if "throttled" in asked.query:
            return vector(*(s for s in self._pods(asked.query) if s[1] % 2))
        if f"by ({BY_POD}) (" in asked.query:
            return vector(*self._pods(asked.query))
        return vector(*self._of_nodes(asked.query))

    def _of_nodes(self, query: str) -> Iterator[tuple[Labels, float]]:
        matcher = MATCHER.search(query)
        numbered: list[tuple[Labels, float]] = [(x, float(i)) for i, x in enumerate(self.labels)]
        if "machine_memory_bytes" in query and self.kubelets is not None:
            numbered = [(labels, 1.0) for labels in self.kubelets]
        elif "/kubepods" in query:
            numbered = self.roots
        elif "sum without" in query:
            numbered += self.forged
            if ('container!=""' in query) != self.labelled:
                return
        for labels, value in numbered:
            if matcher is None or re.fullmatch(matcher[2], labels.get(matcher[1], "")):
                yield labels, value

    def _pods(self, query: str) -> Iterator[tuple[Labels, float]]:
        matcher = MATCHER.search(query)
        for i, labels in enumerate(self.labels):
            by_cgroup = " or " in query or "container!=" not in query
            if "throttled" not in query and not by_cgroup and i in self.only_cgroups:
                continue
            series = {"namespace": "apps", "pod": self.world.pods[i].name, **labels}
            if matcher is None or re.fullmatch(matcher[2], series.get(matcher[1], "")):
                yield series, float(i)


def policy(*windows: int, own: Mapping[str, str] | None = None) -> Policy:
    rules = tuple(ResourceRule(r, 0.3, 0.8, 0.05, 0.1, windows or (300,)) for r in (CPU, MEMORY))
    return Policy("test", "", rules, MetricsSource("", {}, own or {}))


def read(
    fake: FakePrometheus, pods: Pods, choose: ChoosePods, by: Policy | None = None
) -> ClusterLoad:
    fake.answer = pods
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)
    try:
        return reader.read_load(pods.world, by or policy(), choose)
    finally:
        reader.close()


def on(*numbers: int) -> PodChoice:
    return PodChoice(frozenset(f"n-{number:03d}" for number in numbers))


def sums_of(*numbers: int) -> PodChoice:
    return PodChoice(sums=on(*numbers).nodes)


def queries_of_sums(fake: FakePrometheus) -> list[str]:
    return [a.query for a in fake.asked if a.query.startswith("sum without")]


def of_pods(fake: FakePrometheus) -> list[str]:
    """The queries for the usage of single pods."""
    beginnings = "sum by (namespace, pod", f"max by ({BY_POD}) (deriv", f"max by ({BY_POD}) (avg"
    return [a.query for a in fake.asked if a.query.startswith(beginnings)]


def test_without_a_chosen_node_no_pod_is_asked_for(fake: FakePrometheus) -> None:
    load = read(fake, Pods(), lambda _: PodChoice())

    assert of_pods(fake) == []
    assert not any("throttled" in asked.query for asked in fake.asked)
    assert load.pods == {}
    assert load.pods_of == PodChoice()
    assert load.pod_sums == {}


@pytest.mark.parametrize(
    ("labelled", "label"),
    [(Pods(), "node"), (Pods(name=False), "instance"), (Pods(instance=False), "node")],
)
def test_the_pods_of_chosen_nodes_are_asked_for_by_the_label_that_their_series_have(
    fake: FakePrometheus, labelled: Pods, label: str
) -> None:
    load = read(fake, labelled, lambda _: on(3, 14))

    assert load.pods == {
        ("apps", "p-3"): PodUsage((3000.0,), (3.0,)),
        ("apps", "p-14"): PodUsage((14_000.0,), (14.0,)),
    }
    assert load.pods_of == on(3, 14)
    assert load.throttled == {("apps", "p-3")}
    assert all(f"{label}=~" in query for query in of_pods(fake))


@pytest.mark.parametrize("chosen", [on(3, 14), None])
def test_the_cpu_of_a_young_pod_is_a_mean_over_the_window_and_its_memory_one_over_its_time(
    fake: FakePrometheus, chosen: PodChoice | None
) -> None:
    pods = Pods()
    others = [one for one in pods.world.pods if one.name != "p-3"]
    young = pod("apps", "p-3", "n-003", age_seconds=75)
    pods.world = cluster(*pods.world.nodes, pods=(*others[:3], young, *others[3:]))

    mine = f"sum by ({BY_POD}) (mine[{{window}}])"

    load = read(fake, pods, lambda _: chosen, policy(60, 300))
    own = read(fake, pods, lambda _: chosen, policy(60, 300, own={"pod_cpu": mine}))

    assert load.pods["apps", "p-3"] == PodUsage((3000.0, 750.0), (3.0, 3.0))
    assert load.pods["apps", "p-14"] == PodUsage((14_000.0, 14_000.0), (14.0, 14.0))
    assert own.pods["apps", "p-3"] == PodUsage((3000.0, 3000.0), (3.0, 3.0))


def test_all_pods_are_asked_for_if_their_series_have_no_such_label_in_common(
    fake: FakePrometheus,
) -> None:
    pods = Pods()
    pods.labels = [
        labels_of(i, name=bool(i % 2), instance=not i % 2) for i in range(len(pods.labels))
    ]

    load = read(fake, pods, lambda _: on(3, 14))

    assert load.pods_of is None
    assert len(load.pods) == NODES
    assert not any(MATCHER.search(query) for query in of_pods(fake))


def test_all_pods_are_asked_for_if_most_pods_are_chosen(fake: FakePrometheus) -> None:
    assert read(fake, Pods(), lambda _: on(*range(51))).pods_of is None
    assert read(fake, Pods(), lambda _: on(*range(50))).pods_of == on(*range(50))

    pods = Pods()
    chosen = owned(pods, "web", "web-a", "web-b")
    assert read(fake, pods, lambda _: chosen | on(*range(2, 50))).pods_of is not None
    assert read(fake, pods, lambda _: chosen | on(*range(2, 51))).pods_of is None


def test_what_is_read_may_show_that_further_nodes_are_needed(fake: FakePrometheus) -> None:
    def choose(load: ClusterLoad) -> PodChoice:
        return on(3, 14) if ("apps", "p-3") in load.throttled else on(3)

    load = read(fake, Pods(), choose)

    assert load.pods_of == on(3, 14)
    assert load.pods.keys() == {("apps", "p-3"), ("apps", "p-14")}
    assert len(of_pods(fake)) == 4


def test_a_choice_that_grows_without_end_is_all_pods(fake: FakePrometheus) -> None:
    load = read(fake, Pods(), lambda load: on(*range(len(load.pods) + 1)))

    assert load.pods_of is None


def test_many_nodes_are_asked_for_in_requests_that_fit_into_a_url(fake: FakePrometheus) -> None:
    long = "very-long-name-of-a-machine-in-a-rack"
    pods = Pods(400)
    pods.labels = [{"node": f"{letters(i)}-{long}-{letters(i)}"} for i in range(400)]
    names_ = [labels["node"] for labels in pods.labels]
    pods.world = cluster(
        *map(node, names_), pods=tuple(pod("apps", f"p-{i}", n) for i, n in enumerate(names_))
    )

    some = PodChoice(frozenset(names_[:60]))
    load = read(fake, pods, lambda _: some)
    assert load.pods_of == some
    assert len(load.pods) == 60
    assert all(url_length(query) <= LONGEST_QUERY_CHARACTERS for query in of_pods(fake))
    about_nodes, about_pods = 3, 3  # ages twice and kubelets; CPU, memory and throttling
    assert fake.requests == about_nodes + about_pods

    many = PodChoice(frozenset(names_[:200]))
    before = fake.requests
    load = read(fake, pods, lambda _: many)
    assert load.pods_of == many
    assert len(load.pods) == 200
    assert fake.requests - before <= about_nodes + MOST_REQUESTS

    by = policy(300, 600, 900, 1200, 1500)
    assert read(fake, pods, lambda _: many, by).pods_of is None


def letters(number: int) -> str:
    """Two letters for each number."""
    return chr(97 + number % 26) + chr(97 + number // 26)


def test_what_names_have_in_common_is_written_once(fake: FakePrometheus) -> None:
    read(fake, Pods(), lambda _: on(3, 14))

    found = [MATCHER.findall(query) for query in of_pods(fake)]
    assert found == [[("node", "n-0(03|14)")]] * 2


def test_cgroups_of_pods_are_read_only_where_the_runtime_labels_no_containers(
    fake: FakePrometheus,
) -> None:
    pods = Pods()
    pods.only_cgroups = {3, 5}
    read(fake, pods, lambda _: on(4, 14))
    assert not any('image=""' in query for query in of_pods(fake))
    fake.asked.clear()

    load = read(fake, pods, lambda _: on(3, 14))

    by_cgroup = [MATCHER.findall(query) for query in of_pods(fake) if 'image=""' in query]
    assert by_cgroup == [[("node", "n-003")]] * 2
    assert load.pods == {
        ("apps", "p-3"): PodUsage((3000.0,), (3.0,)),
        ("apps", "p-14"): PodUsage((14_000.0,), (14.0,)),
    }
    assert load.throttled == {("apps", "p-3")}


def test_series_that_a_matcher_selects_besides_are_left_out(fake: FakePrometheus) -> None:
    """A dot in the expression stands for any character, and addresses are not unique."""
    pods = Pods()
    pods.labels = [{"instance": f"10.0.0.{i}:10250"} for i in range(NODES)]
    pods.labels[5] = {"instance": "10.0.0.3:10250", "node": "n-005"}

    load = read(fake, pods, lambda _: on(3))

    assert load.pods == {("apps", "p-3"): PodUsage((3000.0,), (3.0,))}


def owned(pods: Pods, owner: str, *names: str) -> PodChoice:
    """The first pods have these names, and this controller."""
    controller = Owner("ReplicaSet", owner, f"uid-{owner}", "apps/v1")
    changed = [
        replace(one, name=name, owner=controller)
        for one, name in zip(pods.world.pods, names, strict=False)
    ]
    pods.world = replace(pods.world, pods=(*changed, *pods.world.pods[len(changed) :]))
    return PodChoice(controllers=frozenset({("apps", f"uid-{owner}")}))


@pytest.mark.parametrize(
    ("names", "expression"),
    [
        (("web-1-abc", "web-1-xyz"), "web-1-[a-z0-9]+"),
        (("db-0", "db-1"), "db-[a-z0-9]+"),
        (("db-0", "other"), "(db-0|other)"),
    ],
)
def test_the_pods_of_a_controller_are_asked_for_by_their_names(
    fake: FakePrometheus, names: tuple[str, str], expression: str
) -> None:
    pods = Pods()
    chosen = owned(pods, names[0].rpartition("-")[0], *names)

    load = read(fake, pods, lambda _: chosen)

    assert load.pods == {
        ("apps", names[0]): PodUsage((0.0,), (0.0,)),
        ("apps", names[1]): PodUsage((1000.0,), (1.0,)),
    }
    assert load.pods_of == chosen
    assert {found for q in of_pods(fake) for _, found in MATCHER.findall(q)} == {expression}


def test_pods_on_nodes_and_pods_of_controllers_are_asked_for_together(
    fake: FakePrometheus,
) -> None:
    pods = Pods()
    chosen = owned(pods, "web", "web-a", "web-b") | on(7)

    load = read(fake, pods, lambda _: chosen)

    assert load.pods.keys() == {("apps", "web-a"), ("apps", "web-b"), ("apps", "p-7")}
    assert fake.requests == 3 + 1  # ages twice, kubelets; pods


def test_a_pod_of_another_owner_with_such_a_name_is_left_out(fake: FakePrometheus) -> None:
    pods = Pods()
    chosen = owned(pods, "web", "web-a")
    others = [replace(one, name=f"web-{i}") for i, one in enumerate(pods.world.pods[1:])]
    pods.world = replace(pods.world, pods=(pods.world.pods[0], *others))

    assert read(fake, pods, lambda _: chosen).pods.keys() == {("apps", "web-a")}


def test_all_pods_are_asked_for_if_the_names_of_controllers_take_too_many_requests(
    fake: FakePrometheus,
) -> None:
    pods = Pods()
    chosen = PodChoice()
    many = []
    for i, one in enumerate(pods.world.pods[:40]):
        name = f"{letters(i)}-{'long' * 100}-{letters(i)}"
        many.append(replace(one, name=f"{name}-a", owner=Owner("ReplicaSet", name, name)))
        chosen |= PodChoice(controllers=frozenset({("apps", name)}))
    pods.world = replace(pods.world, pods=(*many, *pods.world.pods[40:]))

    load = read(fake, pods, lambda _: chosen)

    assert load.pods_of is None
    assert len(load.pods) == NODES


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_sum_that_is_no_number_shows_that_the_pods_must_be_read(
    fake: FakePrometheus, value: float
) -> None:
    """Beside a sum that is one, and alone."""
    pods = Pods()
    del pods.labels[8]
    pods.forged = [({"node": name}, value) for name in ("n-007", "n-008", "elsewhere")]

    load = read(fake, pods, lambda _: sums_of(*range(NODES)))

    for name in ("n-007", "n-008"):
        assert load.pod_sums[name] == {CPU: (float("inf"),), MEMORY: (float("inf"),)}
    assert len(load.pod_sums) == NODES


def test_several_sums_of_a_node_agree_or_its_pods_must_be_read(fake: FakePrometheus) -> None:
    """They may be two scrapes of one kubelet, one of them forged, or each of some of the pods."""
    pods = Pods()
    pods.forged = [({"instance": "n-007"}, 8.0), ({"node": "n-008"}, 1.0)]

    load = read(fake, pods, lambda _: sums_of(*range(NODES)))

    assert load.pod_sums["n-007"] == {CPU: (8000.0,), MEMORY: (8.0,)}
    assert load.pod_sums["n-008"] == {CPU: (float("inf"),), MEMORY: (float("inf"),)}


def test_pods_are_not_chosen_from_a_query_of_the_user(fake: FakePrometheus) -> None:
    by = policy(own={"pod_cpu": "mine"})

    load = read(fake, Pods(), lambda _: on(3), by)

    assert load.pods_of is None
    assert load.pod_sums == {}
    assert len(load.pods) == NODES


def test_a_cycle_without_overload_takes_few_requests(fake: FakePrometheus) -> None:
    read(fake, Pods(), lambda _: PodChoice())
    assert fake.requests == 2  # ages twice, as there is no node_exporter here


def test_the_sums_of_few_nodes_are_asked_for_by_their_labels(fake: FakePrometheus) -> None:
    pods = Pods()

    load = read(fake, pods, lambda _: sums_of(7, 8))

    assert load.pods == {}
    assert load.pods_of == sums_of(7, 8)
    assert load.pod_sums == {f"n-00{i}": {CPU: (i * 1000.0,), MEMORY: (float(i),)} for i in (7, 8)}
    assert all('node=~"n-00(7|8)"' in query for query in queries_of_sums(fake))


def test_the_sums_of_many_nodes_are_asked_for_without_their_names(fake: FakePrometheus) -> None:
    pods = Pods(500)

    load = read(fake, pods, lambda _: sums_of(*range(300)))

    assert len(load.pod_sums) == 300
    assert not any(MATCHER.search(query) for query in queries_of_sums(fake))


def test_where_the_cgroup_of_all_pods_is_scraped_no_pods_are_added_up(
    fake: FakePrometheus,
) -> None:
    """Also where it is scraped of some nodes only, and without the labels of kubelets."""
    pods = Pods()
    pods.roots = [(labels, 1.0) for labels in pods.labels[:50]]
    pods.kubelets = []

    load = read(fake, pods, lambda _: sums_of(3, 4))

    assert load.pod_sums == {name: {CPU: (1000.0,), MEMORY: (1.0,)} for name in ("n-003", "n-004")}
    assert queries_of_sums(fake) == []

    load = read(fake, pods, lambda _: sums_of(3, 54))

    assert load.pod_sums["n-003"] == {CPU: (1000.0,), MEMORY: (1.0,)}
    assert load.pod_sums["n-054"] == {CPU: (54_000.0,), MEMORY: (54.0,)}


def test_a_cgroup_of_all_pods_that_is_known_for_one_resource_only_is_no_sum(
    fake: FakePrometheus,
) -> None:
    pods = Pods()
    pods.roots = [(labels, 1.0) for labels in pods.labels]

    def answer(asked: Asked) -> Reply:
        known = "container_memory" in asked.query or "/kubepods" not in asked.query
        return pods(asked) if known else vector()

    fake.answer = answer
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)
    load = reader.read_load(pods.world, policy(), lambda _: sums_of(7))
    reader.close()

    assert load.pod_sums == {"n-007": {CPU: (7000.0,), MEMORY: (7.0,)}}


def test_without_labels_of_containers_the_cgroups_of_pods_are_added_up(
    fake: FakePrometheus,
) -> None:
    pods = Pods()
    pods.labelled = False

    assert read(fake, pods, lambda _: sums_of(7)).pod_sums == {
        "n-007": {CPU: (7000.0,), MEMORY: (7.0,)}
    }


@pytest.mark.parametrize("kubelets", [[], [{"node": f"n-{i:03d}"} for i in range(NODES)]])
def test_the_labels_of_nodes_are_learnt_from_pods_if_kubelets_have_none_or_others(
    fake: FakePrometheus, kubelets: list[dict[str, str]]
) -> None:
    pods = Pods(name=False)
    pods.kubelets = kubelets
    ready = tuple(replace(one, ready=True) for one in pods.world.pods)
    pods.world = replace(pods.world, pods=ready)

    load = read(fake, pods, lambda _: on(3))

    assert load.pods.keys() == {("apps", "p-3")}
    assert load.pods_of == on(3)
    learnt = [a.query for a in fake.asked if a.query.startswith("group by (node, instance) (cont")]
    assert len(learnt) == 2


def test_without_pods_nothing_is_asked_for(fake: FakePrometheus) -> None:
    empty = Pods(0)
    empty.world = ClusterState(Pods().world.nodes, ())

    load = read(fake, empty, lambda _: on(0))

    assert load.pods == {}
    assert load.pods_of == on(0)
