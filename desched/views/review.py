"""Reviews and histories: what a service saw and did over days."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rich.console import Console
from rich.text import Text

from desched.history.logbook import ForecastTotals, LoggedMove
from desched.history.review import Review, ReviewedMode
from desched.model.drains import Purpose
from desched.views.comparison import (
    CPU_UNKNOWN,
    Comparison,
    Figure,
    NodeFigures,
    overload_figures,
    resources_of,
)
from desched.views.comparison_table import print_comparison
from desched.views.formatting import MODE_NAMES, RESOURCE_NAMES, count, percent, plain, span
from desched.views.grouped_list import plain_table

STOPPED_AFTER = timedelta(hours=1)
"""Without a cycle for so long, people may take an old review for one of the present."""


def print_review(found: Review, console: Console, now: datetime | None = None) -> None:
    """Print a review."""
    print_comparison(review_view(found, now), console)


def review_view(found: Review, now: datetime | None = None) -> Comparison:
    """A review as it is shown at a time."""
    length = found.ended_at - found.started_at
    begins, ends = (f"{at:%Y-%m-%d %H:%M}" for at in (found.started_at, found.ended_at))
    covered = span(timedelta(seconds=found.covered_seconds))
    about: tuple[str, ...] = (
        f"{begins} to {ends} UTC ({span(length)}), {MODE_NAMES[found.mode]}",
        f"{count(found.cycles, 'cycle')} for {covered}, kept in steps of {_step(found)}",
    )
    if now is not None and now - found.ended_at > STOPPED_AFTER:
        about += (f"the newest cycle was {span(now - found.ended_at)} ago, and none since",)
    columns = (
        NodeFigures("overloaded min", tuple(node.overloaded_minutes for node in found.nodes)),
        *(
            NodeFigures(
                f"highest {RESOURCE_NAMES[resource]}",
                tuple(node.highest[resource] for node in found.nodes),
                in_percent=True,
            )
            for resource in resources_of([found.timeline])
        ),
        NodeFigures("evictions", tuple(node.evictions for node in found.nodes)),
    )
    return Comparison(
        f"report · {found.target}",
        about,
        (found.timeline,),
        tuple(_summary(found)),
        tuple(_figures(found)),
        columns,
        tuple(Figure(each.workload, (each.evictions,)) for each in found.workloads),
        (("What limits the figures", tuple(_notes(found))),),
    )


def _step(found: Review) -> str:
    return span(timedelta(seconds=found.step_seconds))


def _summary(found: Review) -> Iterator[str]:
    overload = found.overload
    yield (
        f"{count(overload.nodes, 'node was', 'nodes were')} overloaded at some time, for "
        f"{overload.node_minutes:,.0f} node-minutes in all."
        if overload.nodes
        else "No node was overloaded."
    )
    if overload.nodes:
        yield (
            f"Most were overloaded in the {_step(found)} from {found.most_at:%Y-%m-%d %H:%M} UTC: "
            f"{_nodes(found.most_overloaded)}; in the last {_step(found)}: "
            f"{_nodes(found.last_overloaded)}."
        )
    dry_run = found.mode is ReviewedMode.DRY_RUN
    evictions = count(found.evictions, "eviction")
    what = f"{evictions} would have begun" if dry_run else f"{evictions} began"
    planned = ""
    if found.left_nodes:
        nodes = count(found.left_nodes, "node", "nodes")
        now = found.still_overloaded or "none"
        planned = (
            f" They were from {nodes}, of which {now} {_be(found.still_overloaded)} overloaded "
        )
        planned += f"in the last {_step(found)}."
    elif dry_run and found.relieved_share is not None:
        share = percent(found.relieved_share)
        planned = f" {share} % of the overload had an eviction planned for it."
    daily = f", {found.evictions_per_day:.1f} a day" if _has_a_day(found) else ""
    yield f"{what}{daily}.{planned}"
    yield from _forecast(found.forecast)


def _nodes(mean: float) -> str:
    """A number of nodes as the mean of cycles."""
    return f"{mean:.1f}".removesuffix(".0") if mean else "none"


def _be(number: int) -> str:
    return "was" if number == 1 else "were"


def _forecast(found: ForecastTotals) -> Iterator[str]:
    """What was expected and what came."""
    if found.node_hours or found.unexpected_minutes:
        yield (
            f"Forecast of the next hour: {found.expected_minutes:,.0f} node-minutes above a target "
            f"expected, {found.came_minutes:,.0f} came; {found.unexpected_minutes:,.0f} more came "
            "on nodes that expected less than a minute."
        )
    if found.likely:
        share = percent(found.likely_came / found.likely)
        yield (
            "Nodes that were expected to be above a target for at least half of the next hour were "
            f"so in {share} % of {count(found.likely, 'case')}."
        )


def _has_a_day(found: Review) -> bool:
    """Whether it is long enough to have evictions per day; minutes would multiply one move."""
    return found.covered_seconds >= timedelta(days=1).total_seconds()


def _figures(found: Review) -> Iterator[Figure]:
    dry_run = found.mode is ReviewedMode.DRY_RUN
    yield Figure("cycles", (found.cycles,))
    yield from overload_figures([found.overload])
    yield Figure("planned evictions" if dry_run else "evictions", (found.evictions,))
    for purpose, evictions in found.purposes.items():
        if purpose != Purpose.RELIEF:
            yield Figure(f"of them for {purpose}", (evictions,))
    if _has_a_day(found):
        yield Figure("evictions per day", (found.evictions_per_day,))
    if dry_run and found.relieved_share is not None:
        share = found.relieved_share * 100
        yield Figure("overload with planned eviction", (share,), "%")
    yield from (Figure(f"result {result}", (times,)) for result, times in found.results.items())


def _notes(found: Review) -> Iterator[str]:
    yield (
        f"A load is the mean of a step of {_step(found)}. The time above 90 %, the time at 100 % "
        "CPU and the points are those of this mean: a short peak is not in them. Overloaded "
        "minutes are those of the cycles in which a node was overloaded."
    )
    if found.forecast.node_hours:
        yield (
            "A forecast is compared about once an hour, on nodes from and to which desched moved "
            "no pod in that hour, and whose load was known."
        )
    if found.overload.full_cpu_node_minutes is None:
        yield CPU_UNKNOWN
    if found.mode is not ReviewedMode.EVICT:
        yield (
            "A dry run changes nothing: the same eviction is planned again until the overload "
            "ends, and counts once. The overload is that without desched."
        )
    if found.moves_since is not None:
        yield f"Evictions before {found.moves_since:%Y-%m-%d %H:%M} UTC are not kept."


def print_history(moves: Sequence[LoggedMove], console: Console) -> None:
    """Print a row for each eviction with what came of it; the newest comes last."""
    if not moves:
        console.print(Text("No eviction is in the logbook."))
        return
    table = plain_table()
    table.add_column("At (UTC)", no_wrap=True)
    for title in ("Pod", "From", "Landed on", "Result", "Why"):
        table.add_column(title, overflow="fold")
    for move in moves:
        cells = (str(move.pod), move.node, _landed(move), _result(move), move.reason)
        table.add_row(f"{move.at:%Y-%m-%d %H:%M}", *(Text(plain(cell)) for cell in cells))
    console.print(table)


def _landed(move: LoggedMove) -> str:
    return move.landed_on or f"(expected: {move.expected_on})"


def _result(move: LoggedMove) -> str:
    if move.dry_run:
        often = f"planned in {count(move.cycles, 'cycle')}"
        return f"dry run, {often} until {move.last_at:%m-%d %H:%M}"
    return move.result or move.verdict
