"""Projected load of destinations."""

import pytest
from msgspec.structs import replace

from desched.model.resources import Resource
from tests.builders import amounts, evicted, load, node, planned, pod, policy, rule, snapshot

BY = policy(rule(), rule(Resource.MEMORY, target_ratio=0.85))


@pytest.mark.parametrize(("allocatable_gib", "moved"), [(16, ["web-1"]), (8, [])])
def test_memory_counts_against_what_is_allocatable(allocatable_gib: int, moved: list[str]) -> None:
    """4 GiB of pods are there, and 3 come; 75 % of 8 GiB are less, of 16 GiB more."""
    pods = [pod("web-1", on="hot"), pod("db-1", on="cool", of=None)]
    small = replace(amounts(4, allocatable_gib), pods=110)
    seen = snapshot(
        [node("hot"), node("cool", allocatable=small)],
        pods,
        load({"hot": (0.9, 0.3), "cool": (0.1, 0.25)}, {"web-1": (1.0, 3.0), "db-1": (0.1, 4.0)}),
    )

    assert evicted(planned(seen, BY)) == moved
