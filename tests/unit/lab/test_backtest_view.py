"""Backtests as tables, as JSON and as a page."""

from datetime import timedelta
from functools import cache

from msgspec.structs import replace

from desched.lab.comparison import backtest_view, sentence
from desched.lab.figures import Backtest
from desched.lab.past.backtest import backtest
from desched.lab.past.run import Span
from desched.lab.recorded_past import Caveat, Doubt
from desched.views.comparison_table import comparison_blocks
from tests.builders import policy, rule
from tests.shown import text_of
from tests.unit.lab.past.pasts import Life, a_past, at

STEPS = 36
BY = replace(policy(rule(), eviction_price_minutes=0.0), source="policy.yaml")
LATE = replace(policy(rule(), eviction_price_minutes=90.0), source="late.yaml")


@cache
def replayed() -> Backtest:
    """Four pods make node a overloaded all the time; the second policy always waits."""
    lives = [
        *(Life(f"web-{i}", "a", [0.8] * STEPS) for i in range(2)),
        *(Life(f"db-{i}", "a", [0.8] * STEPS, of="db") for i in range(2)),
        Life("web-8", "b", [0.2] * STEPS),
        Life("db-9", "c", [0.2] * STEPS, of="db"),
    ]
    past = replace(a_past(lives, steps=STEPS), doubts=(Doubt(Caveat.PODS_NOT_MEASURED, "3 pods"),))
    return backtest(past, [BY, LATE], Span(at(12), at(STEPS)))


def shown(width: int = 80) -> str:
    return text_of(comparison_blocks(backtest_view(replayed())), width)


def row(label: str) -> list[str]:
    (line,) = (line for line in shown(120).splitlines() if line.startswith(label))
    return line.removeprefix(label).split()


def test_what_happened_stands_beside_what_each_policy_would_have_done() -> None:
    ours, late = replayed().policies
    before, after = ours.without.node_minutes, ours.with_policy.node_minutes
    assert row("overloaded node-minutes") == [f"{x:.0f}" for x in (before, after, before)]
    assert f"({(1 - after / before) * 100:.1f} % less)" in shown(120)
    assert row("evictions  ") == ["-", "1", "0"]
    assert row("evictions per day") == ["-", f"{ours.evictions_per_day:.0f}", "0"]
    assert late.hours.idle[0].hours == 2


def test_the_time_and_what_is_known_of_it_are_said_first() -> None:
    text = " ".join(shown().split())
    assert f"{at(12):%Y-%m-%d %H:%M} to {at(STEPS):%Y-%m-%d %H:%M} UTC, a cycle every 300 s" in text
    assert "3 nodes, 6 pods and 2 workloads in this time" in text
    assert "load known for 100.0 % of the nodes' time" in text


def test_workloads_hours_and_caveats_are_listed() -> None:
    text = " ".join(shown().split())
    (evicted,) = replayed().policies[0].workloads
    assert f"{evicted.workload} - 1 0" in text
    assert "overload_passes" in text
    for each in (*replayed().assumed, *replayed().unknown):
        assert sentence(each) in text
    assert "These pods have no recorded usage; their load stays with the node (3 pods)." in text


def test_a_time_without_overload_has_no_share_that_is_avoided() -> None:
    calm = a_past([Life("web-1", "a", [0.2] * STEPS)], steps=STEPS)
    found = backtest(calm, [BY], Span(at(12), at(12) + timedelta(hours=1)))
    assert "No node is overloaded, and nothing moves." in text_of(
        comparison_blocks(backtest_view(found))
    )
    assert "% less" not in text_of(comparison_blocks(backtest_view(found)))
