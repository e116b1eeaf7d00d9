"""Backtests as tables: what happened beside what each policy would have done."""

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.text import Text

from desched.history.past import Doubt
from desched.views.formatting import count, percent, plain
from desched.views.grouped_list import print_section
from desched.views.policy_figures import (
    figures_table,
    print_idle,
    print_nodes,
    print_workloads,
)
from desched.views.rendering import ReportFormat, rendered
from desched.whatif.figures import Backtest

CAVEATS: Mapping[str, str] = {
    "load_follows_pods": "A replacement uses what its predecessor did; all other load stays.",
    "scheduler_simulated": "kube-scheduler's default profile places replacements, simulated.",
    "ready_at_once": "Each replacement is Ready a few seconds after it has a node.",
    "load_in_steps": "Load is read as means of steps; what is shorter is not seen.",
    "somebody_else_moved": (
        "Pods began and ended when they really did, whoever moved, scaled or rolled them out."
    ),
    "lines_averaged": "Lines around the mean of the nodes are averaged over time in these figures.",
    "tolerations_guessed": (
        "Pods of a controller tolerate the taints of nodes on which any of them ran."
    ),
    "constraints_unknown": (
        "Selectors, affinity, spread constraints, volumes, annotations, PodGroups, model caches "
        "and PodDisruptionBudgets are not recorded; pods that they keep in place may move here."
    ),
    "priorities_unknown": (
        "Values of priority classes are not recorded, so the policy's threshold protects all "
        "pods that have one."
    ),
    "labels_unknown": "Labels are not recorded, so what the policy selects by them is unknown.",
    "requests_unknown": "Requests are not recorded, so every pod fits on every node.",
    "nodes_without_size": "Pods on nodes whose size is not recorded are left out.",
    "pods_not_measured": "These pods have no recorded usage; their load stays with the node.",
    "gpus_unknown": "GPU load is not known, so that a target for gpu keeps all pods with a GPU.",
    "throttling_unknown": "Throttled pods count as if they used all that they want.",
    "history_gaps": "The recorded data are incomplete.",
}

WITHOUT = "as it was"


def render_backtest(
    backtest: Backtest,
    format: ReportFormat,  # noqa: A002  (the word for it)
) -> str:
    """The backtest in one of the formats, ending in a newline."""
    return rendered(backtest, lambda console: print_backtest(backtest, console), format)


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
    sentence, detail = CAVEATS[doubt.caveat], plain(doubt.detail).removesuffix(".")
    return f"{sentence.removesuffix('.')} ({detail})." if detail else sentence


def _print_doubts(title: str, doubts: Iterable[Doubt], console: Console) -> None:
    if lines := [f"  • {caveat(each)}" for each in doubts]:
        print_section(title, Text("\n".join(lines), style="dim"), console)
