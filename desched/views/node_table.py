"""The nodes of a cycle as a table in a terminal, those with the highest load first."""

import math
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from desched.model.groups import grouped
from desched.model.plan import NodeClass
from desched.model.report import RecentLoad
from desched.model.resources import Resource
from desched.policy.durations import duration_text
from desched.views.cycle import CycleView, LoadView, NodeView
from desched.views.grouped_list import plain_table
from desched.wording.formatting import RESOURCE_NAMES, first_names, percent, plain, resource_title

MOST_NODES = 20
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


def print_nodes(cycle: CycleView, console: Console) -> None:
    """Print each node with its levels, its thresholds and its levels after the plan.

    A terminal shows the recent load as well. Where it is narrow, resources are stacked.
    """
    shown, left = cycle.most_important(MOST_NODES)
    draws = console.is_terminal and console.encoding.startswith("utf")
    nodes = _Shown(shown, cycle, draws=draws)
    table = _fitting(nodes, console)
    console.print(table)
    if nodes.last and any(column.header == nodes.last for column in table.columns):
        console.print(Text(nodes.legend, style="dim"))
    if left:
        console.print(Text(f"… and {left}"))
    unknown = cycle.unknown_gpus
    for why, names in grouped((detail, plain(node)) for node, detail in unknown).items():
        because = f" ({plain(why)})" if why else ""
        console.print(Text(f"Unknown GPU load: {first_names(names)}{because}", style="dim"))


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

    def __init__(self, nodes: Sequence[NodeView], cycle: CycleView, *, draws: bool) -> None:
        self._nodes = nodes
        self._columns = cycle.columns(wide=False)
        self._unknown_gpus = {name for name, _ in cycle.unknown_gpus}
        unknown = {Resource.GPU} if self._unknown_gpus else set()
        self._resources = [
            resource
            for resource in RESOURCE_NAMES
            if resource in unknown or any(resource in node.loads for node in nodes)
        ]
        loads = [load for node in nodes for load in node.loads.values()]
        self._judged = {
            resource
            for node in nodes
            for resource, load in node.loads.items()
            if load.pressure is not None
        }
        drawn = [load.recent for load in loads if draws and load.recent]
        self.last = f"last {duration_text(max(map(span_of, drawn)))}" if drawn else ""
        step = duration_text(drawn[0].step_seconds) if drawn else ""
        self.legend = (
            f"{self.last}: a block for each {step}, {BLOCKS[0]} is idle, {BLOCKS[-1]} is full, "
            "red is above the target, blank is unknown."
        )

    def side_by_side(self) -> Table:
        """A row for each node."""
        table = plain_table()
        table.add_column("Node", overflow="fold")
        table.add_column("State")
        for column in self._columns:
            table.add_column(column.title, overflow="fold")
        for resource in self._resources:
            name = f"{resource_title(resource)} % {self._windows(resource)}"
            table.add_column(name.rstrip(), justify="right")
            if resource in self._judged:
                table.add_column("target/stop", justify="right")
                table.add_column("after", justify="right")
            if self.last:
                table.add_column(self.last)
        for node in self._nodes:
            cells = [cell for resource in self._resources for cell in self._cells(node, resource)]
            table.add_row(*self._heads(node), *cells)
        return table

    def stacked(self) -> Table:
        """A line for each resource of a node."""
        table = self._lines(_NAME_CHARACTERS)
        table.add_column("target/stop", justify="right")
        table.add_column("after", justify="right")
        if self.last:
            table.add_column(self.last)
        for node, resource, names in self._stacked():
            cells = self._cells(node, resource, padded=True) if resource else ()
            table.add_row(*names, *cells)
        return table

    def smallest(self) -> Table:
        """A line for each resource of a node, with its levels now and after the plan only."""
        table = self._lines(_SHORT_NAME_CHARACTERS)
        table.add_column("after", justify="right")
        for node, resource, names in self._stacked():
            cells = self._cells(node, resource, padded=True) if resource else [Text()] * 3
            table.add_row(*names, cells[0], cells[2])
        return table

    def _lines(self, name_characters: int) -> Table:
        windows = {windows_of for r in self._resources if (windows_of := self._windows(r))}
        table = plain_table()
        table.add_column("Node", overflow="fold", max_width=name_characters)
        table.add_column("")
        title = f"% {windows.pop()}" if len(windows) == 1 else "%"
        table.add_column(title, justify="right", overflow="fold")
        return table

    def _stacked(self) -> Iterator[tuple[NodeView, Resource | None, tuple[Text, Text]]]:
        """Each line: the node, what it is about if anything, and both of their names.

        The first line has the name of the node, the second one its state, the next ones columns.
        """
        for node in self._nodes:
            lines = [r for r in self._resources if r is not Resource.GPU or self._has_gpus(node)]
            heads = [head for head in self._heads(node, titled=True) if head]
            for resource, head in zip_longest(lines, heads, fillvalue=None):
                name = resource_title(resource) if resource else ""
                yield node, resource, (head or Text(), Text(name))

    def _heads(self, node: NodeView, *, titled: bool = False) -> list[Text]:
        """The name, the state, and the columns; `titled` if nothing above has their titles."""
        texts = [(f"{c.title} " if titled else "", c.text(node)) for c in self._columns]
        columns = [Text(plain(title + text) if text else "") for title, text in texts]
        return [Text(plain(node.name)), _state(node), *columns]

    def _has_gpus(self, node: NodeView) -> bool:
        return Resource.GPU in node.loads or node.name in self._unknown_gpus

    def _windows(self, resource: Resource) -> str:
        """The windows of the levels in a cell, as `5m/15m`."""
        loads = [node.loads[resource].measured for node in self._nodes if resource in node.loads]
        longest = max(loads, key=len, default=())
        return "/".join(duration_text(window) for window, _ in longest if window)

    def _cells(self, node: NodeView, resource: Resource, *, padded: bool = False) -> list[Text]:
        """The levels now, target and stop line, the level after the plan, and the last hour.

        The levels of a node that is not judged are in brackets: they decide nothing.
        """
        load = node.loads.get(resource)
        lines, after = Text(""), Text("")
        if load is None:
            unknown = resource is not Resource.GPU or self._has_gpus(node)
            levels = Text("?" if unknown else "", style="dim")
        elif (pressure := load.pressure) is None:
            levels = Text(f"({_levels(load)})", style="dim")
        else:
            style = CLASS_STYLES[NodeClass.OVERLOADED] if pressure.overloaded else ""
            levels = Text(_levels(load), style=style)
            lines = Text(f"{_line(pressure.target_ratio)}/{_line(pressure.stop_ratio)}")
            after = Text("" if pressure.after_ratio is None else percent(pressure.after_ratio))
        cells = [levels, lines, after] if padded or resource in self._judged else [levels]
        return [*cells, sparkline(load)] if self.last else cells


def _state(node: NodeView) -> Text:
    return Text(node.node_class, style=CLASS_STYLES[node.verdict.node_class])


def _levels(load: LoadView) -> str:
    return "/".join(percent(ratio) for _, ratio in load.measured) or percent(load.highest_ratio)


def _line(ratio: float) -> str:
    return percent(ratio).removesuffix(".0")


def span_of(load: RecentLoad) -> int:
    """The seconds between the first and the last point."""
    return load.step_seconds * (len(load.ratios) - 1)


def sparkline(load: LoadView | None) -> Text:
    """The points as a line of blocks, from nothing to all of the capacity."""
    line = Text()
    target = load.pressure.target_ratio if load and load.pressure else math.inf
    for ratio in load.recent.ratios if load and load.recent else ():
        if ratio is None:
            line.append(" ")
            continue
        block = BLOCKS[min(int(ratio * len(BLOCKS)), len(BLOCKS) - 1)]
        line.append(block, CLASS_STYLES[NodeClass.OVERLOADED] if ratio > target else "")
    return line
