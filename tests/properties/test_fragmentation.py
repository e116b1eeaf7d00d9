"""Fragmentation of GPUs on any nodes and for any pods."""

import hypothesis.extra.numpy as arrays
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from desched.planning.arrays import Floats, Mask
from desched.plugins.gpus.fragmentation import fragmentation

ROUNDING = 1e-9


@st.composite
def situations(draw: st.DrawFn) -> tuple[Floats, Mask, Floats, Floats]:
    nodes, gpus, classes = (draw(st.integers(1, 6)) for _ in range(3))
    parts = st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0])
    weights = draw(arrays.arrays(np.float64, classes, elements=st.floats(0.01, 1.0)))
    return (
        draw(arrays.arrays(np.float64, (nodes, gpus), elements=parts)),
        draw(arrays.arrays(np.bool_, (classes, nodes))),
        draw(arrays.arrays(np.float64, classes, elements=parts)),
        weights / weights.sum(),
    )


@given(situations())
def test_it_is_between_nothing_and_all_that_is_idle(
    situation: tuple[Floats, Mask, Floats, Floats],
) -> None:
    found, idle = fragmentation(*situation), situation[0].sum(axis=1)
    assert (found >= 0).all()
    assert (found <= idle + ROUNDING).all()


@given(situations())
def test_it_is_the_mean_over_the_classes(situation: tuple[Floats, Mask, Floats, Floats]) -> None:
    residuals, hosts, needs, shares = situation
    expected = np.zeros(len(residuals))
    for node, parts in enumerate(residuals):
        for each, share in enumerate(shares):
            usable = needs[each] > 0 and hosts[each, node]
            expected[node] += share * sum(r for r in parts if not usable or r < needs[each])
    assert np.allclose(fragmentation(*situation), expected)


@given(situations(), st.data())
def test_where_more_pods_find_room_it_is_no_larger(
    situation: tuple[Floats, Mask, Floats, Floats], data: st.DataObject
) -> None:
    residuals, hosts, needs, shares = situation
    more = hosts | data.draw(arrays.arrays(np.bool_, hosts.shape))
    fewer, found = (fragmentation(residuals, each, needs, shares) for each in (hosts, more))
    assert (found <= fewer + ROUNDING).all()


@given(st.lists(st.integers(0, 8), min_size=2, max_size=6), st.lists(st.integers(1, 8), min_size=1))
def test_to_fill_one_node_from_another_never_raises_it(idle: list[int], sizes: list[int]) -> None:
    """Pods leave the second node until no GPU of the first is idle."""
    needs = np.ones(len(sizes))
    shares = needs / len(sizes)

    def total(free: list[int]) -> float:
        hosts = np.array([[each >= size for each in free] for size in sizes])
        return float(
            fragmentation(np.array(free, dtype=float)[:, None], hosts, needs, shares).sum()
        )

    assert total([0, idle[0] + idle[1], *idle[2:]]) <= total(idle) + ROUNDING
