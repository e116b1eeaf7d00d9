"""Reviews and histories: what a service saw and did over days."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from desched.history.logbook import ForecastTotals, LoggedMove
from desched.history.review import Review, ReviewedMode
from desched.model.plan import RELIEF
from desched.views.blocks import Block, table
from desched.views.comparison import (
    CPU_UNKNOWN,
    Comparison,
    Figure,
    NodeFigures,
    overload_figures,
    resources_of,
)
from desched.wording.formatting import MODE_NAMES, RESOURCE_NAMES, count, percent, span
from desched.wording.section import Section

STOPPED_AFTER = timedelta(hours=1)
"""Without a cycle for so long, people may take an old review for one of the present."""


def review_view(review: Review, now: datetime | None = None) -> Comparison:
    """A review as it is shown at a time."""
    length = review.ended_at - review.started_at
    begins, ends = (f"{at:%Y-%m-%d %H:%M}" for at in (review.started_at, review.ended_at))
    covered = span(timedelta(seconds=review.covered_seconds))
    about: tuple[str, ...] = (
        f"{begins} to {ends} UTC ({span(length)}), {MODE_NAMES[review.mode]}",
        f"{count(review.cycles, 'cycle')} for {covered}, kept in steps of {_step(review)}",
    )
    if now is not None and now - review.ended_at > STOPPED_AFTER:
        about += (f"the newest cycle was {span(now - review.ended_at)} ago, and none since",)
    columns = (
        NodeFigures("overloaded min", tuple(node.overloaded_minutes for node in review.nodes)),
        *(
            NodeFigures(
                f"highest {RESOURCE_NAMES[resource]}",
                tuple(node.highest[resource] for node in review.nodes),
                in_percent=True,
            )
            for resource in resources_of([review.timeline])
        ),
        NodeFigures("evictions", tuple(node.evictions for node in review.nodes)),
    )
    return Comparison(
        f"report · {review.target}",
        about,
        (review.timeline,),
        tuple(_summary(review)),
        tuple(_figures(review)),
        columns,
        tuple(Figure(workload.workload, (workload.evictions,)) for workload in review.workloads),
        (Section("What limits the figures", tuple(_notes(review))),),
    )


def _step(review: Review) -> str:
    return span(timedelta(seconds=review.step_seconds))


def _summary(review: Review) -> Iterator[str]:
    overload = review.overload
    yield (
        f"{count(overload.nodes, 'node was', 'nodes were')} overloaded at some time, for "
        f"{overload.node_minutes:,.0f} node-minutes in all."
        if overload.nodes
        else "No node was overloaded."
    )
    if overload.nodes:
        yield (
            f"Most were overloaded in the {_step(review)} from "
            f"{review.most_at:%Y-%m-%d %H:%M} UTC: "
            f"{_nodes(review.most_overloaded)}; in the last {_step(review)}: "
            f"{_nodes(review.last_overloaded)}."
        )
    dry_run = review.mode is ReviewedMode.DRY_RUN
    evictions = count(review.evictions, "eviction")
    what = f"{evictions} would have begun" if dry_run else f"{evictions} began"
    planned = ""
    if review.left_nodes:
        nodes = count(review.left_nodes, "node", "nodes")
        now = review.still_overloaded or "none"
        planned = (
            f" They were from {nodes}, of which {now} {_be(review.still_overloaded)} overloaded "
        )
        planned += f"in the last {_step(review)}."
    elif dry_run and review.relieved_share is not None:
        share = percent(review.relieved_share)
        planned = f" {share} % of the overload had an eviction planned for it."
    daily = f", {review.evictions_per_day:.1f} a day" if _has_a_day(review) else ""
    yield f"{what}{daily}.{planned}"
    yield from _forecast(review.forecast)


def _nodes(mean: float) -> str:
    """A number of nodes as the mean of cycles."""
    return f"{mean:.1f}".removesuffix(".0") if mean else "none"


def _be(number: int) -> str:
    return "was" if number == 1 else "were"


def _forecast(totals: ForecastTotals) -> Iterator[str]:
    """What was expected and what came."""
    if totals.node_hours or totals.unexpected_minutes:
        yield (
            f"Forecast of the next hour: {totals.expected_minutes:,.0f} node-minutes above a "
            f"target expected, {totals.came_minutes:,.0f} came; {totals.unexpected_minutes:,.0f} "
            "more came on nodes that expected less than a minute."
        )
    if totals.likely:
        share = percent(totals.likely_came / totals.likely)
        yield (
            "Nodes that were expected to be above a target for at least half of the next hour were "
            f"so in {share} % of {count(totals.likely, 'case')}."
        )


def _has_a_day(review: Review) -> bool:
    """Whether it is long enough to have evictions per day; minutes would multiply one move."""
    return review.covered_seconds >= timedelta(days=1).total_seconds()


def _figures(review: Review) -> Iterator[Figure]:
    dry_run = review.mode is ReviewedMode.DRY_RUN
    yield Figure("cycles", (review.cycles,))
    yield from overload_figures([review.overload])
    yield Figure("planned evictions" if dry_run else "evictions", (review.evictions,))
    for purpose, evictions in review.purposes.items():
        if purpose != RELIEF:
            yield Figure(f"of them for {purpose}", (evictions,))
    yield from (Figure(f"result {result}", (times,)) for result, times in review.results.items())


def _notes(review: Review) -> Iterator[str]:
    yield (
        f"A load is the mean of a step of {_step(review)}. The time above 90 %, the time at 100 % "
        "CPU and the points are those of this mean: a short peak is not in them. Overloaded "
        "minutes are those of the cycles in which a node was overloaded."
    )
    if review.forecast.node_hours:
        yield (
            "A forecast is compared about once an hour, on nodes from and to which desched moved "
            "no pod in that hour, and whose load was known."
        )
    if review.overload.full_cpu_node_minutes is None:
        yield CPU_UNKNOWN
    if review.mode is not ReviewedMode.EVICT:
        yield (
            "A dry run changes nothing: the same eviction is planned again until the overload "
            "ends, and counts once. The overload is that without desched."
        )
    if review.moves_since is not None:
        yield f"Evictions before {review.moves_since:%Y-%m-%d %H:%M} UTC are not kept."


def history_blocks(moves: Sequence[LoggedMove]) -> Iterator[Block]:
    """A row for each eviction with what came of it; the newest comes last."""
    titles = ("At (UTC)", "Pod", "From", "Landed on", "Result", "Why")
    rows = [
        (f"{m.at:%Y-%m-%d %H:%M}", str(m.pod), m.node, _landed(m), _result(m), m.reason)
        for m in moves
    ]
    yield table(titles, rows) if rows else "No eviction is in the logbook."


def _landed(move: LoggedMove) -> str:
    return move.landed_on or f"(expected: {move.expected_on})"


def _result(move: LoggedMove) -> str:
    if move.dry_run:
        often = f"planned in {count(move.cycles, 'cycle')}"
        return f"dry run, {often} until {move.last_at:%m-%d %H:%M}"
    return move.result or move.verdict
