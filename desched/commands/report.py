"""`desched report`: what a service saw and did over days."""

from __future__ import annotations

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.setting_flags import CONNECTION, own_flag

if loaded_to_run(__name__):
    from desched.bootstrap.logbook import read_logbook
    from desched.history.review import review
    from desched.service.process.clock import SystemClock
    from desched.views.comparison_table import comparison_blocks
    from desched.views.rendering import write_out
    from desched.views.review import review_view

DEFAULT_SINCE = "7d"


def run(invocation: Invocation) -> None:
    """Print the review, and write the page."""
    page, settings = charts_file(invocation), invocation.settings()
    book, begins = read_logbook(settings, invocation.flags.get("since", DEFAULT_SINCE))
    reviewed = review(book, begins)
    view = review_view(reviewed, SystemClock().now())
    write_out(settings.output, reviewed, comparison_blocks(view))
    if page is not None:
        from desched.views.pages.timeline_page import timeline_page  # noqa: PLC0415  (optional)

        write_page(page, timeline_page(view))


COMMAND = Command(
    "report",
    details="It reads the logbook that a service keeps of its cycles, outside a cluster with "
    "--logbook, also of dry runs: overloaded nodes, evictions that began or would have begun, "
    "and why nothing else was evicted.",
    examples={
        "desched report": "the last week",
        "desched report --since 24h --report day.html": "the last day, as a page too",
    },
    settings=("output", *CONNECTION),
    parameters=(
        own_flag(
            "--since DURATION",
            f"How far back, counted from the newest cycle. Default: {DEFAULT_SINCE}, the most.",
        ),
        REPORT,
    ),
    refused={"--from": "did you mean --since?"},
)
