"""Days of other traces, drawn from a small invented one."""

import numpy as np
import pytest

from benchmarks.day import Regime, Size
from benchmarks.other_days import DRAWS, Draw, other_day, unequal_groups, with_mean
from benchmarks.trace import SAMPLES, Jobs, Trace
from desched.lab.closed_loop import Day

SMALL = Size(nodes=8, pods=128)


def _jobs(*, memory: bool = False) -> Jobs:
    """Ten jobs of three machines; one has a hundred times the CPU of the others."""
    chance = np.random.default_rng(7)
    cpu = chance.gamma(2.0, 1.0, (10, 3, SAMPLES)) * np.r_[100.0, np.ones(9)][:, None, None]
    rows = np.stack([cpu, cpu * memory], axis=3)
    return tuple(rows)


def _use(day: Day) -> np.ndarray:
    """What the pods use: pod x sample x (millicores, bytes)."""
    series = [each for d in day.deployments for each in d.template.usage_by_replica]
    banks = [np.diff(each.bank.before, axis=0) / 300 for each in series]  # type: ignore[union-attr]
    return np.stack(banks)


@pytest.mark.parametrize("draw", list(DRAWS.values()), ids=list(DRAWS))
def test_all_pods_have_a_node_and_use_what_is_wanted(draw: Draw) -> None:
    day = other_day(_jobs(memory=draw.trace is Trace.GOOGLE), 3, draw, SMALL)
    assert all(node for d in day.deployments for node in d.nodes)
    use, cores = _use(day), [node.cpu_millicores for node in day.nodes.values()]
    assert len(use) == SMALL.pods
    assert use[:, :, 0].sum(axis=0).mean() / sum(cores) == pytest.approx(draw.mean_cpu)
    assert use[:, :, 0].max() <= min(cores) / 2 * 1.000001
    assert set(cores) == ({8_000, 16_000, 32_000, 64_000} if draw.mixed_nodes else {32_000})


def test_memory_that_the_trace_does_not_have_is_constant_and_requested() -> None:
    day = other_day(_jobs(), 3, Draw(Trace.BITBRAINS, 0.5, mixed_nodes=True), SMALL)
    memory = _use(day)[:, :, 1]
    assert np.ptp(memory, axis=1).max() < 1e-3 * memory.min()
    requested = [
        d.template.scheduling.requests.memory_bytes for d in day.deployments for _ in d.nodes
    ]
    assert (requested >= memory[:, 0] * 0.999).all()
    total = sum(node.memory_bytes for node in day.nodes.values())
    assert memory[:, 0].sum() / total == pytest.approx(0.4)


def test_odd_requests_have_nothing_to_do_with_usage() -> None:
    draw = Draw(Trace.BITBRAINS, 0.5, requests=Regime.ODD)
    asked, used = [], []
    for seed in range(6):
        day = other_day(_jobs(), seed, draw, SMALL)
        for deployment in day.deployments:
            asked.append(deployment.template.scheduling.requests.cpu_millicores)
            used.append(_use(Day({}, (deployment,)))[:, :, 0].mean())
    assert abs(np.corrcoef(np.log(asked), np.log(used))[0, 1]) < 0.5


def test_the_same_seed_draws_the_same_day() -> None:
    draw = DRAWS[next(iter(DRAWS))]
    first, second = (other_day(_jobs(), 5, draw, SMALL) for _ in range(2))
    assert (_use(first) == _use(second)).all()
    assert [d.nodes for d in first.deployments] == [d.nodes for d in second.deployments]


def test_a_series_that_is_often_above_the_maximum_is_scaled_down_and_not_cut_flat() -> None:
    slow, busy = np.full(100, 1.0), np.linspace(50.0, 150.0, 100)
    found = with_mean(np.stack([slow, busy]), mean=2.0, most=4.0)
    assert found.mean() == pytest.approx(2.0)
    assert found.max() == 4.0
    assert (found[1] == 4.0).mean() == pytest.approx(0.1)
    assert len(np.unique(found[1].round(6))) > 80


def test_a_mean_above_the_maximum_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot use so much"):
        with_mean(np.ones((2, 10)), mean=5.0, most=4.0)


def test_most_unequal_workloads_are_small_and_some_are_very_large() -> None:
    sizes = np.array([len(g) for g in unequal_groups(20_000, np.random.default_rng(0))])
    assert sizes.sum() == 20_000
    assert np.median(sizes) <= 2
    assert 100 < sizes.max() <= 200
