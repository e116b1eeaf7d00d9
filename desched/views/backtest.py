"""Backtests as tables: what happened beside what each policy would have done."""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from desched.history.past import Doubt
from desched.views.formatting import count, percent, plain
from desched.views.grouped_list import print_lines
from desched.views.policy_figures import (
    figures_table,
    print_idle,
    print_nodes,
    print_workloads,
)
from desched.views.reasons import describe
from desched.whatif.figures import Backtest

WITHOUT = "as it was"


def print_backtest(backtest: Backtest, console: Console) -> None:
    """Print the backtest; it needs no colour, and 80 columns are enough for two policies."""
    console.print(Text("desched · backtest", style="bold"))
    console.print(Text("; ".join(about(backtest))))
    console.print()
    console.print(figures_table(backtest.policies, WITHOUT))
    console.print()
    print_nodes(backtest.policies, WITHOUT, console)
    print_workloads(backtest.policies, console)
    print_idle(backtest.policies, console)
    _print_doubts("Assumed:", backtest.assumed, console)
    _print_doubts("Not known:", backtest.unknown, console)


def about(backtest: Backtest) -> tuple[str, ...]:
    """What was replayed, and how much of it is known."""
    began, ended = (f"{at:%Y-%m-%d %H:%M}" for at in (backtest.started_at, backtest.ended_at))
    nodes, pods = count(backtest.nodes, "node"), count(backtest.pods, "pod")
    return (
        f"{began} to {ended} UTC, a cycle every {backtest.interval_seconds:.0f} s",
        f"{nodes}, {pods} and {count(backtest.workloads, 'workload')} in this time",
        f"load known for {percent(backtest.covered_share)} % of the nodes' time",
    )


def caveat(doubt: Doubt) -> str:
    """What is assumed or unknown, in a sentence."""
    return describe(doubt.caveat, plain(doubt.detail).removesuffix("."))


def _print_doubts(title: str, doubts: Iterable[Doubt], console: Console) -> None:
    print_lines(title, (f"• {sentence}" for sentence in map(caveat, doubts)), console)
