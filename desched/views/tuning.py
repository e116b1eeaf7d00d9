"""A search for a better policy: what it recommends, its changes, and the policies that it tried."""

from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.text import Text

from desched.policy.difference import Difference
from desched.views.comparison import Comparison, number_text, policies_compared
from desched.views.comparison_table import print_comparison
from desched.views.formatting import count, percent, plain
from desched.views.grouped_list import plain_table, print_lines
from desched.views.policies import sentence
from desched.views.policy_differences import PolicyComparison, print_differences
from desched.whatif.tuning.figures import Change, Recommended, Tuned
from desched.whatif.tuning.replays import Score

REPLAYS_FLATTER = (
    "A replay flatters every policy: its scheduler is that of the forecast, and moved pods take "
    "their load along and start at once. In the same hours on a real control plane, 10 to 80 % "
    "more overload stayed than in a simulation. So trust the order of policies more than their "
    "figures, and watch the first days."
)

MOST_CHANGES = 4


class FrontPoint(msgspec.Struct, frozen=True):
    """A policy of the front: its name in charts, what it changes, and its score in the search."""

    name: str
    changes: str
    score: Score


class Result(msgspec.Struct, frozen=True):
    """What people see of any search; `summary` is the result in sentences.

    `changes` has each change of the recommended policy with its reason.
    """

    title: str
    about: tuple[str, ...]
    summary: tuple[str, ...]
    changes: tuple[tuple[Difference, str], ...]


class TuningView(Result, frozen=True):
    """The same of a search in one cluster."""

    today: FrontPoint
    front: tuple[FrontPoint, ...]
    judged: Comparison


def print_tuning(found: Tuned, console: Console) -> None:
    """Print the result, then the comparison on the later days."""
    view = tuning_view(found)
    print_result(view, console)
    console.print(Text("No policy of the search is better in all than one of these:", style="bold"))
    table = plain_table()
    for title in ("Node-min", "Points x min", "Evictions"):
        table.add_column(title, justify="right")
    table.add_column("What differs from today", overflow="fold")
    for each in view.front:
        table.add_row(*score_texts(each.score), Text(plain(each.changes)))
    console.print(table)
    console.print()
    print_comparison(view.judged, console)


def print_result(view: Result, console: Console) -> None:
    """Print what was searched, the result in sentences, and each change with its reason."""
    console.print(Text(f"desched · {plain(view.title)}", style="bold"))
    for line in view.about:
        console.print(Text(plain(line)))
    console.print()
    for line in view.summary:
        console.print(Text(plain(line), style="bold"))
    console.print()
    if found := view.changes:
        changes = tuple(change for change, _ in found)
        print_differences(PolicyComparison(changes, None), console)
        console.print()
        why = (f"{change.key}: {reason}" for change, reason in found)
        print_lines("Why each change:", why, console)


def score_texts(score: Score) -> tuple[str, str, str]:
    """Overloaded node-minutes, point-minutes above the targets, and evictions."""
    return (
        number_text(round(score.node_minutes)),
        number_text(round(score.point_minutes)),
        str(score.evictions),
    )


def tuning_view(found: Tuned) -> TuningView:
    """A search as it is shown."""
    began, split, ended = (
        f"{at:%Y-%m-%d %H:%M}" for at in (found.started_at, found.split_at, found.ended_at)
    )
    judged = found.judged
    stopped = f", {found.stopped} of them only in part" if found.stopped else ""
    size = f"{count(judged.nodes, 'node')}, {count(judged.pods, 'pod')}"
    about = (
        f"searched {began} to {split}, judged {split} to {ended} UTC",
        f"{count(found.tried, 'policy', 'policies')} replayed{stopped}; {size}",
        f"varied: {' '.join(found.varied)}",
        f"overload is what is above the targets of {found.policy}",
    )
    return TuningView(
        f"tune · {found.policy}",
        about,
        tuple(_summary(found)),
        tuple(reasons_of(found.recommended)),
        FrontPoint("today", "today's policy", found.today),
        tuple(_front(found)),
        _judged(found),
    )


def _summary(found: Tuned) -> Iterator[str]:
    best = found.recommended
    if best is None and not found.today.node_minutes:
        yield f"Keep {found.policy}: it leaves no overload in the time of the search."
    elif best is None:
        yield (
            f"Keep {found.policy}: of the policies that were tried, none leaves a fifth less "
            "overload within the evictions that are allowed, also on the later days."
        )
        if any(
            each.score.evictions > found.today.evictions
            and each.score.node_minutes < found.today.node_minutes
            for each in found.front
        ):
            yield "Some leave less with more evictions; --more-evictions accepts these."
    else:
        yield f"Recommended: {count(len(best.changes), 'change')} to {found.policy}."
        yield f"In the search: {with_change(found.today, best.searched)}."
        yield f"On the later days: {with_change(found.today_judged, best.judged)}."
    if found.interrupted:
        yield "The search ended early; with --results a second run continues it."


def with_change(before: Score, after: Score) -> str:
    """Two scores with how much less overload the second one has."""
    less = ""
    if 0 < after.node_minutes < before.node_minutes:
        less = f" ({percent(1 - after.node_minutes / before.node_minutes)} % less)"
    return (
        f"{before.node_minutes:,.0f} → {after.node_minutes:,.0f} overloaded node-minutes{less}, "
        f"{before.evictions} → {count(after.evictions, 'eviction')}"
    )


def _front(found: Tuned) -> Iterator[FrontPoint]:
    for number, each in enumerate(found.front, start=1):
        lines = [change.line for change in each.changes]
        if not lines:
            yield FrontPoint("today", "nothing: today's policy", each.score)
            continue
        more = len(lines) - MOST_CHANGES
        text = "; ".join(lines[:MOST_CHANGES]) + (f"; and {more} more" if more > 0 else "")
        yield FrontPoint(f"policy {number}", text, each.score)


def reasons_of(best: Recommended | None) -> Iterator[tuple[Difference, str]]:
    """Each change of a recommended policy with its reason."""
    if best is not None:
        for each in best.changes:
            yield each.difference, _reason(each, best.searched)


def _reason(change: Change, score: Score) -> str:
    without = change.without
    if without is None:
        return "follows from the other changes"
    minutes = without.node_minutes - score.node_minutes
    evictions = without.evictions - score.evictions
    parts = (
        f"{abs(number):,.0f} {'more' if number > 0 else 'fewer'} {what}"
        for number, what in ((minutes, "overloaded node-minutes"), (evictions, "evictions"))
        if number
    )
    return f"without it, {' and '.join(parts) or 'higher excess'} in the search"


def _judged(found: Tuned) -> Comparison:
    judged = found.judged
    began, ended = (f"{at:%Y-%m-%d %H:%M}" for at in (judged.started_at, judged.ended_at))
    about = (f"{began} to {ended} UTC, which the search has not seen",)
    notes = [
        ("What the history cannot show", (REPLAYS_FLATTER, *map(sentence, judged.unknown))),
        ("Assumed", tuple(map(sentence, judged.assumed))),
    ]
    return policies_compared("tune · the later days", about, judged.policies, notes)
