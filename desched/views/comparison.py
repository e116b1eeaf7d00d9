"""What happened to nodes over time, side by side: a page and a terminal write the same value."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from desched.history.overload import Overload
from desched.history.timeline import Lines, Timeline
from desched.model.gpus import SIZES
from desched.model.resources import Resource
from desched.model.state import FAILURES
from desched.views.formatting import RESOURCE_NAMES, count, percent
from desched.whatif.figures import PolicyFigures

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

    `about` describes them, `summary` how they differ, `notes` what limits the figures, each list
    with its title. `columns` are in the order of the nodes. `workloads` are those with most
    evictions first.
    """

    title: str
    about: tuple[str, ...]
    timelines: tuple[Timeline, ...]
    summary: tuple[str, ...]
    figures: tuple[Figure, ...]
    columns: tuple[NodeFigures, ...]
    workloads: tuple[Figure, ...] = ()
    notes: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def order(self) -> Sequence[int]:
        """The nodes, those with the most overload and then with the highest load first."""
        names = self.timelines[0].nodes
        minutes = [
            max(e) for e in zip(*(t.overloaded_minutes for t in self.timelines), strict=True)
        ]
        ratios = [load.highest_ratios() for each in self.timelines for load in each.loads]
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
        values = tuple(getattr(each, name) for each in overloads)
        if set(values) != {None}:
            yield Figure(label, values)


def comparison_of(
    title: str, about: tuple[str, ...], timelines: tuple[Timeline, ...]
) -> Comparison:
    """A comparison with the figures that the timelines themselves have."""
    overloads = [each.overload for each in timelines]
    summary = (
        left_sentence(timeline.name, overload, overloads[0], len(timeline.evictions))
        for timeline, overload in zip(timelines[1:], overloads[1:], strict=True)
    )
    failed = (sum(e.result in FAILURES for e in each.evictions) for each in timelines)
    figures = (
        *overload_figures(overloads),
        Figure("evictions", tuple(len(each.evictions) for each in timelines)),
        Figure("evictions that did not help", tuple(failed)),
    )
    columns = [
        NodeFigures(f"overloaded min · {each.name}", each.overloaded_minutes) for each in timelines
    ] + [
        NodeFigures(
            f"highest {RESOURCE_NAMES[resource]} · {each.name}",
            each.load(resource).highest_ratios(),
            in_percent=True,
        )
        for resource in resources_of(timelines)
        for each in timelines
    ]
    return Comparison(title, about, timelines, tuple(summary), figures, tuple(columns))


def left_sentence(name: str, left: Overload, before: Overload, evictions: int) -> str:
    """How much of the overload is left."""
    moved = count(evictions, "eviction")
    if not (left.node_minutes or before.node_minutes):
        return f"{name}: no node was overloaded; {moved}."
    some = 0 < left.node_minutes < before.node_minutes
    less = f" ({percent(1 - left.node_minutes / before.node_minutes)} % less)" if some else ""
    return (
        f"{name}: {left.node_minutes:,.0f} of {before.node_minutes:,.0f} overloaded node-minutes "
        f"are left{less}, with {moved}."
    )


def resources_of(timelines: Sequence[Timeline]) -> list[Resource]:
    """The resources that the timelines have, in the order of tables."""
    return [r for r in RESOURCE_NAMES if any(load.resource is r for load in timelines[0].loads)]


class _Column(NamedTuple):
    """A timeline with the figures of its policy, and whether the policy acts in it."""

    timeline: Timeline
    figures: PolicyFigures
    acting: bool

    @property
    def overload(self) -> Overload:
        return self.figures.with_policy if self.acting else self.figures.without

    def of_policy(self, value: float | None) -> float | None:
        """A figure of the policy itself; None where it does not act."""
        return value if self.acting else None


def policies_compared(
    title: str,
    about: Sequence[str],
    policies: Sequence[PolicyFigures],
    notes: Sequence[tuple[str, tuple[str, ...]]],
) -> Comparison:
    """Policies beside the time without them; all figures are those of the policies."""
    columns = list(_columns(policies))
    summary = (left_sentence(p.policy, p.with_policy, p.without, p.evictions) for p in policies)
    return Comparison(
        title,
        tuple(about),
        tuple(column.timeline for column in columns),
        tuple(summary),
        tuple(_figures(columns)),
        tuple(_node_columns(columns)),
        tuple(_workloads(columns)),
        tuple((title, lines) for title, lines in notes if lines),
    )


def _columns(policies: Sequence[PolicyFigures]) -> Iterator[_Column]:
    """The timeline of each policy, and before it the one without for each choice of lines."""
    known: list[tuple[tuple[Lines | None, ...], ...]] = []
    for figures in policies:
        lines = tuple(load.lines for load in figures.before.loads)
        if lines not in known:
            name = f"{figures.before.name}, lines of {figures.policy}"
            before = msgspec.structs.replace(figures.before, name=name) if known else figures.before
            yield _Column(before, figures, acting=False)
            known.append(lines)
        yield _Column(figures.after, figures, acting=True)


def _figures(columns: Sequence[_Column]) -> Iterator[Figure]:
    yield from overload_figures([each.overload for each in columns])
    for label, name in (
        ("evictions", "evictions"),
        ("evictions per day", "evictions_per_day"),
        ("moved again within 1 h", "replicas_moved_again"),
        ("came back to the node", "came_back"),
        ("landed on overloaded node", "landed_overloaded"),
        ("minutes pending, all pods", "pending_minutes"),
    ):
        yield Figure(label, tuple(c.of_policy(getattr(c.figures, name)) for c in columns))
    share = (100 * c.figures.most_of_a_workload_within_an_hour for c in columns)
    of_one = tuple(c.of_policy(value) for c, value in zip(columns, share, strict=True))
    yield Figure("most of a workload in 1 h", of_one, "%")
    hours = [(each, each.figures.hours) for each in columns]
    yield Figure("hours with evictions", tuple(c.of_policy(h.evicting) for c, h in hours))
    idle = (c.of_policy(sum(each.hours for each in h.idle)) for c, h in hours)
    yield Figure("hours idle with overload", tuple(idle))
    yield from _gpu_figures(columns)


def _gpu_figures(columns: Sequence[_Column]) -> Iterator[Figure]:
    """The GPUs at the end; those without a policy are as at the beginning."""
    found = [
        each.figures.gpus_after if each.acting else each.figures.gpus_before for each in columns
    ]
    if any(found):
        yield Figure("idle GPUs", tuple(g.idle if g else None for g in found))
        yield Figure("fragmented GPUs", tuple(g.fragmented if g else None for g in found))
    for size in SIZES if any(found) else ():
        places = tuple(g.places[size] if g else None for g in found)
        yield Figure(f"places for {count(size, 'GPU')}", places)


def _node_columns(columns: Sequence[_Column]) -> Iterator[NodeFigures]:
    for each in columns:
        minutes = (
            n.overloaded_minutes_after if each.acting else n.overloaded_minutes_before
            for n in each.figures.nodes
        )
        yield NodeFigures(f"overloaded min · {each.timeline.name}", tuple(minutes))
    for each in columns:
        peaks = (n.peak_after if each.acting else n.peak_before for n in each.figures.nodes)
        label = f"highest share of the target · {each.timeline.name}"
        yield NodeFigures(label, tuple(peaks), in_percent=True, wide=True)
    for each in columns:
        if each.acting:
            name, nodes = each.timeline.name, each.figures.nodes
            yield NodeFigures(f"evictions · {name}", tuple(n.evictions for n in nodes))
            yield NodeFigures(f"landings · {name}", tuple(n.landings for n in nodes), wide=True)


def _workloads(columns: Sequence[_Column]) -> Iterator[Figure]:
    evicted: dict[str, list[float | None]] = {}
    nothing = [each.of_policy(0) for each in columns]
    for number, column in enumerate(columns):
        for each in column.figures.workloads if column.acting else ():
            evicted.setdefault(each.workload, [*nothing])[number] = each.evictions
    ranked = sorted(evicted.items(), key=lambda each: (-max(e or 0 for e in each[1]), each[0]))
    return (Figure(name, tuple(numbers)) for name, numbers in ranked)
