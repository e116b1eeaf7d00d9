"""The load of the next hour by that of the past."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from desched.planning.arrays import Floats
from desched.planning.overload.forecast import (
    HEIGHT_WEIGHT,
    expected_minutes,
    expected_minutes_above,
    normal_distribution,
    running_share,
)

TARGET = 0.8
NOTHING = math.nan


def ages(count: int, step_seconds: int) -> Floats:
    return np.arange(count, dtype=float)[::-1] * step_seconds


def above(points: Sequence[float], step_seconds: int = 120) -> float:
    """The expected minutes above 80 % of one resource with this past, oldest first."""
    past = np.array(points, dtype=float)[:, None]
    found = expected_minutes_above(past, ages(len(points), step_seconds), np.array([TARGET]))
    return float(found)


def overload(points: Sequence[float], target: float = TARGET) -> float:
    """The same with more for how far above."""
    past = np.array(points, dtype=float)[:, None]
    return float(expected_minutes(past, ages(len(points), 120), np.array([target])))


@pytest.mark.parametrize(("load", "minutes"), [(0.86, 60), (0.8, 30), (0.74, 0)])
def test_calm_load_stays_where_it_is(load: float, minutes: float) -> None:
    assert above([load] * 31) == pytest.approx(minutes, abs=0.5)


def test_a_peak_of_a_swinging_load_passes() -> None:
    swinging = [0.6, 0.5, 0.7, 0.55, 0.65, 0.5, 0.6, 0.5, 0.55, 0.6, 0.5, 0.6] * 2
    assert above([*swinging, 0.88]) < 10 < above([0.88] * 25)


def test_a_peak_counts_for_more_while_it_is_not_known_how_the_load_swings() -> None:
    assert above([0.6, 0.88]) > above([0.6, 0.62, 0.58] * 8 + [0.88])


@pytest.mark.parametrize("period", [5, 10])
def test_what_is_above_for_two_fifths_of_each_hour_is_expected_for_about_that(period: int) -> None:
    """24 minutes, whenever it is asked, with a little for what is not known."""
    high = period * 2 // 5
    wave = ([0.95] * high + [0.65] * (period - high)) * (40 // period)
    found = [above(wave[i:] + wave[:i]) for i in range(period)]
    assert 20 < sum(found) / len(found) < 30
    assert 10 < min(found) <= max(found) < 40


def test_unknown_points_say_nothing() -> None:
    assert above([NOTHING] * 30 + [0.86]) == pytest.approx(above([0.86]), abs=0.5)
    assert above([0.86, NOTHING] * 15 + [0.86]) == pytest.approx(60, abs=1)
    assert above([NOTHING] * 31) == 0.0


def test_a_load_that_is_not_known_now_is_expected_at_its_level() -> None:
    assert above([0.9] * 30 + [NOTHING]) == pytest.approx(60, abs=1)


@pytest.mark.parametrize("load", [0.77, 0.83])
def test_a_short_past_is_no_proof_that_the_load_never_moves(load: float) -> None:
    """What is above may come below, and the other way round: less than certain either way."""
    short, long = above([load]), above([load] * 31)
    assert min(long, 60 - long) < min(short, 60 - short)


def test_points_close_together_say_no_more_than_one() -> None:
    """A restarted server asks again within seconds."""
    swing = [0.6, 0.9] * 5
    past, often = np.array(swing)[:, None], np.repeat(swing, 10)[:, None]
    times = ages(len(swing), 300)
    close = (times[:, None] + np.arange(10)[::-1]).ravel()
    target = np.array([TARGET])
    once, repeated = (
        float(expected_minutes_above(*each, target)) for each in ((past, times), (often, close))
    )
    assert repeated == pytest.approx(once, abs=3)


def test_height_counts() -> None:
    """A minute 10 points above the target counts as 1.3."""
    assert overload([0.9] * 31) == pytest.approx(60 * (1 + 0.1 * HEIGHT_WEIGHT), rel=0.01)
    assert overload([1.0] * 31) == pytest.approx(60 * (1 + 0.2 * HEIGHT_WEIGHT), rel=0.01)


ratios = st.floats(0, 1.2).map(lambda value: round(value, 3))


@given(st.lists(ratios, min_size=1, max_size=31), st.floats(0.0, 0.3))
def test_a_load_that_was_higher_all_the_time_is_expected_to_be_higher(
    points: list[float], more: float
) -> None:
    higher = [value + more for value in points]
    assert above(higher) >= above(points) - 1e-6
    assert overload(higher) >= overload(points) - 1e-6


@given(st.lists(ratios | st.just(NOTHING), min_size=1, max_size=31), st.floats(0.1, 1))
def test_a_higher_target_is_exceeded_less_and_both_stay_in_bounds(
    points: list[float], target: float
) -> None:
    found = overload(points, target)
    assert 0.0 <= overload(points, target + 0.05) <= found + 1e-6
    assert 0.0 <= above(points) <= 60.0


def both(cpu: float, memory: float, targets: tuple[float, float]) -> float:
    past = np.tile([cpu, memory], (31, 1))
    return float(expected_minutes_above(past, ages(31, 120), np.array(targets)))


def test_a_minute_above_any_target_counts_once() -> None:
    assert both(0.5, 0.9, (0.8, 0.85)) == pytest.approx(60, abs=0.5)
    assert both(0.9, 0.9, (0.8, 0.85)) == pytest.approx(60, abs=0.5)
    assert both(0.8, 0.85, (0.8, 0.85)) == pytest.approx(45)  # a coin each
    assert both(0.5, 0.84, (0.8, 0.9)) == pytest.approx(0, abs=0.5)


def test_a_resource_without_a_target_never_counts() -> None:
    """A node without GPUs has no target for them, and they have no past there."""
    past = np.array([[0.9, NOTHING], [0.9, NOTHING]])
    for minutes in (expected_minutes, expected_minutes_above):
        without = float(minutes(past, ages(2, 120), np.array([TARGET, math.inf])))
        alone = float(minutes(past[:, :1], ages(2, 120), np.array([TARGET])))
        assert without == pytest.approx(alone)


@given(st.integers(1, 12), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**32))
def test_many_pasts_at_once_give_what_each_gives_alone(
    points: int, resources: int, count: int, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    pasts = chance.uniform(0, 1.2, (count, points, resources))
    targets = chance.uniform(0.3, 1, (count, resources))
    times = ages(points, 120)
    together = expected_minutes(pasts, times, targets)
    assert together.shape == (count,)
    alone = [float(expected_minutes(pasts[i], times, targets[i])) for i in range(count)]
    assert together == pytest.approx(alone)
    twice = expected_minutes(np.stack([pasts, pasts]), times, targets)
    assert twice == pytest.approx(np.stack([together, together]))


def test_the_longer_a_job_has_run_the_longer_it_goes_on() -> None:
    """By the mean of age / (age + t) over the hour."""
    for minutes in (1, 10, 60, 600):
        later = np.linspace(0, 60, 60_001)
        assert running_share(60 * minutes) == pytest.approx(
            np.mean(minutes / (minutes + later)), 1e-3
        )
    assert 0 < running_share(0) < 0.01


def test_the_normal_distribution_is_that_of_the_library() -> None:
    scores = np.linspace(-9, 9, 2001)
    exact = [0.5 * (1 + math.erf(score / math.sqrt(2))) for score in scores.tolist()]
    assert np.abs(normal_distribution(scores) - exact).max() < 1e-7
    assert normal_distribution(np.array([-math.inf, math.inf])).tolist() == [0.0, 1.0]
