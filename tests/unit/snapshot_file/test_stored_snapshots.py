"""Snapshot files of earlier versions can be read, and give the plan that they gave."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from desched import __version__
from tests.stored_snapshots import STORED, plan_of, plan_path

FILES = sorted(STORED.glob("*.snapshot"))


def test_this_version_has_one() -> None:
    assert f"desched-{__version__}.snapshot" in {path.name for path in FILES}


def like(then: Any, now: Any) -> Any:
    """What is now, without fields that there were not then; last digits do not count."""
    if isinstance(then, dict) and isinstance(now, dict):
        return {key: like(value, now[key]) for key, value in then.items() if key in now}
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return [like(*both) for both in zip(then, now, strict=True)]
    return then if isinstance(then, float) and now == pytest.approx(then) else now


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_an_earlier_version_gives_the_same_plan(path: Path) -> None:
    now = msgspec.json.decode(msgspec.json.encode(plan_of(path)))
    then = msgspec.json.decode(plan_path(path).read_bytes())

    assert then["evictions"]
    assert like(then, now) == then, (
        "A stored snapshot has another plan now. If planning changed on purpose, run `python -m "
        "tests.stored_snapshots --plans`. Else the format changed: give it a new version."
    )
