"""The nodes of a cycle as a table in a terminal, those with the highest load first."""

import math
from itertools import zip_longest

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from desched.model.groups import grouped
from desched.model.plan import NodeClass
from desched.model.report import RecentLoad
from desched.model.resources import Resource
from desched.policy.durations import duration_text
from desched.views.blocks import styled, table
from desched.views.cycle import CycleView, LoadView, NodeView
from desched.wording.formatting import RESOURCE_NAMES, first_names, percent, resource_title

MOST_NODES = 20
BLOCKS = "▁▂▃▄▅▆▇█"
_UNBOUNDED = 10_000
_FURTHER = ("target/stop", "after")
_LEAST_FOR_ALL = 60
"""The columns of a terminal that shows lines and the recent load as well."""

CLASS_STYLES = {
    NodeClass.OVERLOADED: "bold red",
    NodeClass.BALANCED: "",
    NodeClass.UNDERLOADED: "green",
    NodeClass.UNKNOWN: "yellow",
    NodeClass.OUT_OF_SCOPE: "dim",
}


class NodeTable:
    """Each node with its levels, its thresholds and its levels after the plan.

    A terminal shows the recent load as well. Where it is narrow, resources are stacked.
    """

    def __init__(self, cycle: CycleView) -> None:
        self._nodes, self._left = cycle.most_important(MOST_NODES)
        self._columns = cycle.columns(wide=False)
        self._unknown_gpus = dict(cycle.unknown_gpus)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= _LEAST_FOR_ALL
        draws = wide and options.is_terminal and options.encoding.startswith("utf")
        loads = (load.recent for node in self._nodes for load in node.loads.values())
        recent = [load for load in loads if load and draws]
        last = f"last {duration_text(max(map(span_of, recent)))}" if recent else ""
        made = self._side_by_side(last)
        unbounded = options.update(width=_UNBOUNDED)
        if Measurement.get(console, unbounded, made).maximum > options.max_width:
            made = self._stacked(last, lines=wide)
        yield made
        if recent:
            step = duration_text(recent[0].step_seconds)
            yield styled(
                f"{last}: a block for each {step}, {BLOCKS[0]} is idle, {BLOCKS[-1]} is full, red "
                "is above the target, blank is unknown.",
                "dim",
            )
        if self._left:
            yield Text(f"… and {self._left}")
        why_unknown = grouped((detail, node) for node, detail in self._unknown_gpus.items())
        for why, names in why_unknown.items():
            because = f" ({why})" if why else ""
            yield styled(f"Unknown GPU load: {first_names(names)}{because}", "dim")

    def _side_by_side(self, last: str) -> Table:
        """A row for each node."""
        resources = [r for r in RESOURCE_NAMES if any(self._has(r, node) for node in self._nodes)]
        titles = ["Node", "State", *(column.title for column in self._columns)]
        for resource in resources:
            name = f"{resource_title(resource)} % {self._windows(resource)}".rstrip()
            titles += [name, *_FURTHER, last]
        return table(
            titles,
            [
                [*self._heads(node), *(c for r in resources for c in self._cells(node, r, last))]
                for node in self._nodes
            ],
        )

    def _stacked(self, last: str, *, lines: bool) -> Table:
        """A row for each resource of a node: its name is in the first one, its state below."""
        windows = {windows for r in RESOURCE_NAMES if (windows := self._windows(r))}
        title = f"% {windows.pop()}" if len(windows) == 1 else "%"
        rows = []
        for node in self._nodes:
            resources = [r for r in RESOURCE_NAMES if self._has(r, node)]
            heads = [head for head in self._heads(node, titled=True) if head]
            for resource, head in zip_longest(resources, heads, fillvalue=None):
                name = resource_title(resource) if resource else ""
                levels, judging, *more = self._cells(node, resource, last)
                rows.append([head or "", name, levels, judging if lines else "", *more])
        return table(("Node", "", title, *_FURTHER, last), rows)

    def _heads(self, node: NodeView, *, titled: bool = False) -> list[Text]:
        """The name, the state, and the columns; `titled` if nothing above has their titles."""
        texts = [(f"{c.title} " if titled else "", c.text(node)) for c in self._columns]
        columns = [styled(title + text if text else "", "") for title, text in texts]
        state = Text(node.node_class, style=CLASS_STYLES[node.verdict.node_class])
        return [styled(node.name, ""), state, *columns]

    def _has(self, resource: Resource, node: NodeView) -> bool:
        """Whether the node has a line of this resource, though its load may be unknown."""
        if resource is Resource.GPU:
            return resource in node.loads or node.name in self._unknown_gpus
        return any(resource in each.loads for each in self._nodes)

    def _windows(self, resource: Resource) -> str:
        """The windows of the levels in a cell, as `5m/15m`."""
        loads = [node.loads[resource].measured for node in self._nodes if resource in node.loads]
        longest = max(loads, key=len, default=())
        return "/".join(duration_text(window) for window, _ in longest if window)

    def _cells(self, node: NodeView, resource: Resource | None, last: str) -> list[Text]:
        """The levels now, target and stop line, the level after the plan, and the last hour.

        The levels of a node that is not judged are in brackets: they decide nothing.
        """
        load = node.loads.get(resource) if resource else None
        lines, after = Text(), Text()
        if load is None:
            levels = Text("?" if resource and self._has(resource, node) else "", style="dim")
        elif (pressure := load.pressure) is None:
            levels = Text(f"({_levels(load)})", style="dim")
        else:
            style = CLASS_STYLES[NodeClass.OVERLOADED] if pressure.overloaded else ""
            levels = Text(_levels(load), style=style)
            lines = Text(f"{_line(pressure.target_ratio)}/{_line(pressure.stop_ratio)}")
            after = Text("" if pressure.after_ratio is None else percent(pressure.after_ratio))
        return [levels, lines, after, sparkline(load) if last else Text()]


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
