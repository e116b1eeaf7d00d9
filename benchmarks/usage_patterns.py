"""Usage that the trace does not have: noise, bursts, surges and leaks, as factors by minute."""

from collections.abc import Sequence

import numpy as np

from desched.lab.history import Floats

MINUTES = 24 * 60

NOISE_DEVIATION, NOISE_AUTOCORRELATION = 0.4, 0.85
"""Of each pod's CPU: a share of its mean, and the correlation with the minute before."""

BURSTING_SHARE, BURST_FACTOR, BURST_MINUTES = 0.2, 2.0, 15
"""The workloads whose CPU bursts at the beginning of every hour."""

SURGING_WORKLOADS, SURGE_FACTOR, SURGE_MINUTES = 3, 2.5, 60
"""In every hour, so many other workloads use more CPU, for an hour."""

LEAKING_SHARE, LEAK_FACTOR, LEAK_MINUTES = 0.1, 3.0, 8 * 60
"""The workloads whose memory rises to this factor, again and again; then their pods restart."""


def noise(pods: int, chance: np.random.Generator) -> Floats:
    """Each pod's CPU swings by itself: pod x minute x (CPU, memory)."""
    fresh = chance.standard_normal((pods, MINUTES))
    fresh[:, 1:] *= np.sqrt(1 - NOISE_AUTOCORRELATION**2)
    for minute in range(1, MINUTES):
        fresh[:, minute] += NOISE_AUTOCORRELATION * fresh[:, minute - 1]
    factors = np.ones((pods, MINUTES, 2))
    factors[:, :, 0] = np.maximum(0.0, 1 + NOISE_DEVIATION * fresh)
    return factors


def bursts(groups: Sequence[range], chance: np.random.Generator) -> Floats:
    """A part of the workloads has work every hour, at the same time."""
    factors = _constant(groups)
    at_work = np.arange(MINUTES) % 60 < BURST_MINUTES
    for number in _some(groups, BURSTING_SHARE, chance):
        factors[groups[number], :, 0] = np.where(at_work, BURST_FACTOR, 1.0)
    return factors


def surges(groups: Sequence[range], chance: np.random.Generator) -> Floats:
    """A few workloads, others in every hour, have more work for an hour."""
    factors = _constant(groups)
    for begin in range(0, MINUTES, SURGE_MINUTES):
        for number in chance.choice(len(groups), SURGING_WORKLOADS, replace=False):
            factors[groups[number], begin : begin + SURGE_MINUTES, 0] = SURGE_FACTOR
    return factors


def leaks(groups: Sequence[range], chance: np.random.Generator) -> Floats:
    """The memory of some workloads rises until their pods restart, all of a workload together."""
    factors = _constant(groups)
    for number in _some(groups, LEAKING_SHARE, chance):
        since_restart = (np.arange(MINUTES) + chance.integers(LEAK_MINUTES)) % LEAK_MINUTES
        rise = 1 + (LEAK_FACTOR - 1) * since_restart / LEAK_MINUTES
        factors[groups[number], :, 1] = rise
    return factors


def _constant(groups: Sequence[range]) -> Floats:
    return np.ones((sum(map(len, groups)), MINUTES, 2))


def _some(groups: Sequence[range], share: float, chance: np.random.Generator) -> list[int]:
    count = round(share * len(groups))
    found: list[int] = chance.choice(len(groups), count, replace=False).tolist()
    return found
