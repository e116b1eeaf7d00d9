import math

import numpy as np
import pytest

from desched.lab.history import LoadHistory, Usage, UsageBank, UsageSeries, host_of


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


def test_series_that_share_a_bank_are_those_that_own_their_levels() -> None:
    levels = [[(100.0, 1.0), (300.0, 3.0)], [(50.0, 5.0), (10.0, 2.0), (20.0, 0.0)]]
    owners = [UsageSeries(100, each, begins_at=40.0) for each in levels]
    bank = UsageBank(100, np.concatenate([each.bank.before for each in owners]))
    shared = [bank.series(0, 2, begins_at=40.0), bank.series(3, 3, begins_at=40.0)]
    for series in (owners, shared):
        history = LoadHistory()
        history.begin("steady", "a", Usage(1000, 10), at=0)
        for name, each in zip("xy", series, strict=True):
            history.begin(name, "b", each, at=20)
        assert history.user_means(20, 240)["x"].cpu_millicores == pytest.approx(42_000 / 220)
        assert history.node_means(140, 340)["b"] == pytest.approx(Usage(315, 4))
        assert history.node_means(140, 340)["a"] == Usage(1000, 10)


def test_a_mean_over_an_unknown_level_is_unknown() -> None:
    known = UsageSeries(100, [Usage(100), Usage(0), Usage(300)])
    missing = np.array([0, 0, 1, 1], dtype=np.uint16)
    history = LoadHistory()
    history.begin("pod", "a", UsageBank(100, known.bank.before, missing).series(0, 3), at=0)
    history.begin("other", "a", Usage(7), at=0)
    windows = [(0, 100), (50, 101), (100, 200), (150, 250), (200, 900)]
    found = [history.user_means(*window)["pod"].cpu_millicores for window in windows]
    assert found == pytest.approx([100, math.nan, math.nan, math.nan, 300], nan_ok=True)
    assert history.node_means(0, 200)["a"] == Usage(57)  # what is unknown does not count
    assert history.user_means(100, 200)["other"] == Usage(7)


def test_a_few_nodes_have_the_same_means_as_among_all() -> None:
    history = LoadHistory()
    names = [f"n{i}" for i in range(9)]
    for i, name in enumerate(names):
        history.begin(host_of(name), name, Usage(10 + i, 1), at=0)
        history.begin(f"pod-{i}", name, Usage(100 * i, 2), at=50)
    history.begin("pod-3", "n4", Usage(300, 2), at=75)
    together = history.of_nodes(names, 0, 100)
    for i, name in enumerate(names):
        assert history.of_nodes([name], 0, 100).tolist() == [together[i].tolist()]


def test_the_usage_of_a_node_is_unknown_where_that_of_its_host_is() -> None:
    unknown = UsageBank(100.0, np.zeros((3, 2)), np.array([0, 1, 1], dtype=np.uint16))
    history = LoadHistory()
    history.begin(host_of("a"), "a", unknown.series(0, 2), at=0)
    history.begin("pod", "b", unknown.series(0, 2), at=0)
    assert np.isnan(history.of_nodes(["a"], 0, 150)).all()
    assert history.of_nodes(["a", "b"], 100, 200).tolist() == [[0, 0], [0, 0]]
    assert history.of_nodes(["b"], 0, 150).tolist() == [[0, 0]]
