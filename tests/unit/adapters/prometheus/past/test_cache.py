import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from desched.adapters.prometheus.client import Samples
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.past.block import Block, Grid, block_of
from desched.adapters.prometheus.past.cache import KEPT, BlockCache

GRID = Grid(1000, 1900, 100)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def a_block(grid: Grid = GRID) -> Block:
    times = np.array([1000.0, 1200.0])
    return block_of(grid, [Samples({"pod": "ä", "node": "a"}, times, np.array([0.1, np.inf]))])


def cache(
    directory: Path, url: str = "http://prom:9090", now: datetime = NOW, tenant: str = "a"
) -> BlockCache:
    return BlockCache(
        directory, PrometheusConnection(url=url, headers={"X-Scope-OrgID": tenant}), now
    )


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    cache(tmp_path).keep("up", a_block())
    found = cache(tmp_path).find("up", GRID)
    assert found is not None
    assert (found.grid, list(found.labels)) == (GRID, [{"pod": "ä", "node": "a"}])
    assert found.firsts.tolist() == [0]
    assert found.values == pytest.approx([0.1, np.nan, np.inf], nan_ok=True)


def test_other_expressions_times_servers_and_tenants_have_other_files(tmp_path: Path) -> None:
    cache(tmp_path).keep("up", a_block())
    assert cache(tmp_path).find("down", GRID) is None
    assert cache(tmp_path).find("up", GRID._replace(end=1800)) is None
    assert cache(tmp_path, "http://other:9090").find("up", GRID) is None
    assert cache(tmp_path, tenant="b").find("up", GRID) is None


def test_only_the_user_may_look(tmp_path: Path) -> None:
    cache(tmp_path / "new").keep("up", a_block())
    (file,) = files(tmp_path)
    assert (file.parent.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-3], lambda b: b"x" + b, lambda _: b""],
    ids=["cut off", "shifted", "empty"],
)
def test_a_damaged_file_is_as_good_as_none(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    cache(tmp_path).keep("up", a_block())
    (file,) = files(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert cache(tmp_path).find("up", GRID) is None


def test_a_block_that_does_not_fit_its_times_is_as_good_as_none(tmp_path: Path) -> None:
    long = a_block()._replace(firsts=np.array([9]))
    cache(tmp_path).keep("up", long)
    assert cache(tmp_path).find("up", GRID) is None


def test_a_directory_that_cannot_be_written_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    blocked = cache(tmp_path / "file")
    blocked.keep("up", a_block())
    assert blocked.find("up", GRID) is None
    blocked.remove_old()


def test_files_that_nobody_uses_are_removed(tmp_path: Path) -> None:
    cache(tmp_path).keep("up", a_block())
    cache(tmp_path).keep("down", a_block())
    for file in files(tmp_path):
        os.utime(file, (NOW.timestamp(), NOW.timestamp()))
    later = cache(tmp_path, now=NOW + KEPT - timedelta(days=1))
    assert later.find("up", GRID) is not None
    cache(tmp_path, now=NOW + KEPT + timedelta(days=1)).remove_old()
    assert len(files(tmp_path)) == 1
    assert later.find("up", GRID) is not None
