import numpy as np
import pytest

from desched.adapters.prometheus.client import Samples
from desched.lab.prometheus.block import Block, Grid, block_of, joined

GRID = Grid(1000, 1900, 100)


def samples(name: str, **values: float) -> Samples:
    times = [float(at.removeprefix("t")) for at in values]
    return Samples({"name": name}, np.array(times), np.array(list(values.values())))


def rows(block: Block) -> list[tuple[str, int, list[float]]]:
    return [(labels["name"], first, row.tolist()) for labels, first, row in block.rows()]


def test_each_series_has_its_values_from_its_first_time_on() -> None:
    block = block_of(GRID, [samples("a", t1000=1, t1100=2), samples("b", t1800=3)])
    assert rows(block) == [("a", 0, [1, 2]), ("b", 8, [3])]


def test_times_without_a_sample_have_no_number() -> None:
    ((_, first, row),) = rows(block_of(GRID, [samples("a", t1100=1, t1400=2)]))
    assert first == 1
    assert row == pytest.approx([1, np.nan, np.nan, 2], nan_ok=True)


def test_samples_at_other_times_are_left_out() -> None:
    found = [samples("a", t900=1, t1050=2, t1100=3, t2000=4), samples("b", t950=5)]
    assert rows(block_of(GRID, found)) == [("a", 1, [3])]


def test_extremes_and_newest_values_are_those_of_each_row() -> None:
    block = block_of(GRID, [samples("a", t1000=3, t1200=1), samples("b", t1800=3, t1900=4)])
    assert block.lowest.tolist() == [1, 3]
    assert block.highest.tolist() == [3, 4]
    assert block.newest.tolist() == [1, 4]


def test_a_block_without_series_has_no_extremes() -> None:
    nothing = block_of(GRID, [])
    assert [x.tolist() for x in (nothing.lowest, nothing.highest, nothing.newest)] == [[], [], []]


def test_blocks_of_parts_are_joined_as_further_rows() -> None:
    early, late = GRID._replace(end=1400), GRID._replace(begin=1500)
    parts = [block_of(early, [samples("a", t1400=1)]), block_of(late, [samples("a", t1500=2)])]
    assert rows(joined(GRID, parts)) == [("a", 4, [1]), ("a", 5, [2])]


@pytest.mark.parametrize("begin", [900, 1000, 1100, 1300])
def test_chunks_have_the_same_borders_wherever_the_grid_begins(begin: int) -> None:
    chunks = list(Grid(begin, 2500, 100).chunks(8))
    assert [each.begin for each in chunks[1:]] == [1600, 2400]
    assert (chunks[0].begin, chunks[-1].end) == (begin, 2500)
    assert sum(each.steps for each in chunks) == Grid(begin, 2500, 100).steps


def test_chunks_of_a_grid_beside_the_full_steps_keep_its_times() -> None:
    grid = Grid(1030, 1930, 100)
    times = [at for c in grid.chunks(4) for at in range(c.begin, c.end + 1, c.step_seconds)]
    assert times == list(range(1030, 1931, 100))
