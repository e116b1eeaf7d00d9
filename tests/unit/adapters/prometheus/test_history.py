"""The recent past over real HTTP: of nodes, what is kept of it, and their longer times."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from desched.adapters.kept_history import KeptTracks, Span
from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query
from desched.adapters.prometheus.history import LAST_HOUR, LoadTracks, Now
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.errors import ObservationError
from desched.model.load import ClusterLoad, LoadHistory, LoadProblem
from desched.model.resources import Resource
from desched.policy.policy import DestinationWindow, MetricsSource, Policy, ResourceRule
from tests.unit.adapters.prometheus.fake_server import (
    EVALUATED_AT,
    Asked,
    FakePrometheus,
    Reply,
    matrix,
    refusal,
    vector,
)
from tests.unit.adapters.prometheus.test_reader import WEB, WORLD, Sample, good, kind_of

CPU, MEMORY = Resource.CPU, Resource.MEMORY
N_A, N_B = {"node": "n-a"}, {"node": "n-b"}
HOT = [0.9] * 37
NOW = 0.5
"""The load of both nodes."""


def policy(
    *windows: DestinationWindow,
    queries: Mapping[str, str] | None = None,
    resources: Sequence[Resource] = (CPU,),
) -> Policy:
    rules = tuple(ResourceRule(r, 0.3, 0.8, 0.05, 0.1, (300, 900), windows) for r in resources)
    metrics = MetricsSource("", {}, queries or {})
    return Policy("test", "", rules, metrics)


def read(
    fake: FakePrometheus,
    by: Policy,
    *tracks: tuple[Mapping[str, str], Sequence[float | None]],
    last_hour: Callable[[Asked], Reply] | None = None,
) -> ClusterLoad:
    """Two nodes at half load, with these values of their history, and maybe of the last hour."""
    instant = good("n-a", "n-b", own=[(N_A, 0.7), (N_B, 0.6)])

    def answer(asked: Asked) -> Reply:
        if not asked.path.endswith("/query_range"):
            return instant(asked)
        if last_hour and len(asked.times) == LAST_HOUR.steps + 1:
            return last_hour(asked)
        return matrix(asked, *(t for t in tracks if len(t[1]) == len(asked.times)))

    fake.answer = answer
    reader = PrometheusLoadReader(
        PrometheusConnection(url=fake.url), lambda _: False, last_hour=last_hour is not None
    )
    return reader.read_load(WORLD, by)


def ranges(fake: FakePrometheus) -> list[Asked]:
    return [asked for asked in fake.asked if asked.path.endswith("/query_range")]


def test_one_range_query_over_the_shortest_window_shows_the_last_three_hours(
    fake: FakePrometheus,
) -> None:
    load = read(fake, policy(), (N_A, HOT), (N_B, [0.1] * 37))

    (asked,) = ranges(fake)
    assert kind_of(asked.query) == "cpu"
    assert "[300s]" in asked.query
    assert asked.times == tuple(EVALUATED_AT - 37 * 300 + 300 * i for i in range(37))
    assert load.history == {
        "n-a": {CPU: LoadHistory(300, (*HOT, NOW), 300)},
        "n-b": {CPU: LoadHistory(300, (*[0.1] * 37, NOW), 300)},
    }


def test_of_a_long_window_the_history_has_six_steps(fake: FakePrometheus) -> None:
    by = replace(policy(), rules=(ResourceRule(CPU, 0.3, 0.8, 0.05, 0.1, (3600,)),))

    read(fake, by)

    (asked,) = ranges(fake)
    assert len(asked.times) == 7
    assert asked.times[1] - asked.times[0] == 3600


def test_each_measured_resource_is_asked_once(fake: FakePrometheus) -> None:
    read(fake, policy(resources=(CPU, MEMORY)))

    assert [kind_of(asked.query) for asked in ranges(fake)] == ["cpu"]
    # There is no source for memory in this world, so there is nothing to ask.
    own = {"node_memory": "own_metric[{window}]"}
    fake.asked.clear()
    read(fake, policy(resources=(CPU, MEMORY), queries=own))
    assert sorted(kind_of(asked.query) for asked in ranges(fake)) == ["cpu", "own"]


def test_an_own_query_has_a_history_as_well(fake: FakePrometheus) -> None:
    load = read(fake, policy(queries={"node_cpu": "own_metric[{window}]"}), (N_A, HOT))

    assert [asked.query for asked in ranges(fake)] == ["own_metric[300s]"]
    assert load.history["n-a"][CPU].ratios == (*HOT, 0.7)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), 5.0, -1.0])
def test_a_point_that_is_missing_or_not_possible_is_not_known(
    fake: FakePrometheus, value: float | None
) -> None:
    load = read(fake, policy(), (N_A, [0.9, value, *HOT[2:]]))

    assert load.history["n-a"][CPU].ratios == (0.9, None, *HOT[2:], NOW)


def test_small_excursions_of_extrapolation_are_cut_off(fake: FakePrometheus) -> None:
    load = read(fake, policy(), (N_A, [1.05, -0.01, 1.0501, -0.0101, *HOT[4:]]))

    assert load.history["n-a"][CPU].ratios[:4] == (1.0, 0.0, None, None)


def test_of_several_series_of_a_node_the_lowest_counts_at_each_point(fake: FakePrometheus) -> None:
    old = ({**N_A, "pod": "exporter-1"}, [0.9, 0.9, 0.9, *[None] * 34])
    new = ({**N_A, "pod": "exporter-2"}, [None, 0.85, 0.95, *[0.9] * 34])

    load = read(fake, policy(), old, new)

    assert load.history["n-a"][CPU].ratios == (0.9, 0.85, 0.9, *[0.9] * 34, NOW)


def test_series_of_no_node_are_left_out(fake: FakePrometheus) -> None:
    assert read(fake, policy(), ({"node": "elsewhere"}, HOT)).history == {}


def test_the_last_hour_is_read_for_people_only(fake: FakePrometheus) -> None:
    hour = (0.5, None, *[0.9] * 11)
    load = read(fake, policy(), (N_A, HOT), last_hour=lambda asked: matrix(asked, (N_A, hour)))

    assert ranges(fake)[-1].times == tuple(EVALUATED_AT - 3600 + 300 * i for i in range(13))
    assert load.last_hour == {"n-a": {CPU: LoadHistory(300, hour)}}
    assert load.history == {"n-a": {CPU: LoadHistory(300, (*HOT, NOW), 300)}}
    fake.asked.clear()
    assert read(fake, policy(), (N_A, HOT)).last_hour == {}
    assert len(ranges(fake)) == 1


# --- what is kept from cycle to cycle ----------------------------------------------------------

FIRST_AT = int(EVALUATED_AT) + 100


def slowly(at: float) -> float:
    """A load that changes by less than 0.02 in a minute."""
    return 0.5 + 0.4 * math.sin(at / 1500)


class Cycles:
    """Cycles of one process at any time; `warnings` are those of all answers."""

    def __init__(self, fake: FakePrometheus) -> None:
        self._fake = fake
        self._client = PrometheusClient(PrometheusConnection(url=fake.url), lambda _: False)
        self.kept = KeptTracks()
        self.warnings: list[str] = []

    def at(self, seconds: int, promql: str = "load") -> Mapping[str, LoadHistory]:
        """The history of nodes; n-b begins late."""

        def answer(asked: Asked) -> Reply:
            own = [slowly(at) for at in asked.times]
            late = [
                value if at > FIRST_AT else None for at, value in zip(asked.times, own, strict=True)
            ]
            begun = (
                [(N_B, late)] if max(asked.times) > FIRST_AT else []
            )  # Prometheus returns no empty series
            return matrix(asked, (N_A, own), *begun, warnings=self.warnings)

        self._fake.answer = answer
        self._fake.asked.clear()
        queries = CycleQueries(self._client)
        queries.evaluated.append(datetime.fromtimestamp(seconds, UTC))
        tracks = LoadTracks(queries, NodeIndex(WORLD), {CPU: Query(promql)}, 300)
        measured = {"n-a": slowly(seconds)} | (
            {"n-b": slowly(seconds)} if seconds > FIRST_AT else {}
        )
        now = {CPU: Now(measured, measured)}
        self.kept.begin()
        found = tracks.until_now(Span.before(seconds, policy().history), self.kept, now)[CPU]
        if queries.warnings:
            self.kept.undo()
        return found

    @property
    def points_read(self) -> int:
        return sum(len(asked.times) for asked in ranges(self._fake))


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(pauses=st.lists(st.integers(-200, 15_000), max_size=6))
def test_what_is_kept_is_what_another_process_would_read(
    fake: FakePrometheus, pauses: list[int]
) -> None:
    """Within what the load changes in a minute: each may count for a time that is near."""
    service = Cycles(fake)
    for at in accumulate(pauses, initial=FIRST_AT):
        lived, fresh = service.at(at), Cycles(fake).at(at)
        assert lived.keys() == fresh.keys()
        for name, history in lived.items():
            assert history.ages_seconds == fresh[name].ages_seconds
            for mine, theirs in zip(history.ratios, fresh[name].ratios, strict=True):
                if name == "n-a":
                    assert mine is not None
                if mine is not None and theirs is not None:
                    assert mine == pytest.approx(theirs, abs=0.0175)


def test_a_later_cycle_reads_one_point_and_none_if_it_is_near_to_one(fake: FakePrometheus) -> None:
    service = Cycles(fake)
    service.at(FIRST_AT)
    assert service.points_read == 37
    for cycle in range(1, 4):
        service.at(FIRST_AT + cycle * 300)
        assert service.points_read == 1
    begin = int(EVALUATED_AT) + 1200
    for cycle, late in enumerate((30, 0, -29, 15, 31)):
        history = service.at(begin + cycle * 300 + late)
        assert service.points_read == (late == 31)
        if late == 30:
            assert history["n-a"].ratios[-2] == history["n-a"].ratios[-1]


def test_a_cycle_after_a_pause_reads_only_what_is_missing(fake: FakePrometheus) -> None:
    service = Cycles(fake)
    service.at(FIRST_AT)
    service.at(FIRST_AT + 10)
    assert service.points_read == 0
    service.at(FIRST_AT + 1500)
    assert service.points_read == 5
    service.at(FIRST_AT + 1500 + 4 * 3600)
    assert service.points_read == 37


def test_a_clock_that_was_set_back_leaves_nothing_of_the_future(fake: FakePrometheus) -> None:
    service = Cycles(fake)
    service.at(FIRST_AT + 3600)
    service.at(FIRST_AT)
    assert service.points_read == 12
    service.at(FIRST_AT + 3600)
    assert service.points_read == 11  # one that is less than a step ahead stays


def test_a_history_that_begins_with_a_new_prometheus_grows_with_each_cycle(
    fake: FakePrometheus,
) -> None:
    def at(seconds: int) -> LoadHistory | None:
        def answer(asked: Asked) -> Reply:
            values = [0.9 if time > FIRST_AT else None for time in asked.times]
            return matrix(asked, *([(N_A, values)] if any(values) else []))

        fake.answer = answer
        queries = CycleQueries(client)
        queries.evaluated.append(datetime.fromtimestamp(seconds, UTC))
        tracks = LoadTracks(queries, NodeIndex(WORLD), {CPU: Query("load")}, 300)
        kept.begin()
        return tracks.until_now(Span.before(seconds, policy().history), kept, {})[CPU].get("n-a")

    client = PrometheusClient(PrometheusConnection(url=fake.url), lambda _: False)
    kept = KeptTracks()
    assert at(FIRST_AT) is None
    for cycle in range(1, 5):
        found = at(FIRST_AT + cycle * 300)
        assert found is not None
        assert len(found.ratios) == policy().history.steps + 2
        assert found.ratios.count(0.9) == cycle


def test_points_of_an_answer_with_warnings_are_not_kept(fake: FakePrometheus) -> None:
    service = Cycles(fake)
    service.at(FIRST_AT)
    service.warnings = ["a store is away"]
    service.at(FIRST_AT + 600)
    service.warnings = []
    service.at(FIRST_AT + 900)
    assert service.points_read == 3


def test_only_points_of_the_latest_query_are_kept(fake: FakePrometheus) -> None:
    service = Cycles(fake)
    service.at(FIRST_AT)
    service.at(FIRST_AT + 300, promql="other")
    service.at(FIRST_AT + 600)
    assert service.points_read == 37


def test_a_fresh_reader_agrees_with_one_that_lived_through_cycles(fake: FakePrometheus) -> None:
    """Through all of the reader, at any distance from the regular times."""
    instants = good("n-a", "n-b")

    def at(reader: PrometheusLoadReader, seconds: float) -> Mapping[str, LoadHistory]:
        def answer(asked: Asked) -> Reply:
            if asked.times:
                values = [slowly(time) for time in asked.times]
                return matrix(asked, (N_A, values), (N_B, values))
            if kind_of(asked.query) == "cpu":
                instants.results["cpu"] = [(N_A, slowly(seconds)), (N_B, slowly(seconds))]
            return at_time(instants(asked), seconds)

        fake.answer = answer
        fake.asked.clear()
        load = reader.read_load(WORLD, policy())
        return {name: of[CPU] for name, of in load.history.items()}

    def new() -> PrometheusLoadReader:
        return PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)

    service = new()
    at(service, FIRST_AT)
    for cycle in range(1, 13):
        seconds = FIRST_AT + cycle * 290
        lived = at(service, seconds)
        assert sum(len(asked.times) for asked in ranges(fake)) <= 1
    fresh = at(new(), seconds)
    assert lived.keys() == fresh.keys() == {"n-a", "n-b"}
    for name, history in lived.items():
        assert history.ages_seconds == fresh[name].ages_seconds
        assert history.ratios == pytest.approx(fresh[name].ratios, abs=0.02)


def at_time(reply: Reply, seconds: float) -> Reply:
    """The vector as if it were evaluated at another time."""
    return reply._replace(
        body=reply.body.replace(str(EVALUATED_AT).encode(), str(float(seconds)).encode())
    )


def test_nothing_depends_on_whether_the_last_hour_can_be_read(fake: FakePrometheus) -> None:
    usual = read(fake, policy(), (N_A, HOT))
    refused = read(fake, policy(), (N_A, HOT), last_hour=lambda _: refusal(422))
    partial = read(
        fake,
        policy(),
        (N_A, HOT),
        last_hour=lambda asked: matrix(asked, (N_A, [0.5] * 13), warnings=["a store is away"]),
    )

    assert refused == usual
    assert replace(partial, last_hour={}) == usual
    assert partial.last_hour
    assert partial.problems == ()


def test_a_range_query_that_prometheus_refuses_ends_the_cycle(fake: FakePrometheus) -> None:
    instant = good("n-a")
    fake.answer = lambda asked: (
        refusal(422, error="too many samples") if asked.times else instant(asked)
    )
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)

    with pytest.raises(ObservationError, match=r"HTTP 422.*too many samples"):
        reader.read_load(WORLD, policy())


def test_an_instant_vector_is_no_answer_to_a_range_query(fake: FakePrometheus) -> None:
    fake.answer = lambda _: vector((N_A, 0.5))
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)

    with pytest.raises(ObservationError, match="answered with a vector; a range query must"):
        reader.read_load(WORLD, policy())


def test_a_warning_of_a_range_query_is_a_problem(fake: FakePrometheus) -> None:
    instant = good("n-a")
    partial = b'{"status":"success","data":{"resultType":"matrix","result":[]},"warnings":["x"]}'
    fake.answer = lambda asked: Reply(partial) if asked.times else instant(asked)
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)

    assert [p for p, _ in reader.read_load(WORLD, policy()).problems] == [LoadProblem.PARTIAL_DATA]


def test_a_destination_window_is_looked_at_in_steps_of_the_shortest_window(
    fake: FakePrometheus,
) -> None:
    by = policy(DestinationWindow(3600, 1.0), DestinationWindow(3600))
    hour = [0.2] * 12 + [0.85]

    load = read(fake, by, (N_A, hour))

    asked, _ = ranges(fake)
    assert asked.times == tuple(EVALUATED_AT - 3600 + 300 * i for i in range(13))
    maximum, mean = load.destination_ratios["n-a"][CPU]
    assert maximum == 0.85
    assert mean == pytest.approx(0.25)
    assert "n-b" not in load.destination_ratios


def test_a_long_destination_window_is_looked_at_in_at_most_sixty_steps(
    fake: FakePrometheus,
) -> None:
    read(fake, policy(DestinationWindow(86_400, 0.95)))

    asked, _ = ranges(fake)
    assert len(asked.times) == 61
    assert asked.times[1] - asked.times[0] == 86_400 / 60


def test_a_destination_window_with_gaps_is_not_known(fake: FakePrometheus) -> None:
    by = policy(DestinationWindow(3600, 1.0))

    assert "n-a" in read(fake, by, (N_A, [*[0.2] * 11, None, None])).destination_ratios
    assert read(fake, by, (N_A, [*[0.2] * 10, *[None] * 3])).destination_ratios == {}


def test_four_fifths_of_the_points_of_a_destination_window_suffice(fake: FakePrometheus) -> None:
    by = policy(DestinationWindow(14 * 300, 1.0))

    load = read(fake, by, (N_A, [*[0.2] * 12, *[None] * 3]), (N_B, [*[0.2] * 11, *[None] * 4]))

    assert list(load.destination_ratios) == ["n-a"]


def test_a_recorded_statistic_is_read_by_an_instant_query(fake: FakePrometheus) -> None:
    own = {"node_cpu_destination": "own_metric:p95[{window}]"}
    by = policy(DestinationWindow(3600, 0.95), queries=own)

    load = read(fake, by)

    assert len(ranges(fake)) == 1  # the history
    assert "own_metric:p95[3600s]" in {asked.query for asked in fake.asked}
    assert load.destination_ratios == {"n-a": {CPU: (0.7,)}, "n-b": {CPU: (0.6,)}}


def test_throttled_pods_are_those_that_exist_and_that_the_query_names(
    fake: FakePrometheus,
) -> None:
    named: list[Sample] = [({**WEB, "pod": name}, 0.4) for name in ("web", "gone")]
    fake.answer = good("n-a", throttled=named)
    reader = PrometheusLoadReader(PrometheusConnection(url=fake.url), lambda _: False)

    load = reader.read_load(WORLD, policy())

    assert load.throttled == {("apps", "web")}
    (asked,) = (a.query for a in fake.asked if kind_of(a.query) == "throttled")
    assert asked.endswith("> 0.25")
