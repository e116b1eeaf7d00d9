"""The pictures of docs/pictures: `python -m tests.browser.screenshots` takes them."""

import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from desched.lab.demo import demo_policy
from desched.model.report import CycleReport, Mode
from desched.service.inputs.policy_file import PolicyReading
from desched.service.process.http_endpoints import ListenAddress, serve
from desched.service.telemetry.status_endpoint import StatusEndpoint, status_answers
from desched.views.pages.timeline_page import timeline_page
from tests.browser.chromium import find_or_unpack
from tests.browser.driver import IDLE, Browser
from tests.browser.example_day import example_day
from tests.repository import ROOT

FOLDER = ROOT / "docs" / "pictures"
REPORT, STATUS = "report.png", "status.png"
WIDTH, REPORT_HEIGHT, STATUS_HEIGHT = 1000, 1022, 1060
MOST_BYTES = 200_000


def take(browser: Browser, folder: Path) -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as place:
        page = Path(place) / "day.html"
        page.write_text(timeline_page(example_day().comparison), encoding="utf-8")
        opened = browser.open(page.as_uri(), size=(WIDTH, REPORT_HEIGHT))
        opened.wait(IDLE)
        opened.page.get_by_text("Load of the nodes over time").scroll_into_view_if_needed()
        opened.evaluate("scrollTo(0, document.querySelectorAll('h2')[1].offsetTop - 16)")
        opened.picture(folder / REPORT)
        opened.close()
    report = busiest(example_day().reports)
    status = StatusEndpoint(
        "desched-0", Mode.EVICT, lambda: report.started_at + timedelta(minutes=1)
    )
    status.leadership_changed(leading=True)
    status.policy_read(PolicyReading(demo_policy()))
    status.cycle_completed(report)
    with serve(ListenAddress("127.0.0.1", 0), status_answers(status)) as bound:
        opened = browser.open(f"http://127.0.0.1:{bound.port}/", size=(WIDTH, STATUS_HEIGHT))
        opened.picture(folder / STATUS)
        opened.close()


def busiest(reports: Sequence[CycleReport]) -> CycleReport:
    """The first cycle with the most evictions while others are in flight."""
    return max(reports, key=lambda r: (len(r.plan.evictions) + len(r.state.evictions), -r.cycle))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with Browser(find_or_unpack()) as running:
        take(running, FOLDER)
