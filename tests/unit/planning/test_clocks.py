"""The allowed difference of clocks, and the hold of a cycle in which they differ by more."""

from datetime import timedelta

import msgspec
import pytest

from desched.model.plan import HoldReason
from desched.planning.clocks import clocks_differ, lead_seconds
from tests.builders import NOW, load, node, planned, pod, snapshot


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("told", "lead"),
    [
        ((0, 10), 0),
        ((-1, 9), 0),
        ((4, 4), 0),
        ((-60, -50), 59),
        ((60, 70), -60),
        ((-3600, 10), 3599),
        ((0, 3610), -3600),
    ],
    ids=["same", "cut off", "once", "ahead", "behind", "earliest ahead", "latest behind"],
)
def test_only_what_is_certain_counts_as_a_difference(told: tuple[int, int], lead: float) -> None:
    times = NOW + at(told[0]), NOW + at(told[1])
    assert lead_seconds(times, NOW, NOW + at(10)) == lead


def test_a_clock_that_is_not_told_does_not_differ() -> None:
    assert lead_seconds(None, NOW, NOW) == 0


def test_a_clock_that_was_set_back_meanwhile_differs() -> None:
    assert lead_seconds((NOW, NOW + at(5)), NOW, NOW - at(600)) == -605


@pytest.mark.parametrize(
    ("leads", "said"),
    [
        ({"cluster_lead_seconds": 5.0, "load_lead_seconds": -60.0}, ""),
        ({"cluster_lead_seconds": 3600.2}, "desched's clock is 3600 s ahead of the API server's"),
        ({"cluster_lead_seconds": -6.0}, "desched's clock is 6 s behind the API server's"),
        ({"load_lead_seconds": 61.0}, "desched's clock is 61 s ahead of Prometheus'"),
    ],
)
def test_clocks_that_differ_by_too_much_hold_the_cycle(leads: dict[str, float], said: str) -> None:
    of_load = load({"hot": (0.9, 0.1), "cool": (0.0, 0.0)}, {"a": (0.4, 0.1)})
    seen = snapshot([node("hot"), node("cool")], [pod("a", on="hot")], of_load)
    seen = msgspec.structs.replace(seen, **leads)
    plan = planned(seen)
    assert clocks_differ(seen) == plan.hold_detail == said
    assert plan.hold is (HoldReason.CLOCKS_DIFFER if said else None)
    assert len(plan.evictions) == (0 if said else 1)
