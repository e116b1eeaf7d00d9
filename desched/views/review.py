"""Reviews as tables and sentences: what a service saw and did over days."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from desched.history.logbook import LoggedMove
from desched.history.review import Review, ReviewedMode
from desched.views.formatting import (
    MODE_NAMES,
    RESOURCE_NAMES,
    count,
    percent,
    plain,
    resource_title,
    span,
)
from desched.views.reasons import sentence_of

MOST_ROWS = 10


def about(found: Review) -> tuple[str, ...]:
    """What it is about: the time, and how much of it is covered."""
    length = found.ended_at - found.started_at
    begins, ends = (f"{at:%Y-%m-%d %H:%M}" for at in (found.started_at, found.ended_at))
    covered = timedelta(seconds=found.covered_seconds)
    step = span(timedelta(seconds=found.step_seconds))
    return (
        f"{begins} to {ends} UTC ({span(length)}), {MODE_NAMES[found.mode]}",
        f"{count(found.cycles, 'cycle')} for {span(covered)}, kept in steps of {step}",
    )


def summary(found: Review) -> tuple[str, ...]:
    """What matters most, in sentences."""
    overload = (
        f"{count(found.overloaded_nodes, 'node was', 'nodes were')} overloaded at some time, for "
        f"{found.overloaded_node_minutes:,.0f} node-minutes in all."
        if found.overloaded_nodes
        else "No node was overloaded."
    )
    dry_run = found.mode is ReviewedMode.DRY_RUN
    evictions = count(found.evictions, "eviction")
    what = f"{evictions} would have begun" if dry_run else f"{evictions} began"
    share = found.relieved_share
    planned = (
        ""
        if share is None
        else f" {percent(share)} % of the overload had an eviction planned for it."
    )
    return (overload, f"{what}, {found.evictions_per_day:.1f} a day.{planned}")


def notes(found: Review) -> tuple[str, ...]:
    """What limits the figures."""
    texts = ["A load is the mean of a step. A short overload may not show in it; minutes count it."]
    if found.mode is not ReviewedMode.EVICT:
        texts.append(
            "A dry run changes nothing: the same eviction is planned again until the overload "
            "ends, and counts once. The overload is that without desched."
        )
    if found.moves_since is not None:
        texts.append(f"Evictions before {found.moves_since:%Y-%m-%d %H:%M} UTC are not kept.")
    return tuple(texts)


def print_review(found: Review, console: Console) -> None:
    """Print the summary, then nodes, workloads and reasons, each with the most important first."""
    console.print(Text(plain(f"desched report: {found.target}"), style="bold"))
    for line in (*about(found), "", *summary(found)):
        console.print(Text(line))
    if found.results:
        results = ", ".join(f"{code} {number}" for code, number in found.results.items())
        console.print(Text(f"Results: {results}."))
    _print_nodes(found, console)
    _print_workloads(found, console)
    timeline = found.timeline
    _print_reasons(
        "Why cycles evicted nothing although nodes were overloaded:",
        "Cycles",
        [(each.cycles, each.reason.value, sentence_of(each.reason)) for each in timeline.idle],
        console,
    )
    _print_reasons(
        "Why other pods on overloaded nodes stayed:",
        "Times",
        [(e.decisions, e.reason.value, sentence_of(e.reason)) for e in timeline.refusals],
        console,
    )
    console.print()
    for line in notes(found):
        console.print(Text(line, style="dim"))


def _print_nodes(found: Review, console: Console) -> None:
    hot = sorted(
        (node for node in found.nodes if node.overloaded_minutes or node.evictions),
        key=lambda node: (-node.overloaded_minutes, -node.evictions, node.node),
    )
    if not hot:
        return
    resources = [
        r for r in RESOURCE_NAMES if any(load.resource is r for load in found.timeline.loads)
    ]
    table = _table()
    table.add_column("Node", overflow="fold")
    table.add_column("overloaded", justify="right")
    for resource in resources:
        table.add_column(f"max {resource_title(resource)} %", justify="right")
    table.add_column("evictions", justify="right")
    for node in hot[:MOST_ROWS]:
        loads = [node.highest[resource] for resource in resources]
        table.add_row(
            Text(plain(node.node)),
            f"{node.overloaded_minutes:,.0f} min",
            *("?" if load is None else f"{load * 100:.0f}" for load in loads),
            str(node.evictions),
        )
    _print(console, "Nodes with the most overload:", table, len(hot) - MOST_ROWS)


def _print_workloads(found: Review, console: Console) -> None:
    if not found.workloads:
        return
    table = _table()
    table.add_column("Workload", overflow="fold")
    table.add_column("evictions", justify="right")
    for each in found.workloads[:MOST_ROWS]:
        table.add_row(Text(plain(each.workload)), str(each.evictions))
    left = len(found.workloads) - MOST_ROWS
    _print(console, "Workloads with the most evictions:", table, left)


def _print_reasons(
    title: str, heading: str, rows: Sequence[tuple[int, str, str]], console: Console
) -> None:
    if not rows:
        return
    table = _table()
    table.add_column(heading, justify="right")
    table.add_column("Reason", overflow="fold")
    table.add_column("Meaning", overflow="fold")
    for number, code, sentence in rows[:MOST_ROWS]:
        table.add_row(str(number), code, Text(sentence))
    _print(console, title, table, len(rows) - MOST_ROWS)


def print_history(moves: Iterable[LoggedMove], console: Console) -> None:
    """Print a line for each eviction, and one for what came of it."""
    printed = False
    for move in moves:
        printed = True
        line = Text(f"{move.at:%Y-%m-%d %H:%M} UTC  ")
        line.append(plain(str(move.pod)), style="bold")
        line.append(plain(f"  {move.workload}"))
        console.print(line)
        console.print(Text(f"  {_what_came(move)}", style="dim"))
    if not printed:
        console.print(Text("No eviction is in the logbook."))


def _what_came(move: LoggedMove) -> str:
    route = plain(f"from {move.node} ({move.reason}), expected on {move.expected_on}")
    if move.dry_run:
        often = f"planned in {count(move.cycles, 'cycle')}"
        return f"dry run: {route}; {often} until {move.last_at:%m-%d %H:%M}"
    landed = plain(f", landed on {move.landed_on}") if move.landed_on else ""
    return f"{route}{landed}: {move.result or move.verdict}"


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


def _print(console: Console, title: str, table: Table, left: int) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(table)
    if left > 0:
        console.print(Text(f"… and {left} more"))
