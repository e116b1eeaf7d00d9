"""The past of pods over real HTTP: whose series count, and what is asked for."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from desched.adapters.kept_history import FORGOTTEN_AFTER_CYCLES, MOST_GONE_PODS
from desched.adapters.prometheus import pod_pasts
from desched.adapters.prometheus.client import (
    LONGEST_QUERY_CHARACTERS,
    PrometheusClient,
    url_length,
)
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.errors import AnswerTooSlow, ObservationSource
from desched.model.cluster import ClusterState, Pod
from desched.model.load import ClusterLoad, PodChoice, PodPast
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource, Policy, ResourceRule
from desched.ports import ChoosePods
from tests.unit.adapters.prometheus.fake_server import (
    EVALUATED_AT,
    Asked,
    FakePrometheus,
    Reply,
    matrix,
    refusal,
    vector,
)
from tests.unit.adapters.prometheus.test_history import at_time
from tests.unit.adapters.prometheus.worlds import cluster, node, pod

CPU, MEMORY = Resource.CPU, Resource.MEMORY
FIRST_AT = EVALUATED_AT + 100
MATCHER = re.compile(r'(node|instance)=~"([^"]*)"')
Labels = Mapping[str, str]
Row = tuple[Labels, list[float | None]]
NODES = 10


def slowly(at: float, place: int) -> float:
    """Cores that change by less than 0.02 in a minute."""
    return place + 0.5 + 0.4 * math.sin(at / 1500 + place)


def series_of(name: str, on: int, namespace: str = "apps") -> dict[str, str]:
    """The labels of a pod's series."""
    where = {"node": f"n-{on}", "instance": f"10.0.0.{on}:10250"}
    return {"namespace": namespace, "pod": name, **where}


class World:
    """One pod per node; its cores move, and its memory is a thousand times as many bytes."""

    def __init__(self) -> None:
        self.pods: tuple[Pod, ...] = tuple(pod("apps", f"p-{i}", f"n-{i}") for i in range(NODES))
        self.series = {f"p-{i}": [series_of(f"p-{i}", i)] for i in range(NODES)}
        self.factors: dict[str, Sequence[float]] = {}
        self.until: dict[str, float] = {}
        self.now = FIRST_AT
        self.only_cgroups: set[str] = set()
        self.hidden: set[str] = set()
        self.silent_machines = False
        self.warnings: list[str] = []

    @property
    def cluster(self) -> ClusterState:
        names = (f"n-{i}" for i in range(NODES))
        return cluster(*(node(name, f"10.0.0.{name[2:]}") for name in names), pods=self.pods)

    def __call__(self, asked: Asked) -> Reply:
        times = asked.times or (self.now,)
        rows = list(self._rows(asked.query, times))
        if asked.times:
            return matrix(asked, *rows, warnings=self.warnings)
        samples = ((labels, of[0]) for labels, of in rows if of[0] is not None)
        return at_time(vector(*samples), self.now)

    def _rows(self, query: str, times: Sequence[float]) -> Iterator[Row]:
        if "mine" in query:
            for name, labels in self.series.items():
                yield {"namespace": "apps", "pod": name}, self._values(name, labels[0], 0, times, 1)
        elif "by (namespace, pod, node, instance) (" in query:
            yield from () if "throttled" in query else self._of_pods(query, times)
        elif "node_cpu" in query and "by" not in query:
            yield {"node": "n-0"}, [0.5] * len(times)
        elif ("machine_memory" in query and not self.silent_machines) or 'pod!=""' in query:
            for i in range(NODES):
                yield {name: series_of("", i)[name] for name in ("node", "instance")}, [1.0]

    def _of_pods(self, query: str, times: Sequence[float]) -> Iterator[Row]:
        matcher = MATCHER.search(query)
        both, by_cgroup = " or " in query, 'container!=""' not in query
        scale = 1 if "cpu" in query else 1000
        for name, of in self.series.items():
            if name in self.hidden or not (both or (name in self.only_cgroups) == by_cgroup):
                continue
            for i, labels in enumerate(of):
                if matcher is None or re.fullmatch(matcher[2], labels[matcher[1]]):
                    values = self._values(name, labels, i, times, scale)
                    if any(value is not None for value in values):
                        yield labels, values

    def _values(
        self, name: str, labels: Labels, i: int, times: Sequence[float], scale: float
    ) -> list[float | None]:
        place = int(labels["node"][2:])
        factor = self.factors.get(name, [1.0] * 9)[i] * scale
        end = self.until.get(name, math.inf)
        ran = [at <= end if end > 0 else at > -end for at in times]
        return [factor * slowly(at, place) if r else None for at, r in zip(times, ran, strict=True)]


def policy(own: Mapping[str, str] | None = None, *windows: int) -> Policy:
    rules = tuple(ResourceRule(r, 0.3, 0.8, 0.05, 0.1, windows or (300,)) for r in (CPU, MEMORY))
    return Policy("test", "", rules, MetricsSource("", {}, own or {}))


class Service:
    """Reads of one process."""

    def __init__(self, fake: FakePrometheus, world: World) -> None:
        self._fake, self._world = fake, world
        self._reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)

    def at(
        self, seconds: float, choose: ChoosePods | PodChoice, by: Policy | None = None
    ) -> ClusterLoad:
        self._world.now = seconds
        self._fake.answer = self._world
        self._fake.asked.clear()
        chosen = choose if callable(choose) else lambda _: choose
        return self._reader.read_load(self._world.cluster, by or policy(), chosen)

    @property
    def ranges(self) -> list[Asked]:
        """The range queries about pods."""
        return [
            a
            for a in self._fake.asked
            if a.times and ("namespace" in a.query or a.query[:4] == "mine")
        ]

    @property
    def instants(self) -> list[str]:
        """The instant queries about the usage of single pods."""
        found = (a.query for a in self._fake.asked if not a.times and "throttled" not in a.query)
        return [query for query in found if "by (namespace, pod, node, instance) (" in query]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def service(fake: FakePrometheus, world: World) -> Service:
    return Service(fake, world)


def pasts(*numbers: int) -> PodChoice:
    return PodChoice(pasts=frozenset(f"n-{number}" for number in numbers))


def used(*numbers: int) -> PodChoice:
    return PodChoice(nodes=pasts(*numbers).pasts)


def test_the_past_of_the_pods_of_chosen_nodes_has_the_points_of_the_nodes_and_now(
    service: Service,
) -> None:
    load = service.at(FIRST_AT, pasts(3, 7))

    assert load.pods_of == pasts(3, 7)
    assert load.pods == {}
    assert load.pod_pasts.keys() == {("apps", "p-3"), ("apps", "p-7")}
    times = [*(EVALUATED_AT - 300 * back for back in range(36, -1, -1)), FIRST_AT]
    past = load.pod_pasts["apps", "p-3"]
    assert past.cpu_millicores == pytest.approx([1000 * slowly(at, 3) for at in times])
    assert past.memory_bytes == pytest.approx([1000 * slowly(at, 3) for at in times])
    (asked, other) = service.ranges
    assert asked.times == other.times == tuple(times[:-1])
    assert all('node=~"n-(3|7)"' in each.query for each in (asked, other))
    assert all("[300s]" in each.query for each in (asked, other))
    assert all('job=~"kubelet|' in each.query for each in (asked, other))


def test_a_later_cycle_reads_only_the_latest_point_and_none_near_to_one(service: Service) -> None:
    service.at(FIRST_AT, pasts(3))
    service.at(FIRST_AT + 300, pasts(3))
    assert [len(asked.times) for asked in service.ranges] == [1, 1]
    near = EVALUATED_AT + 620
    load = service.at(near, pasts(3))
    assert service.ranges == []
    past = load.pod_pasts["apps", "p-3"].cpu_millicores
    assert past[-2:] == pytest.approx([1000 * slowly(near, 3)] * 2)


def test_what_is_near_for_long_windows_is_not_for_short_ones(
    service: Service, fake: FakePrometheus
) -> None:
    """Neither for nodes nor for pods."""
    by = replace(policy(), rules=(ResourceRule(CPU, 0.3, 0.8, 0.05, 0.1, (60,)),))
    service.at(FIRST_AT, pasts(3), by)
    service.at(EVALUATED_AT + 320, pasts(3), by)
    assert [len(asked.times) for asked in fake.asked if asked.times] == [1, 1]


def test_a_node_that_is_chosen_later_is_read_back_alone(service: Service) -> None:
    service.at(FIRST_AT, pasts(3))
    service.at(FIRST_AT + 10, pasts(3, 7))
    assert [len(asked.times) for asked in service.ranges] == [37, 37]
    assert all('node=~"n-7"' in asked.query for asked in service.ranges)


@pytest.mark.parametrize("period", [290, 300, 323])
def test_a_fresh_reader_agrees_with_one_that_lived_through_cycles(
    fake: FakePrometheus, world: World, period: int
) -> None:
    service = Service(fake, world)
    for cycle in range(13):
        load = service.at(FIRST_AT + cycle * period, pasts(3, 7))
        if cycle:
            assert sum(len(asked.times) for asked in service.ranges) <= 4
    fresh = Service(fake, world).at(FIRST_AT + 12 * period, pasts(3, 7))
    assert load.pod_pasts.keys() == fresh.pod_pasts.keys()
    for key, past in load.pod_pasts.items():
        assert past.cpu_millicores == pytest.approx(fresh.pod_pasts[key].cpu_millicores, abs=20)
        assert past.memory_bytes == pytest.approx(fresh.pod_pasts[key].memory_bytes, abs=20)


def test_usage_that_is_read_anyway_is_not_asked_for_twice(service: Service) -> None:
    service.at(FIRST_AT, used(3) | pasts(3))
    assert len(service.instants) == 2  # CPU and memory

    service.at(FIRST_AT, used(3) | pasts(3, 7))
    assert len(service.instants) == 4
    assert {MATCHER.findall(query)[0][1] for query in service.instants} == {"n-3", "n-7"}


def test_pods_that_have_ended_have_a_past_on_the_node_that_their_series_name(
    service: Service, world: World
) -> None:
    world.series["gone"] = [series_of("gone", 3)]
    world.until["gone"] = EVALUATED_AT - 900
    load = service.at(FIRST_AT, pasts(3))

    past = load.pod_pasts["apps", "gone"].cpu_millicores
    assert [value is not None for value in past] == [True] * 34 + [False] * 4


def test_a_pod_that_is_elsewhere_now_has_no_past_where_it_was(
    service: Service, world: World
) -> None:
    world.series["p-7"] = [series_of("p-7", 3)]
    assert service.at(FIRST_AT, pasts(3)).pod_pasts.keys() == {("apps", "p-3")}
    world.pods += (pod("apps", "pending"),)
    world.series["pending"] = [series_of("pending", 3)]
    assert service.at(FIRST_AT, pasts(3)).pod_pasts.keys() == {("apps", "p-3")}


def test_a_pod_that_moves_takes_nothing_along(service: Service, world: World) -> None:
    service.at(FIRST_AT, pasts(3, 7))
    world.pods = tuple(replace(p, node="n-7") if p.name == "p-3" else p for p in world.pods)

    assert service.at(FIRST_AT, pasts(3, 7)).pod_pasts.keys() == {("apps", "p-7")}


def test_a_gone_pod_that_several_nodes_claim_is_known_where_one_does(
    service: Service, world: World
) -> None:
    world.series["gone"] = [series_of("gone", 3), series_of("gone", 7)]
    world.series["other"] = [series_of("other", 3)]
    found = service.at(FIRST_AT, pasts(3, 7)).pod_pasts
    assert found.keys() == {("apps", f"p-{i}") for i in (3, 7)} | {("apps", "other")}


@pytest.mark.parametrize(
    ("factors", "known"),
    [((1.0, 1.1), True), ((1.0, 2.0), False), ((1.0, math.nan), False), ((1.0, -1.0), False)],
)
def test_two_scrapes_of_one_kubelet_agree_or_nothing_is_known(
    service: Service, world: World, factors: tuple[float, float], *, known: bool
) -> None:
    world.series["p-3"].append({**series_of("p-3", 3), "instance": "n-3"})
    world.factors["p-3"] = factors
    found = service.at(FIRST_AT, pasts(3)).pod_pasts
    assert (("apps", "p-3") in found) == known
    if known:
        values = found["apps", "p-3"].cpu_millicores
        assert values[-1] == pytest.approx(1100 * slowly(FIRST_AT, 3))


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_what_is_no_usage_is_not_known(service: Service, world: World, value: float) -> None:
    world.factors["p-3"] = [value]
    assert service.at(FIRST_AT, pasts(3)).pod_pasts == {}


def test_where_the_runtime_labels_no_containers_the_cgroups_of_pods_are_read(
    service: Service, world: World
) -> None:
    world.only_cgroups = {"p-3"}
    found = service.at(FIRST_AT, pasts(3, 7)).pod_pasts
    assert all(len(found["apps", f"p-{i}"].cpu_millicores) == 38 for i in (3, 7))
    by_cgroup = [asked.query for asked in service.ranges if 'image=""' in asked.query]
    assert len(by_cgroup) == 2
    assert all('node=~"n-3"' in query for query in by_cgroup)
    both = service.at(FIRST_AT, used(3) | pasts(3)).pod_pasts
    assert both["apps", "p-3"] == found["apps", "p-3"]
    assert len([query for query in service.instants if 'image=""' in query]) == 2


def test_labels_are_learnt_from_pods_where_kubelets_name_none(
    service: Service, world: World
) -> None:
    world.silent_machines = True
    assert ("apps", "p-3") in service.at(FIRST_AT, pasts(3)).pod_pasts


def test_a_node_of_which_nothing_is_measured_has_no_past(service: Service, world: World) -> None:
    world.hidden = {"p-3"}
    assert service.at(FIRST_AT, pasts(3)).pod_pasts == {}
    service.at(FIRST_AT, pasts(3))
    assert service.ranges == []


def test_a_choice_may_grow_by_what_is_read(service: Service) -> None:
    def choose(load: ClusterLoad) -> PodChoice:
        return used(3) | (pasts(3, 7) if load.pod_pasts else pasts(3))

    load = service.at(FIRST_AT, choose)
    assert load.pods_of == used(3) | pasts(3, 7)
    assert load.pod_pasts.keys() == {("apps", "p-3"), ("apps", "p-7")}
    assert load.pods.keys() == {("apps", "p-3")}
    assert load.history["n-0"][CPU].ages_seconds[0] == FIRST_AT - EVALUATED_AT + 36 * 300


def test_all_nodes_may_be_chosen_with_the_usage_of_all_pods(service: Service) -> None:
    everything = used(*range(NODES)) | pasts(*range(NODES))
    load = service.at(FIRST_AT, everything)
    assert load.pods_of is None
    assert len(load.pods) == len(load.pod_pasts) == NODES


def test_without_a_choice_no_past_is_read(service: Service) -> None:
    load = service.at(FIRST_AT, lambda _: None)
    assert load.pods_of is None
    assert load.pod_pasts == {}
    assert service.ranges == []


@pytest.mark.parametrize("own", [{"pod_cpu": "mine"}, {"pod_cpu": "mine", "pod_memory": "mine"}])
def test_a_query_of_the_user_tells_of_the_pods_that_exist(
    service: Service, world: World, own: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_pasts, "MOST_SAMPLES", NODES * 10)
    world.series["gone"] = [series_of("gone", 3)]
    world.series["p-3"].append({**series_of("p-3", 3), "instance": "n-3"})
    load = service.at(FIRST_AT, pasts(3, 7), policy(own))

    assert load.pods_of is None
    past = load.pod_pasts["apps", "p-3"].cpu_millicores
    times = [*(EVALUATED_AT - 300 * back for back in range(36, -1, -1)), FIRST_AT]
    assert past == pytest.approx([1000 * slowly(at, 3) for at in times])
    gone = load.pod_pasts.get(("apps", "gone"))
    assert gone is None or gone.cpu_millicores == ()
    asked = [a.times for a in service.ranges if a.query == "mine"]
    assert sorted({at for times in asked for at in times}) == times[:-1]
    assert max(map(len, asked)) == 10
    service.at(FIRST_AT + 10, pasts(3, 7), policy(own))
    assert service.ranges == []
    service.at(FIRST_AT + 10, pasts(3), policy({}))
    assert service.ranges  # read with something else


def test_gone_pods_are_bounded_and_those_that_exist_are_not_among_them(
    service: Service, world: World
) -> None:
    for number in range(MOST_GONE_PODS + 50):
        name = f"gone-{number:03d}"
        world.series[name] = [series_of(name, 3)]
        world.until[name] = EVALUATED_AT - 300 * (1 + number % 2)
    world.series = dict(sorted(world.series.items()))
    found = service.at(FIRST_AT, pasts(3)).pod_pasts

    assert len(found) == 1 + MOST_GONE_PODS
    assert ("apps", "p-3") in found
    # Those that have ended first are left out first, the last ones by name.
    assert all(("apps", f"gone-{number:03d}") in found for number in range(0, 300, 2))
    assert ("apps", "gone-299") not in found


def test_names_that_no_pod_can_have_are_no_pods(service: Service, world: World) -> None:
    world.series["x" * 254] = [series_of("x" * 254, 3)]
    assert service.at(FIRST_AT, pasts(3)).pod_pasts.keys() == {("apps", "p-3")}


def test_a_node_that_is_chosen_no_more_is_forgotten(service: Service) -> None:
    service.at(FIRST_AT, pasts(3))
    for _ in range(FORGOTTEN_AFTER_CYCLES - 1):
        service.at(FIRST_AT, PodChoice())
    service.at(FIRST_AT, pasts(3))
    assert service.ranges == []
    for _ in range(FORGOTTEN_AFTER_CYCLES):
        service.at(FIRST_AT, PodChoice())
    service.at(FIRST_AT, pasts(3))
    assert [len(asked.times) for asked in service.ranges] == [37, 37]


def test_an_answer_with_warnings_is_not_kept(service: Service, world: World) -> None:
    world.warnings = ["a store is away"]
    assert service.at(FIRST_AT, pasts(3)).problems
    world.warnings = []
    service.at(FIRST_AT, pasts(3))
    assert [len(asked.times) for asked in service.ranges] == [37, 37]


def test_nodes_are_read_in_parts_of_bounded_size(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_pasts, "MOST_SAMPLES", 2 * 37)
    load = service.at(FIRST_AT, pasts(*range(5)))
    assert len(load.pod_pasts) == 5
    assert len(service.ranges) == 2 * 3
    assert all(url_length(asked.query) <= LONGEST_QUERY_CHARACTERS for asked in service.ranges)


def test_an_answer_that_is_too_large_is_asked_for_in_halves_of_its_time(
    fake: FakePrometheus, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.series["gone"] = [series_of("gone", 3)]
    world.until["gone"] = EVALUATED_AT - 3600
    world.series["new"] = [series_of("new", 3)]
    world.until["new"] = -EVALUATED_AT + 3600  # which is since then
    usual = Service(fake, world).at(FIRST_AT, pasts(3)).pod_pasts
    answer = World.__call__

    def limited(self: World, asked: Asked) -> Reply:
        too_large = len(asked.times) > 10
        return refusal(422, error="too many samples") if too_large else answer(self, asked)

    monkeypatch.setattr(World, "__call__", limited)
    load = Service(fake, world).at(FIRST_AT, pasts(3))
    assert load.pod_pasts == usual
    assert len(usual) == 3


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many points were asked for at a time, where more than `slow[0]` take too long."""
    asked = [20]
    answer = PrometheusClient.query_range

    def limited(self: PrometheusClient, promql: str, end: datetime, steps: int, step: int) -> Any:
        asked.append(steps + 1)
        if steps + 1 > asked[0]:
            raise AnswerTooSlow(ObservationSource.PROMETHEUS, "too slow")
        return answer(self, promql, end, steps, step)

    monkeypatch.setattr(PrometheusClient, "query_range", limited)
    return asked


def test_an_answer_that_takes_too_long_is_asked_for_in_halves_of_its_time(
    fake: FakePrometheus, world: World, slow: list[int]
) -> None:
    slow[0] = 37
    usual = Service(fake, world).at(FIRST_AT, pasts(3)).pod_pasts
    slow[0] = 20
    assert Service(fake, world).at(FIRST_AT, pasts(3)).pod_pasts == usual
    assert usual


def test_a_server_that_is_slow_for_few_points_is_not_asked_for_ever_fewer(
    service: Service, slow: list[int]
) -> None:
    slow[0] = 0
    with pytest.raises(AnswerTooSlow):
        service.at(FIRST_AT, pasts(3))
    assert slow[1:] == [37, 18, 9]


def test_a_resource_without_a_rule_is_not_asked_for(service: Service) -> None:
    by = replace(policy(), rules=(ResourceRule(CPU, 0.3, 0.8, 0.05, 0.1, (300,)),))
    past = service.at(FIRST_AT, pasts(3), by).pod_pasts["apps", "p-3"]
    assert past == PodPast(cpu_millicores=past.cpu_millicores, node="n-3")
    assert len(service.ranges) == 1
