"""Forecasts the load of the next hour, and how much of it lies above a target.

The past of a load gives its level, how far it swings, and for how long it remembers: a first-order
autoregressive model, AR(1). By it the load at each time ahead has a normal distribution, which
begins at the present load and falls back to the level. Load that hardly moves stays where it is, so
an overload that has begun lasts; where load swings, a peak passes, and the level counts.

docs/decisions/0026-decide-by-the-next-hour.md compares it with other forecasts.
"""

import math

import numpy as np

from desched.planning.arrays import Floats

AHEAD_SECONDS = 3600
STEPS_AHEAD = 12

LEVEL_HALF_LIFE_SECONDS = 1800.0
SWING_HALF_LIFE_SECONDS = 3600.0
"""The weight of a point halves in this time: the level changes sooner than the swing."""

PRIOR_POINTS = 1.0
PRIOR_DEVIATION = 0.03
PRIOR_CORRELATION = 0.8
"""An assumed further point: without it, a short past looks as if the load never moved."""

LEAST_DEVIATION = 0.01
"""The least deviation of a forecast, as a share of capacity."""

LONGEST_MEMORY = 0.98
"""The highest correlation from one step to the next."""

HEIGHT_WEIGHT = 3.0
"""A minute 10 points above the target counts as 1.3 minutes."""

FAR_DEVIATIONS = 5.0
"""Load that is further below its target than this is above it with a probability below 3e-7."""

_TINY = 1e-12
_NO_TARGET = 1e3
_MOST_LOAD = 1e2  # what is absurd is far above every target, and must not overflow


def expected_minutes(past: Floats, ages_seconds: Floats, targets: Floats) -> Floats:
    """The expected overload of the next hour: minutes above a target, and more for how far above.

    Args:
        past: loads as ratios, oldest first, shape (..., points, resources); NaN where not known.
        ages_seconds: the age of each point, shape (points,); the last one is now.
        targets: shape (..., resources).
    """
    above, height = _ahead(past, ages_seconds, targets)
    share = 1.0 - np.prod(1.0 - above, axis=-2) + HEIGHT_WEIGHT * height.sum(axis=-2)
    minutes: Floats = share.mean(axis=-1) * (AHEAD_SECONDS / 60)
    return minutes


def expected_minutes_above(past: Floats, ages_seconds: Floats, targets: Floats) -> Floats:
    """The expected minutes of the next hour above any target, without how far above."""
    above, _ = _ahead(past, ages_seconds, targets)
    minutes: Floats = (1.0 - np.prod(1.0 - above, axis=-2)).mean(axis=-1) * (AHEAD_SECONDS / 60)
    return minutes


def running_share(age_seconds: float) -> float:
    """The expected share of the next hour in which a Job that has run so long still runs.

    The longer a Job has run, the longer it goes on: after a further time t it runs with the
    probability age / (age + t), of which this is the mean.
    """
    ratio = max(age_seconds, 1.0) / AHEAD_SECONDS
    return ratio * math.log1p(1 / ratio)


def _ahead(past: Floats, ages_seconds: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """At each time ahead the probability of being above the target, and the mean height above it.

    Both have the shape (..., resources, times).
    """
    targets = np.minimum(targets, _NO_TARGET)  # with infinity, products would be undefined
    measured = np.isfinite(past)
    loads = np.minimum(np.where(measured, past, 0.0), _MOST_LOAD)
    step_seconds = AHEAD_SECONDS / STEPS_AHEAD
    since = -np.diff(ages_seconds, prepend=ages_seconds[:1] + step_seconds)
    # Two points that are close together say little more than one.
    lengths = np.minimum(since / step_seconds, 1.0)
    level_weights = (lengths * np.exp2(-ages_seconds / LEVEL_HALF_LIFE_SECONDS))[:, None] * measured
    level = (level_weights * loads).sum(axis=-2) / np.maximum(level_weights.sum(axis=-2), _TINY)

    distance = np.where(measured, loads - level[..., None, :], 0.0)
    weights = (lengths * np.exp2(-ages_seconds / SWING_HALF_LIFE_SECONDS))[:, None]
    prior = PRIOR_POINTS * PRIOR_DEVIATION**2
    total = (weights * distance**2).sum(axis=-2) + prior
    variance = total / ((weights * measured).sum(axis=-2) + PRIOR_POINTS)
    both = measured[..., 1:, :] & measured[..., :-1, :]
    product = distance[..., 1:, :] * distance[..., :-1, :]
    covariance = (weights[1:] * product).sum(axis=-2) + PRIOR_CORRELATION * prior
    covariance /= (weights[1:] * both).sum(axis=-2) + PRIOR_POINTS
    memory = np.clip(covariance / variance, 0.0, LONGEST_MEMORY)

    last = distance[..., -1, :]
    deviation = np.sqrt(variance)
    near = level + np.maximum(last, 0.0) + FAR_DEVIATIONS * (deviation + LEAST_DEVIATION) > targets
    above, height = np.zeros((2, *near.shape, STEPS_AHEAD))
    above[near], height[near] = _at_each_time(
        (level - targets)[near], last[near], deviation[near], memory[near]
    )
    return above, height


def _at_each_time(
    level_gap: Floats, last: Floats, deviation: Floats, memory: Floats
) -> tuple[Floats, Floats]:
    """Return what `_ahead` returns, by the model of each load, shape (loads, times).

    Args:
        level_gap: how far the level is above the target, shape (loads,), as all others.
        last: how far the present load is above the level.
        deviation: the standard deviation.
        memory: the correlation from one step to the next.
    """
    left = memory[:, None] ** np.arange(1, STEPS_AHEAD + 1)
    deviations = deviation[:, None] * np.sqrt(1.0 - left**2) + LEAST_DEVIATION
    gap = level_gap[:, None] + left * last[:, None]
    score = gap / deviations
    above = normal_distribution(score)
    density = math.sqrt(0.5 / math.pi) * np.exp(-0.5 * np.minimum(score * score, 1400.0))
    height = np.maximum(deviations * density + gap * above, 0.0)
    return above, height


def normal_distribution(score: Floats) -> Floats:
    """The standard normal distribution function, by formula 26.2.17 of Abramowitz and Stegun.

    Its error is below 1e-7; scipy, which has the exact one, would triple the size of the image.
    """
    t = 1.0 / (1.0 + 0.2316419 * np.abs(score))
    tail = math.sqrt(0.5 / math.pi) * np.exp(-0.5 * np.minimum(score * score, 1400.0))
    tail *= t * (
        0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )
    below: Floats = np.where(score > 0, 1.0 - tail, tail)
    return below
