"""What a service did over days, as a page: its figures are those of the review."""

from desched.history.review import Review, ReviewedMode
from desched.views.formatting import RESOURCE_NAMES
from desched.views.pages.timeline_page import (
    EVICTIONS,
    LONGEST,
    OVERLOADED,
    Comparison,
    Figure,
    NodeColumn,
    resources_of,
    timeline_page,
)
from desched.views.review import about, notes, summary


def review_page(found: Review) -> str:
    """The page of a review."""
    nodes = found.nodes
    columns = [
        NodeColumn("overloaded min", tuple(node.overloaded_minutes for node in nodes)),
        NodeColumn("evictions", tuple(node.evictions for node in nodes)),
    ]
    columns += [
        NodeColumn(
            f"highest {RESOURCE_NAMES[resource]}",
            tuple(node.highest[resource] for node in nodes),
            in_percent=True,
        )
        for resource in resources_of([found.timeline])
    ]
    dry_run = found.mode is ReviewedMode.DRY_RUN
    figures = (
        Figure("cycles", (found.cycles,)),
        Figure(OVERLOADED, (found.overloaded_node_minutes,)),
        Figure("nodes overloaded at some time", (found.overloaded_nodes,)),
        Figure(LONGEST, (found.longest_overload_minutes,)),
        Figure("evictions that were planned" if dry_run else EVICTIONS, (found.evictions,)),
        Figure("evictions per day", (found.evictions_per_day,)),
        Figure(
            "overload for which an eviction was planned",
            (None if found.relieved_share is None else found.relieved_share * 100,),
            "%",
        ),
        *(Figure(f"result {result}", (count,)) for result, count in found.results.items()),
    )
    return timeline_page(
        Comparison(
            f"desched report: {found.target}",
            about(found),
            (found.timeline,),
            summary(found),
            figures,
            tuple(columns),
            notes(found),
        )
    )
