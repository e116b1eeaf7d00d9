"""A search in several clusters: the result of each, and the policy that all have in common."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from desched.views.formatting import count, plain
from desched.views.grouped_list import plain_table
from desched.views.tuning import (
    Result,
    print_result,
    print_tuning,
    reasons_of,
    score_texts,
    with_change,
)
from desched.whatif.tuning.figures import ClustersTuned, ClusterTuned
from desched.whatif.tuning.replays import Score


class ClustersView(Result, frozen=True):
    """What people see of the common policy.

    `scores` has the scores of the later days by cluster: today's policy, its own recommended one,
    the common one; None where none is recommended.
    """

    scores: tuple[tuple[str, tuple[Score | None, ...]], ...]


def print_clusters(found: ClustersTuned, console: Console) -> None:
    """Print the result of each cluster, then the common policy and what it does in each."""
    for each in found.clusters:
        console.print(Text(f"Cluster {plain(each.cluster)}", style="bold underline"))
        print_tuning(each.tuned, console)
        console.print()
    view = clusters_view(found)
    print_result(view, console)
    console.print(Text("On the later days, in node-minutes / evictions:", style="bold"))
    table = plain_table()
    table.add_column("Cluster")
    for title in ("Today", "Its own policy", "The common policy"):
        table.add_column(title, justify="right")
    for name, scores in view.scores:
        table.add_row(Text(plain(name)), *map(_score_text, scores))
    console.print(table)


def clusters_view(found: ClustersTuned) -> ClustersView:
    """The common policy as it is shown."""
    return ClustersView(
        f"tune · {count(len(found.clusters), 'cluster')} with {found.policy}",
        (
            f"{count(found.tried, 'policy', 'policies')} replayed in all clusters",
            "figures add up the clusters, each with the same weight",
        ),
        tuple(_summary(found)),
        tuple(reasons_of(found.recommended)),
        tuple((each.cluster, _scores(each)) for each in found.clusters),
    )


def _summary(found: ClustersTuned) -> Iterator[str]:
    best, today = found.recommended, found.today
    if today is None:
        yield "The search was ended before it had a common policy; run it again."
    elif best is None:
        yield (
            f"Keep {found.policy} as the common policy: of those that were tried, none leaves a "
            "fifth less overload in all clusters together, and no more in any, within the "
            "evictions that are allowed, also on the later days."
        )
    else:
        changes = count(len(best.changes), "change")
        yield f"Recommended for all clusters: {changes} to {found.policy}."
        yield f"In the search: {with_change(today, best.searched)}."
    if found.interrupted and today is not None:
        yield "The search ended early; with --results a second run continues it."


def _scores(each: ClusterTuned) -> tuple[Score | None, ...]:
    own = each.tuned.recommended
    return each.tuned.today_judged, own.judged if own else None, each.common


def _score_text(score: Score | None) -> str:
    if score is None:
        return "as today"
    minutes, _, evictions = score_texts(score)
    return f"{minutes} / {evictions}"
