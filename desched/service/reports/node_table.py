"""The nodes of a report as a table, those with the highest load first."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from desched.model.plan import NodeClass, NodeVerdict, ResourcePressure, UnjudgedLoad
from desched.model.report import CycleReport
from desched.model.resources import Resource
from desched.policy.durations import duration_text
from desched.service.reports.formatting import percent, plain

MOST_NODES = 20
COLUMN_ORDER = (Resource.CPU, Resource.MEMORY, Resource.PODS)
RESOURCE_NAMES = {Resource.CPU: "CPU", Resource.MEMORY: "Memory", Resource.PODS: "Pods"}
CLASS_STYLES = {
    NodeClass.OVERLOADED: "bold red",
    NodeClass.BALANCED: "",
    NodeClass.UNDERLOADED: "green",
    NodeClass.UNKNOWN: "yellow",
    NodeClass.OUT_OF_SCOPE: "dim",
}


def print_nodes(report: CycleReport, console: Console) -> None:
    """Print each node with its levels, its thresholds and its levels after the plan.

    In a large cluster only overloaded nodes and expected destinations are shown; the others are
    counted.
    """
    shown, left = _choose_nodes(report)
    resources = [r for r in COLUMN_ORDER if any(_levels(verdict, r) for verdict in shown)]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("Node", overflow="fold")
    table.add_column("State")
    for resource in resources:
        heading = f"{RESOURCE_NAMES[resource]} % {_windows(shown, resource)}".rstrip()
        table.add_column(heading, justify="right")
        table.add_column("target/stop", justify="right")
        table.add_column("after", justify="right")
    for verdict in shown:
        cells = [cell for r in resources for cell in _cells(verdict, r)]
        table.add_row(
            Text(plain(verdict.node)),
            Text(verdict.node_class.replace("_", " "), style=CLASS_STYLES[verdict.node_class]),
            *cells,
        )
    console.print(table)
    if left:
        kinds = Counter(verdict.node_class.replace("_", " ") for verdict in left)
        counts = ", ".join(f"{number} more {kind}" for kind, number in sorted(kinds.items()))
        console.print(Text(f"… and {counts}"))


def _choose_nodes(report: CycleReport) -> tuple[Sequence[NodeVerdict], Sequence[NodeVerdict]]:
    """The nodes to show, those with the highest load first, and the rest."""
    ranked = sorted(report.plan.nodes, key=lambda verdict: (-_excess(verdict), verdict.node))
    if len(ranked) <= MOST_NODES:
        return ranked, ()
    goals = {eviction.expected_node for eviction in report.plan.evictions}
    overloaded = NodeClass.OVERLOADED
    chosen = [v for v in ranked if v.node_class is overloaded or v.node in goals]
    shown = (chosen or ranked)[:MOST_NODES]
    names = {verdict.node for verdict in shown}
    return shown, [verdict for verdict in ranked if verdict.node not in names]


def _line(ratio: float) -> str:
    return percent(ratio).removesuffix(".0")


def _excess(verdict: NodeVerdict) -> float:
    """The largest distance of a resource above its target; nodes without numbers sort last."""
    return max(
        (pressure.lowest_ratio - pressure.target_ratio for pressure in verdict.pressures),
        default=float("-inf"),
    )


def _pressure(verdict: NodeVerdict, resource: Resource) -> ResourcePressure | None:
    return next((p for p in verdict.pressures if p.resource is resource), None)


def _windows(verdicts: Iterable[NodeVerdict], resource: Resource) -> str:
    """The windows of the levels in a cell, as `5m/15m`."""
    measured = max((_measured(verdict, resource) for verdict in verdicts), key=len, default=())
    return "/".join(duration_text(window) for window, _ in measured)


def _measured(verdict: NodeVerdict, resource: Resource) -> tuple[tuple[int, float], ...]:
    """The level of each window, also of a node that is not judged."""
    loads: tuple[ResourcePressure | UnjudgedLoad, ...] = (*verdict.pressures, *verdict.unjudged)
    return next((load.measured for load in loads if load.resource is resource), ())


def _levels(verdict: NodeVerdict, resource: Resource) -> list[float]:
    pressure = _pressure(verdict, resource)
    levels = [ratio for _, ratio in _measured(verdict, resource)]
    return levels or ([pressure.highest_ratio] if pressure else [])


def _cells(verdict: NodeVerdict, resource: Resource) -> tuple[Text, Text, Text]:
    """The levels now, target and stop line, and the level after the plan.

    The levels of a node that is not judged are in brackets: they decide nothing.
    """
    pressure, levels = _pressure(verdict, resource), _levels(verdict, resource)
    text = "/".join(map(percent, levels))
    if pressure is None:
        return Text(f"({text})" if text else "?", style="dim"), Text(""), Text("")
    after = "" if pressure.after_ratio is None else percent(pressure.after_ratio)
    style = CLASS_STYLES[NodeClass.OVERLOADED] if pressure.overloaded else ""
    return (
        Text(text, style=style),
        Text(f"{_line(pressure.target_ratio)}/{_line(pressure.stop_ratio)}"),
        Text(after),
    )
