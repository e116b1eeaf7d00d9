"""`desched report`: what a service saw and did over days."""

import sys

from desched.cli.command import Command, Invocation, Usage
from desched.cli.page_file import REPORT, charts_file, write_page
from desched.cli.setting_flags import CONNECTION, own_flag

DEFAULT_SINCE = "7d"


def run(invocation: Invocation) -> None:
    """Print the review, and write the page."""
    from desched.bootstrap.review import length_of, read_review, write_review

    page, settings = charts_file(invocation), invocation.settings()
    since = length_of(invocation.flags.get("since", DEFAULT_SINCE))
    found = read_review(settings, since, sys.stderr)
    write_review(found, settings, sys.stdout)
    if page is not None:
        from desched.views.pages.review_page import review_page

        write_page(page, review_page(found))


COMMAND = Command(
    "report",
    run,
    Usage(
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
                "--since",
                "DURATION",
                f"How far back, counted from the newest cycle. Default: {DEFAULT_SINCE}, the most.",
            ),
            REPORT,
        ),
        refused={"--from": "did you mean --since?"},
    ),
)
