from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import msgspec
import pytest

from desched.model.report import Mode
from desched.service.process.http_endpoints import ListenAddress, serve
from desched.service.telemetry.status_endpoint import StatusEndpoint, status_answers
from tests.browser.driver import Browser, Tab
from tests.controlplane.waiting import wait_for
from tests.unit.service.example_reports import FOLLOWED_UP, REPORT
from tests.unit.service.test_adversarial_outputs import HOSTILE, poisoned, with_all

Open = Callable[..., Tab]

REFRESH = "document.dispatchEvent(new Event('refresh'))"
REPORTED = "document.querySelectorAll('#nodes tbody tr').length > 0"


@pytest.fixture
def status() -> StatusEndpoint:
    return StatusEndpoint("desched-0", Mode.EVICT, lambda: datetime(2026, 3, 4, 12, 5, tzinfo=UTC))


@pytest.fixture
def address(status: StatusEndpoint) -> Iterator[str]:
    with serve(ListenAddress("127.0.0.1", 0), status_answers(status)) as bound:
        yield f"http://127.0.0.1:{bound.port}/"


def test_it_takes_over_what_has_changed(status: StatusEndpoint, address: str, tab: Open) -> None:
    opened = tab(address)
    assert opened.texts(".summary") == ["No cycle has ended yet."]

    status.cycle_completed(REPORT)
    opened.evaluate(REFRESH)
    opened.wait(REPORTED)

    assert opened.column("nodes", 1) == ["te3", "te5", "te1"]
    assert opened.texts(".summary")[0].startswith("Evicted 1 of 1 pod planned")
    assert opened.texts("#connection") == ["Refreshes every 15 s."]
    assert {each.rpartition("/")[0] + "/" for each in opened.requests} == {address}


def test_order_filter_and_focus_survive_a_refresh(
    status: StatusEndpoint, address: str, tab: Open
) -> None:
    status.cycle_completed(REPORT)
    opened = tab(address)
    opened.page.get_by_role("searchbox").fill("te")
    opened.page.locator("#nodes button").first.focus()
    opened.press("Enter", "Enter")
    assert opened.column("nodes", 1) == ["te5", "te3", "te1"]

    fourth = msgspec.structs.replace(REPORT.plan.nodes[1], node="te4")
    plan = msgspec.structs.replace(REPORT.plan, nodes=(*REPORT.plan.nodes, fourth))
    status.cycle_completed(msgspec.structs.replace(REPORT, plan=plan))
    opened.evaluate(REFRESH)
    wait_for("the fourth node", lambda: len(opened.column("nodes", 1)) == 4)

    assert opened.column("nodes", 1) == ["te5", "te4", "te3", "te1"]
    assert opened.texts("#nodes [aria-sort=descending]") == ["Node"]
    assert opened.focused() == "Node"
    assert opened.page.get_by_role("searchbox").input_value() == "te"
    opened.press("Enter")
    assert opened.column("nodes", 1) == ["te1", "te3", "te4", "te5"]


def test_it_says_when_desched_does_not_answer(status: StatusEndpoint, browser: Browser) -> None:
    status.cycle_completed(REPORT)
    with serve(ListenAddress("127.0.0.1", 0), status_answers(status)) as bound:
        opened = browser.open(f"http://127.0.0.1:{bound.port}/")
    opened.evaluate(REFRESH)
    wait_for("the warning", lambda: "does not answer" in opened.texts("#connection")[0])

    assert opened.column("nodes", 1) == ["te3", "te5", "te1"]
    opened.close()


def test_hostile_names_are_text(status: StatusEndpoint, address: str, tab: Open) -> None:
    status.cycle_completed(poisoned(with_all(FOLLOWED_UP)))
    status.cycle_failed(HOSTILE)
    opened = tab(address)
    opened.evaluate(REFRESH)
    opened.wait(REPORTED)

    assert opened.evaluate("document.scripts.length") == 2
    assert "<script>alert(1)</script>" in opened.column("nodes", 1)[0]
    assert "<script>alert(1)</script>" in opened.texts(".warning")[0]


def test_without_scripts_it_is_a_page_that_reloads(
    status: StatusEndpoint, address: str, tab: Open
) -> None:
    status.cycle_completed(FOLLOWED_UP)
    opened = tab(address, scripts=False)

    sentence = "Its replacement is Ready on one of the nodes that the plan named."
    assert opened.column("moved", 5)[0] == sentence
    assert opened.page.locator("noscript meta[http-equiv=refresh]").count() == 1


@pytest.mark.parametrize("width", [1280, 400])
def test_it_fits_into_a_window_of_any_width(
    status: StatusEndpoint, address: str, tab: Open, width: int
) -> None:
    status.cycle_completed(with_all(FOLLOWED_UP))
    opened = tab(address, size=(width, 800))

    assert opened.evaluate("document.documentElement.scrollWidth") <= width
