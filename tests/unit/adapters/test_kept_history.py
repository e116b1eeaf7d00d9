"""What is kept of the past, by values alone."""

import pytest

from desched.adapters import kept_history
from desched.adapters.kept_history import KeptPasts, KeptPoints, KeptTracks, Span
from desched.model.load import PodPast
from desched.model.resources import Resource
from desched.policy.policy import HistoryGrid

CPU, MEMORY = Resource.CPU, Resource.MEMORY
SPAN = Span(0, 1200, 300)
LATER = Span(600, 1800, 300)


def test_a_history_ends_before_now() -> None:
    grid = HistoryGrid(4, 300)
    assert Span.before(1300.9, grid) == Span.before(1500.0, grid) == Span(0, 1200, 300)
    assert Span.before(1501.0, grid) == Span(300, 1500, 300)
    assert SPAN.size == len(SPAN.times) == 5
    assert SPAN.halves == (Span(0, 300, 300), Span(600, 1200, 300))
    assert SPAN.history((0.1,) * 5, 1300.9, 0.5).ages_seconds == [1300, 1000, 700, 400, 100, 0]


@pytest.mark.parametrize(
    ("now", "window_seconds", "near"),
    [
        (1200, 300, 1200),
        (1230, 300, 1200),
        (1231, 300, None),
        (1470, 300, 1500),
        (1206, 60, 1200),
        (1207, 60, None),
        (1230, 1800, 1200),
        (1231, 1800, None),
    ],
)
def test_a_tenth_of_the_window_or_of_the_step_is_near(
    now: float, window_seconds: float, near: int | None
) -> None:
    assert SPAN.near(now, window_seconds) == near


def test_each_time_is_read_once() -> None:
    points = KeptPoints[str](SPAN)
    assert points.missing() == SPAN
    points.add(300, 2, {"a": (0.1, None), "b": (0.3, 0.4)})
    points.add(0, 3, {"a": (0.5, 0.6, 0.7)})
    assert points.points("a") == (0.5, 0.1, None, None, None)
    assert points.points("c") == ()
    assert points.missing() == Span(900, 1200, 300)
    points.add(900, 2, {})
    assert points.missing() is None
    assert points.all_points() == {
        "a": (0.5, 0.1, None, None, None),
        "b": (None, 0.3, 0.4, None, None),
    }


def test_a_gap_is_read_with_what_is_between() -> None:
    points = KeptPoints[str](SPAN)
    points.add(600, 1, {"a": (0.5,)})
    assert points.missing() == SPAN
    points.add(0, 5, {"a": (0.1,) * 5})
    assert points.points("a") == (0.1, 0.1, 0.5, 0.1, 0.1)


def test_what_is_measured_a_little_early_counts_in_the_next_cycle() -> None:
    points = KeptPoints[str](SPAN)
    points.add(1500, 1, {"a": (0.9,)})
    assert points.all_points() == {}
    points.move(Span(300, 1500, 300))
    assert points.points("a") == (None, None, None, None, 0.9)
    assert points.missing() == Span(300, 1200, 300)


def test_times_outside_are_not_kept() -> None:
    points = KeptPoints[str](SPAN)
    points.add(1800, 1, {"a": (0.9,)})
    points.add(-300, 2, {"a": (0.9, 0.1)})
    assert points.all_points() == {"a": (0.1, None, None, None, None)}


def test_what_is_too_old_is_forgotten() -> None:
    points = KeptPoints[str](SPAN)
    points.add(0, 5, {"a": (0.1, 0.2, 0.3, 0.4, 0.5), "old": (0.1, 0.1, None, None, None)})
    points.move(LATER)
    assert list(points.keys) == ["a"]
    assert points.points("a") == (0.3, 0.4, 0.5, None, None)
    assert points.missing() == Span(1500, 1800, 300)
    points.move(Span(60_000, 61_200, 300))
    assert list(points.keys) == []


def test_after_a_clock_was_set_back_the_future_is_forgotten() -> None:
    points = KeptPoints[str](LATER)
    points.add(600, 5, {"a": (0.1, 0.2, 0.3, 0.4, 0.5)})
    points.move(SPAN)
    assert points.points("a") == (None, None, 0.1, 0.2, 0.3)
    points.move(LATER)
    assert points.missing() == Span(1800, 1800, 300)
    assert points.points("a") == (0.1, 0.2, 0.3, 0.4, None)


def test_what_a_cycle_has_added_can_be_undone() -> None:
    points = KeptPoints[str](SPAN)
    points.add(0, 1, {"a": (0.1,)})
    points.move(SPAN)
    points.add(0, 2, {"a": (0.2, 0.2)})
    points.undo()
    assert points.points("a") == (0.1, None, None, None, None)
    assert points.missing() == Span(300, 1200, 300)


def test_a_value_that_may_change_is_replaced() -> None:
    points = KeptPoints[str](SPAN)
    points.add(0, 5, {"a": (0.1,) * 5})
    points.read_again_after(900)
    assert points.missing() == Span(1200, 1200, 300)
    points.add(1200, 1, {"a": (0.2,)})
    assert points.points("a")[-2:] == (0.1, 0.2)


def test_tracks_of_what_is_not_read_any_more_are_forgotten() -> None:
    tracks = KeptTracks()
    tracks.of("query", SPAN).add(0, 1, {"a": (0.1,)})
    tracks.begin()
    assert tracks.of("query", SPAN).points("a")
    assert not tracks.of("query", Span(0, 2400, 600)).points("a")
    assert not tracks.of("other", SPAN).points("a")
    tracks.begin()
    tracks.of("other", SPAN)
    tracks.begin()
    assert not tracks.of("query", SPAN).points("a")


POD = "apps", "web"


def test_pasts_of_another_query_are_forgotten() -> None:
    pasts = KeptPasts()
    pasts.begin("query", SPAN)
    pasts.of("n").add(0, 1, {(CPU, POD): (1.0,)})
    found = pasts.pasts({"n": {(MEMORY, POD): 5.0}}, {POD: "n"}.get)
    assert found == {POD: PodPast((1.0, *(None,) * 5), (*(None,) * 5, 5.0), "n")}
    pasts.begin("other", SPAN)
    assert pasts.of("n").missing() == SPAN


def test_a_pod_that_several_nodes_had_at_a_time_is_not_known_then() -> None:
    pasts = KeptPasts()
    pasts.begin("query", SPAN)
    pasts.of("m").add(0, 3, {(CPU, POD): (1.0, 2.0, None)})
    pasts.of("n").add(0, 3, {(CPU, POD): (None, 2.0, 3.0)})
    found = pasts.pasts({"m": {}, "n": {}}, lambda _: None)
    assert found == {POD: PodPast((1.0, None, 3.0, None, None, None))}
    assert pasts.pasts({"n": {}}, lambda _: "n") == {
        POD: PodPast((None, 2.0, 3.0, None, None, None), node="n")
    }
    assert pasts.pasts({"m": {}, "n": {}}, lambda _: "elsewhere") == {}


def test_of_many_nodes_fewer_gone_pods_are_kept_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_history, "MOST_GONE_PODS_TOGETHER", 6)
    pasts = KeptPasts()
    pasts.begin("query", SPAN)
    for node in ("m", "n"):
        pods = {(CPU, (node, f"p-{i}")): (None,) * i + (1.0,) + (None,) * (4 - i) for i in range(5)}
        pasts.of(node).add(0, 5, pods)
    found = pasts.pasts({"m": {}, "n": {}}, lambda _: None)
    assert found.keys() == {(node, f"p-{i}") for node in ("m", "n") for i in (2, 3, 4)}
