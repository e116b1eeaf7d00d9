"""Policies over the same time as a page: the figures of a simulation or of a backtest."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from desched.history.timeline import Lines, Timeline
from desched.views.pages.timeline_page import (
    EVICTIONS,
    LONGEST,
    OVERLOADED,
    Comparison,
    Figure,
    NodeColumn,
    left_sentence,
    timeline_page,
)
from desched.whatif.figures import Overload, PolicyFigures


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


def comparison_page(
    title: str,
    about: Sequence[str],
    policies: Sequence[PolicyFigures],
    notes: Sequence[str] = (),
) -> str:
    """The page; all of its figures are those of the policies."""
    columns = list(_columns(policies))
    summary = (
        left_sentence(
            each.policy, each.with_policy.node_minutes, each.without.node_minutes, each.evictions
        )
        for each in policies
    )
    comparison = Comparison(
        title,
        tuple(about),
        tuple(column.timeline for column in columns),
        tuple(summary),
        tuple(_figures(columns)),
        tuple(_node_columns(columns)),
        tuple(notes),
    )
    return timeline_page(comparison)


def _columns(policies: Sequence[PolicyFigures]) -> Iterator[_Column]:
    """The timeline of each policy, and before it the one without for each choice of lines."""
    known: list[tuple[tuple[Lines | None, ...], ...]] = []
    for figures in policies:
        lines = tuple(load.lines for load in figures.before.loads)
        if lines not in known:
            name = f"{figures.before.name}, by the lines of {figures.policy}"
            before = replace(figures.before, name=name) if known else figures.before
            yield _Column(before, figures, acting=False)
            known.append(lines)
        yield _Column(figures.after, figures, acting=True)


def _figures(columns: Sequence[_Column]) -> Iterator[Figure]:
    yield Figure(OVERLOADED, tuple(each.overload.node_minutes for each in columns))
    yield Figure(LONGEST, tuple(each.overload.longest_episode_minutes for each in columns))
    yield Figure("nodes overloaded at some time", tuple(each.overload.nodes for each in columns))
    for label, name in (
        (EVICTIONS, "evictions"),
        ("evictions per day", "evictions_per_day"),
        ("replacements that landed on the node they had left", "came_back"),
        ("replacements that landed on an overloaded node", "landed_overloaded"),
        ("replacements that moved again within an hour", "replicas_moved_again"),
        ("minutes for which replacements were pending", "pending_minutes"),
    ):
        yield Figure(label, tuple(c.of_policy(getattr(c.figures, name)) for c in columns))
    hours = [(each, each.figures.hours) for each in columns]
    yield Figure("hours with evictions", tuple(c.of_policy(h.evicting) for c, h in hours))
    idle = (c.of_policy(sum(each.hours for each in h.idle)) for c, h in hours)
    yield Figure("hours with overload and without an eviction", tuple(idle))


def _node_columns(columns: Sequence[_Column]) -> Iterator[NodeColumn]:
    for each in columns:
        nodes = each.figures.nodes
        minutes = (
            n.overloaded_minutes_after if each.acting else n.overloaded_minutes_before
            for n in nodes
        )
        yield NodeColumn(f"overloaded min · {each.timeline.name}", tuple(minutes))
    for each in columns:
        nodes = each.figures.nodes
        peaks = (n.peak_after if each.acting else n.peak_before for n in nodes)
        name = each.timeline.name
        yield NodeColumn(f"highest share of the target · {name}", tuple(peaks), in_percent=True)
    for each in columns:
        if each.acting:
            name, nodes = each.timeline.name, each.figures.nodes
            yield NodeColumn(f"evictions · {name}", tuple(n.evictions for n in nodes))
            yield NodeColumn(f"landings · {name}", tuple(n.landings for n in nodes))
