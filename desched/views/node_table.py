"""The nodes of a report as a table, those with the highest load first."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import zip_longest

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from desched.model.groups import grouped
from desched.model.plan import NodeClass, NodeVerdict, ResourcePressure, UnjudgedLoad
from desched.model.report import CycleReport, GpuLoad, RecentLoad
from desched.model.resources import Resource
from desched.policy.durations import duration_text
from desched.views.formatting import clock_time, first_names, percent, plain

MOST_NODES = 20
RESOURCE_NAMES = {
    Resource.CPU: "CPU",
    Resource.MEMORY: "Memory",
    Resource.GPU: "GPU",
    Resource.PODS: "Pods",
}
COLUMN_ORDER = tuple(RESOURCE_NAMES)

BLOCKS = "▁▂▃▄▅▆▇█"
_UNBOUNDED = 10_000
_NAME_CHARACTERS = 26
_SHORT_NAME_CHARACTERS = 14
"""Of the names of nodes in a narrow terminal; longer ones are folded."""

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
    counted. A terminal shows the recent load as well. Where it is narrow, resources are stacked.
    """
    shown, left = _choose_nodes(report)
    draws = console.is_terminal and console.encoding.startswith("utf")
    nodes = _Shown(shown, report.recent_loads if draws else (), report.gpu_loads)
    console.print(_fitting(nodes, console))
    if left:
        kinds = Counter(verdict.node_class.replace("_", " ") for verdict in left)
        counts = ", ".join(f"{number} more {kind}" for kind, number in sorted(kinds.items()))
        console.print(Text(f"… and {counts}"))
    for line in _unknown_gpus(shown, report.gpu_loads):
        console.print(Text(line, style="dim"))


def _unknown_gpus(shown: Iterable[NodeVerdict], gpus: Iterable[GpuLoad]) -> Iterator[str]:
    """Why the load of the GPUs of shown nodes is not known."""
    names = {verdict.node for verdict in shown}
    unknown = [each for each in gpus if each.ratio is None and each.node in names]
    for why, nodes in grouped((each.detail, plain(each.node)) for each in unknown).items():
        yield f"Unknown GPU load: {first_names(nodes)}{f' ({plain(why)})' if why else ''}"


def _fitting(nodes: "_Shown", console: Console) -> Table:
    """The first layout that fits; the last one folds what does not."""
    unbounded = console.options.update(width=_UNBOUNDED)
    for layout in (nodes.side_by_side, nodes.stacked):
        table = layout()
        if Measurement.get(console, unbounded, table).maximum <= console.width:
            return table
    return nodes.smallest()


class _Shown:
    """Nodes that are shown, in layouts of different widths."""

    def __init__(
        self,
        verdicts: Sequence[NodeVerdict],
        recent: Iterable[RecentLoad],
        gpus: Iterable[GpuLoad],
    ) -> None:
        self._verdicts = verdicts
        names = {verdict.node for verdict in verdicts}
        self._gpus = {gpu.node: gpu for gpu in gpus if gpu.node in names}
        self._resources = [r for r in COLUMN_ORDER if any(_levels(v, r) for v in verdicts)]
        self._only_seen = bool(self._gpus) and Resource.GPU not in self._resources
        self._recent = {(each.node, each.resource): each for each in recent}
        spans = {span_of(load) for load in self._recent.values()}
        self._last = f"last {duration_text(max(spans))}" if spans else ""

    def side_by_side(self) -> Table:
        """A row for each node."""
        table = _table()
        table.add_column("Node", overflow="fold")
        table.add_column("State")
        for resource in self._resources:
            name = f"{RESOURCE_NAMES[resource]} %"
            table.add_column(f"{name} {self._windows(resource)}".rstrip(), justify="right")
            table.add_column("target/stop", justify="right")
            table.add_column("after", justify="right")
            if self._last:
                table.add_column(self._last)
        if self._only_seen:
            table.add_column(f"GPU % {self._gpu_window()}".rstrip(), justify="right")
        for verdict in self._verdicts:
            cells = [cell for r in self._resources for cell in self._cells(verdict, r)]
            if self._only_seen:
                cells.append(self._gpu(verdict))
            table.add_row(Text(plain(verdict.node)), _state(verdict), *cells)
        return table

    def stacked(self) -> Table:
        """A line for each resource of a node."""
        table = self._lines(_NAME_CHARACTERS)
        table.add_column("target/stop", justify="right")
        table.add_column("after", justify="right")
        if self._last:
            table.add_column(self._last)
        for verdict, resource, names in self._stacked():
            table.add_row(*names, *self._line_cells(verdict, resource))
        return table

    def smallest(self) -> Table:
        """A line for each resource of a node, with its levels now and after the plan only."""
        table = self._lines(_SHORT_NAME_CHARACTERS)
        table.add_column("after", justify="right")
        for verdict, resource, names in self._stacked():
            levels, _, after, *_ = (*self._line_cells(verdict, resource), *[Text()] * 3)
            table.add_row(*names, levels, after)
        return table

    def _lines(self, name_characters: int) -> Table:
        windows = {found for r in self._resources if (found := self._windows(r))}
        table = _table()
        table.add_column("Node", overflow="fold", max_width=name_characters)
        table.add_column("")
        heading = f"% {windows.pop()}" if len(windows) == 1 else "%"
        table.add_column(heading, justify="right", overflow="fold")
        return table

    def _stacked(self) -> Iterator[tuple[NodeVerdict, Resource | None, tuple[Text, Text]]]:
        """Each line: the node, what it is about if anything, and both of their names.

        The first line has the name of the node, the second one its state.
        """
        for verdict in self._verdicts:
            gpu = [Resource.GPU] if verdict.node in self._gpus else []
            lines = [*(r for r in self._resources if r is not Resource.GPU), *gpu]
            resources = [*lines, None, None][: max(2, len(lines))]
            heads = [Text(plain(verdict.node)), _state(verdict)]
            for resource, head in zip_longest(resources, heads, fillvalue=None):
                name = RESOURCE_NAMES[resource] if resource else ""
                yield verdict, resource, (head or Text(), Text(name))

    def _line_cells(self, verdict: NodeVerdict, resource: Resource | None) -> Sequence[Text]:
        if resource is Resource.GPU and self._only_seen:
            return [self._gpu(verdict)]
        return self._cells(verdict, resource) if resource else []

    def _gpu_window(self) -> str:
        seconds = max(gpu.window_seconds for gpu in self._gpus.values())
        return duration_text(seconds) if seconds else ""

    def _gpu(self, verdict: NodeVerdict) -> Text:
        """The load of the node's GPUs, where they have neither a target nor a level afterwards."""
        gpu = self._gpus.get(verdict.node)
        if gpu is None:
            return Text("")
        return Text("?", style="dim") if gpu.ratio is None else Text(percent(gpu.ratio))

    def _windows(self, resource: Resource) -> str:
        """The windows of the levels in a cell, as `5m/15m`."""
        measured = max((_measured(v, resource) for v in self._verdicts), key=len, default=())
        return "/".join(duration_text(window) for window, _ in measured if window)

    def _cells(self, verdict: NodeVerdict, resource: Resource) -> list[Text]:
        cells = [*_cells(verdict, resource)]
        if resource is Resource.GPU and not _levels(verdict, resource):
            cells[0] = self._gpu(verdict)
        if self._last:
            load = self._recent.get((verdict.node, resource))
            cells.append(sparkline(load, _pressure(verdict, resource)))
        return cells


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


def _state(verdict: NodeVerdict) -> Text:
    return Text(verdict.node_class.replace("_", " "), style=CLASS_STYLES[verdict.node_class])


def span_of(load: RecentLoad) -> int:
    """The seconds between the first and the last point."""
    return load.step_seconds * (len(load.ratios) - 1)


def sparkline(load: RecentLoad | None, pressure: ResourcePressure | None) -> Text:
    """The points as a line of blocks, from nothing to all of the capacity."""
    line = Text()
    target = pressure.target_ratio if pressure else math.inf
    for ratio in load.ratios if load else ():
        if ratio is None:
            line.append(" ")
            continue
        block = BLOCKS[min(int(ratio * len(BLOCKS)), len(BLOCKS) - 1)]
        line.append(block, CLASS_STYLES[NodeClass.OVERLOADED] if ratio > target else "")
    return line


def highest_load_first(verdicts: Iterable[NodeVerdict]) -> list[NodeVerdict]:
    """The nodes by how far a resource is above its target; those without numbers come last.

    The lowest window counts, as it does for overload.
    """

    def excess(verdict: NodeVerdict) -> float:
        return max(
            (pressure.lowest_ratio - pressure.target_ratio for pressure in verdict.pressures),
            default=float("-inf"),
        )

    return sorted(verdicts, key=lambda verdict: (-excess(verdict), verdict.node))


def node_detail(verdict: NodeVerdict, now: datetime) -> str:
    """The detail of the node's reason, and until when it is left alone."""
    if verdict.until is None or " until " in verdict.detail:
        return verdict.detail
    until = f"until {clock_time(verdict.until, now)} at the earliest"
    return f"{verdict.detail}, {until}" if verdict.detail else until


def _choose_nodes(report: CycleReport) -> tuple[Sequence[NodeVerdict], Sequence[NodeVerdict]]:
    """The nodes to show, those with the highest load first, and the rest."""
    ranked = highest_load_first(report.plan.nodes)
    if len(ranked) <= MOST_NODES:
        return ranked, ()
    goals = frozenset[str]().union(*(each.likely_nodes for each in report.plan.evictions))
    overloaded = NodeClass.OVERLOADED
    chosen = [v for v in ranked if v.node_class is overloaded or v.node in goals]
    shown = (chosen or ranked)[:MOST_NODES]
    names = {verdict.node for verdict in shown}
    return shown, [verdict for verdict in ranked if verdict.node not in names]


def _line(ratio: float) -> str:
    return percent(ratio).removesuffix(".0")


def _pressure(verdict: NodeVerdict, resource: Resource) -> ResourcePressure | None:
    return next((p for p in verdict.pressures if p.resource is resource), None)


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
