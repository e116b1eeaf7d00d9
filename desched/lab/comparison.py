"""Simulations and backtests: policies beside the same time without desched."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from desched.history.overload import Overload
from desched.history.timeline import Lines, Timeline
from desched.lab.figures import Assumed, Backtest, Backtests, PolicyFigures, Simulated
from desched.lab.recorded_past import Doubt
from desched.model.state import FAILURES
from desched.views.blocks import Block
from desched.views.comparison import (
    CPU_UNKNOWN,
    Comparison,
    Figure,
    NodeFigures,
    overload_figures,
    resources_of,
)
from desched.views.comparison_table import comparison_blocks
from desched.wording.formatting import RESOURCE_NAMES, count, percent, span
from desched.wording.reasons import describe
from desched.wording.section import Section


def backtests_blocks(backtests: Backtests) -> Iterator[Block]:
    """The backtest of each cluster."""
    for cluster in backtests.clusters:
        view = backtest_view(cluster.backtest, f"backtest · {cluster.cluster}")
        yield from comparison_blocks(view)


def simulation_view(simulation: Simulated) -> Comparison:
    """A simulation as it is shown."""
    length = span(simulation.ended_at - simulation.started_at)
    size = f"{count(simulation.nodes, 'node')}, {count(simulation.pods, 'pod')}"
    began = f"{length} from {simulation.started_at:%Y-%m-%d %H:%M} UTC"
    about = (f"{began}, a cycle every {simulation.interval_seconds:.0f} s; {size}",)
    title = f"simulate · {simulation.target}"
    assumed = tuple(map(sentence, simulation.assumed))
    return policies_compared(title, about, simulation.policies, [Section("Assumed", assumed)])


def backtest_view(backtest: Backtest, title: str = "backtest") -> Comparison:
    """A backtest as it is shown."""
    began, ended = (f"{at:%Y-%m-%d %H:%M}" for at in (backtest.started_at, backtest.ended_at))
    nodes, pods = count(backtest.nodes, "node"), count(backtest.pods, "pod")
    about = (
        f"{began} to {ended} UTC, a cycle every {backtest.interval_seconds:.0f} s",
        f"{nodes}, {pods} and {count(backtest.workloads, 'workload')} in this time",
        f"load known for {percent(backtest.covered_share)} % of the nodes' time",
    )
    unknown = [*map(sentence, backtest.unknown)]
    if any(policy.without.full_cpu_node_minutes is None for policy in backtest.policies):
        unknown.append(CPU_UNKNOWN)
    assumed = tuple(map(sentence, backtest.assumed))
    notes = Section("Assumed", assumed), Section("Not known", tuple(unknown))
    return policies_compared(title, about, backtest.policies, notes)


def sentence(of: Assumed | Doubt) -> str:
    """What is assumed or not known, in a sentence."""
    reason = of.assumption if isinstance(of, Assumed) else of.caveat
    return describe(reason, of.detail.removesuffix("."))


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
    notes: Iterable[Section],
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
        tuple(notes),
    )


def _columns(policies: Sequence[PolicyFigures]) -> Iterator[_Column]:
    """The timeline of each policy, and before it the one without for each choice of lines."""
    drawn: list[tuple[tuple[Lines | None, ...], ...]] = []
    for figures in policies:
        lines = tuple(load.lines for load in figures.before.loads)
        if lines not in drawn:
            name = f"{figures.before.name}, lines of {figures.policy}"
            before = msgspec.structs.replace(figures.before, name=name) if drawn else figures.before
            yield _Column(before, figures, acting=False)
            drawn.append(lines)
        yield _Column(figures.after, figures, acting=True)


def _figures(columns: Sequence[_Column]) -> Iterator[Figure]:
    yield from overload_figures([column.overload for column in columns])
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
    hours = [(column, column.figures.hours) for column in columns]
    yield Figure("hours with evictions", tuple(c.of_policy(h.evicting) for c, h in hours))
    idle = (c.of_policy(sum(idle_hours_of.hours for idle_hours_of in h.idle)) for c, h in hours)
    yield Figure("hours idle with overload", tuple(idle))
    yield from _figures_of_plugins(columns)


def _figures_of_plugins(columns: Sequence[_Column]) -> Iterator[Figure]:
    """What plugins count at the end; without a policy it is as at the beginning."""
    figures = [
        column.figures.figures_after if column.acting else column.figures.figures_before
        for column in columns
    ]
    for label in dict.fromkeys(label for of_column in figures for label in of_column):
        yield Figure(label, tuple(of_column.get(label) for of_column in figures))


def _node_columns(columns: Sequence[_Column]) -> Iterator[NodeFigures]:
    for column in columns:
        minutes = (
            n.overloaded_minutes_after if column.acting else n.overloaded_minutes_before
            for n in column.figures.nodes
        )
        yield NodeFigures(f"overloaded min · {column.timeline.name}", tuple(minutes))
    for column in columns:
        peaks = (n.peak_after if column.acting else n.peak_before for n in column.figures.nodes)
        label = f"highest share of the target · {column.timeline.name}"
        yield NodeFigures(label, tuple(peaks), in_percent=True, wide=True)
    for column in columns:
        if column.acting:
            name, nodes = column.timeline.name, column.figures.nodes
            yield NodeFigures(f"evictions · {name}", tuple(n.evictions for n in nodes))
            yield NodeFigures(f"landings · {name}", tuple(n.landings for n in nodes), wide=True)


def _workloads(columns: Sequence[_Column]) -> Iterator[Figure]:
    evicted: dict[str, list[float | None]] = {}
    nothing = [each.of_policy(0) for each in columns]
    for number, column in enumerate(columns):
        for workload in column.figures.workloads if column.acting else ():
            evicted.setdefault(workload.workload, [*nothing])[number] = workload.evictions
    ranked = sorted(evicted.items(), key=lambda pair: (-max(e or 0 for e in pair[1]), pair[0]))
    return (Figure(name, tuple(numbers)) for name, numbers in ranked)
