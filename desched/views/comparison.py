"""What happened to nodes over time, side by side: a page and a terminal write the same value."""

from collections.abc import Iterator, Sequence

import msgspec

from desched.history.overload import Overload
from desched.history.timeline import Timeline
from desched.model.resources import Resource
from desched.wording.formatting import RESOURCE_NAMES, percent
from desched.wording.section import Section

CPU_UNKNOWN = "The time at 100 % CPU is not known, because the load of CPU is not known."


class Figure(msgspec.Struct, frozen=True):
    """A number for each timeline; None where there is none."""

    label: str
    values: tuple[float | None, ...]
    unit: str = ""

    @property
    def texts(self) -> Sequence[str]:
        """The numbers with their unit."""
        unit = f" {self.unit}" if self.unit else ""
        return ["-" if value is None else number_text(value) + unit for value in self.values]


class NodeFigures(msgspec.Struct, frozen=True):
    """A number for each node, those in percent as shares; a `wide` one is only on pages."""

    label: str
    values: tuple[float | None, ...]
    in_percent: bool = False
    wide: bool = False

    def text(self, row: int) -> str:
        """The number of the node in this row."""
        value = self.values[row]
        if value is None:
            return "-"
        return f"{percent(value)} %" if self.in_percent else number_text(value)


class Comparison(msgspec.Struct, frozen=True):
    """Timelines of the same nodes at the same times, the one without desched first.

    `about` describes them, `summary` how they differ, `notes` what limits the figures. `columns`
    are in the order of the nodes. `workloads` are those with most evictions first.
    """

    title: str
    about: tuple[str, ...]
    timelines: tuple[Timeline, ...]
    summary: tuple[str, ...]
    figures: tuple[Figure, ...]
    columns: tuple[NodeFigures, ...]
    workloads: tuple[Figure, ...] = ()
    notes: tuple[Section, ...] = ()

    @property
    def order(self) -> Sequence[int]:
        """The nodes, those with the most overload and then with the highest load first."""
        names = self.timelines[0].nodes
        minutes = [
            max(e) for e in zip(*(t.overloaded_minutes for t in self.timelines), strict=True)
        ]
        ratios = [load.highest_ratios() for timeline in self.timelines for load in timeline.loads]
        highest = [
            max((r for r in row if r is not None), default=0.0) for row in zip(*ratios, strict=True)
        ]
        return sorted(range(len(names)), key=lambda i: (-minutes[i], -highest[i], names[i]))


def number_text(value: float) -> str:
    """A number with thousands apart, and one decimal unless it is whole."""
    return f"{value:,.1f}".removesuffix(".0")


def overload_figures(overloads: Sequence[Overload]) -> Iterator[Figure]:
    """How much overload there was, and how severe it was; what nobody knows is left out."""
    for label, name in (
        ("overloaded node-minutes", "node_minutes"),
        ("node-minutes above 90 %", "above_90_node_minutes"),
        ("node-minutes at 100 % CPU", "full_cpu_node_minutes"),
        ("point-minutes above target", "excess_point_minutes"),
        ("CPU not given, node-min", "unmet_cpu_node_minutes"),
        ("longest overload, minutes", "longest_episode_minutes"),
        ("nodes overloaded", "nodes"),
    ):
        values = tuple(getattr(overload, name) for overload in overloads)
        if set(values) != {None}:
            yield Figure(label, values)


def resources_of(timelines: Sequence[Timeline]) -> list[Resource]:
    """The resources that the timelines have, in the order of tables."""
    return [r for r in RESOURCE_NAMES if any(load.resource is r for load in timelines[0].loads)]
