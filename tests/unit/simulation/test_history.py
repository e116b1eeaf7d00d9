import math

import pytest

from desched.simulation.history import LoadHistory, Usage, UsageSeries


def test_a_mean_is_weighted_by_the_time_within_the_window() -> None:
    history = LoadHistory()
    history.begin("pod", "a", Usage(1000, 100), at=0)
    history.end("pod", at=400)
    assert history.node_means(100, 500)["a"] == Usage(750, 75)


def test_a_window_does_not_at_once_see_a_move() -> None:
    history = LoadHistory()
    history.begin("pod", "a", Usage(1000), at=0)
    history.begin("pod", "b", Usage(1000), at=540)
    assert history.node_means(300, 600)["a"].cpu_millicores == pytest.approx(800)
    assert history.node_means(300, 600)["b"].cpu_millicores == pytest.approx(200)
    assert history.user_means(300, 600)["pod"].cpu_millicores == pytest.approx(1000)


def test_users_of_a_node_add_up() -> None:
    history = LoadHistory()
    history.begin("one", "a", Usage(300, 1), at=0)
    history.begin("two", "a", Usage(200, 2), at=0)
    history.begin("three", "b", Usage(999, 9), at=0)
    assert history.node_means(0, 10)["a"] == Usage(500, 3)


def test_a_move_ends_one_stay_and_begins_another() -> None:
    history = LoadHistory()
    history.begin("pod", "a", Usage(1), at=7)
    history.begin("pod", "b", Usage(1), at=9)
    stays = [(stay.node, stay.began, stay.ended) for stay in history.stays_of("pod")]
    assert stays == [("a", 7, 9), ("b", 9, math.inf)]
    assert history.stays_of("nobody") == ()


def test_a_trace_is_weighted_by_the_time_at_each_level() -> None:
    history = LoadHistory()
    history.begin("pod", "a", UsageSeries(100, [Usage(100, 1), Usage(300, 3)]), at=50)
    assert history.node_means(0, 100)["a"] == Usage(50, 0.5)
    assert history.user_means(50, 150)["pod"] == Usage(200, 2)


def test_the_last_level_of_a_trace_stays() -> None:
    series = UsageSeries(100, [Usage(100), Usage(300)])
    history = LoadHistory()
    history.begin("pod", "a", series, at=0)
    assert history.user_means(900, 1000)["pod"] == Usage(300)


def test_a_mean_read_before_a_change_does_not_hide_it() -> None:
    history = LoadHistory()
    history.begin("pod", "a", Usage(1000), at=0)
    assert history.node_means(0, 400)["a"] == Usage(1000)
    history.end("pod", at=200)
    history.begin("other", "a", Usage(2000), at=300)
    assert history.node_means(0, 400)["a"] == Usage(1000)
    assert history.node_means(200, 400)["a"] == Usage(1000)
    assert history.user_means(200, 400)["pod"] == Usage(0)


def test_usage_by_step_is_the_mean_of_each_step() -> None:
    history = LoadHistory()
    history.begin("pod", "a", UsageSeries(100, [Usage(100, 1), Usage(300, 3)]), at=50)
    history.begin("other", "a", Usage(8, 80), at=0)
    history.begin("pod", "b", UsageSeries(100, [Usage(400)]), at=210)
    history.end("other", at=90)
    found = history.by_step(["b", "a"], 6, 60.0)
    for row, node in zip(found, ["b", "a"], strict=True):
        means = [history.node_means(60 * i, 60 * (i + 1))[node] for i in range(6)]
        assert row.tolist() == [pytest.approx(mean) for mean in means]
