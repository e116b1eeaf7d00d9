from collections.abc import Callable
from pathlib import Path

import pytest

from desched.model.report import CycleReport
from desched.views.cycle import CycleView
from desched.views.pages.cycle_page import cycle_page
from tests.browser.driver import Tab
from tests.unit.service.example_reports import FOLLOWED_UP, REPORT
from tests.unit.service.test_adversarial_outputs import HOSTILE, poisoned, with_all

Open = Callable[..., Tab]


@pytest.fixture
def page(tab: Open, tmp_path: Path) -> Open:
    """Opens the page of a report as a file, as people do."""

    def open_page(report: CycleReport = REPORT, **look: object) -> Tab:
        file = tmp_path / "plan.html"
        file.write_text(cycle_page(CycleView(report)), encoding="utf-8")
        return tab(file.as_uri(), **look)

    return open_page


def test_it_asks_for_nothing_but_itself(page: Open) -> None:
    opened = page()

    assert opened.texts("h1") == ["Cycle for in-cluster"]
    assert len(opened.requests) == 1


def test_its_tables_are_sorted_by_keyboard(page: Open) -> None:
    opened = page()
    before = opened.column("refusals", 3)
    opened.page.locator("#refusals button").nth(2).focus()
    assert opened.focused() == "Reason"

    opened.press("Enter")
    once = opened.column("refusals", 3)
    opened.press("Space")
    twice = opened.column("refusals", 3)

    assert before == ["not_needed", "bare_pod"]
    assert (once, twice) == (["bare_pod", "not_needed"], ["not_needed", "bare_pod"])
    assert opened.texts("#refusals [aria-sort=descending]") == ["Reason"]


def test_numbers_are_sorted_as_numbers_and_the_largest_come_first(page: Open) -> None:
    opened = page()
    load = opened.page.locator("#nodes button").nth(2)

    load.click()
    assert opened.column("nodes", 1) == ["te3", "te5", "te1"]
    load.click()
    assert opened.column("nodes", 1) == ["te1", "te5", "te3"]


def test_a_filter_shows_the_rows_with_all_of_its_words(page: Open) -> None:
    opened = page()
    opened.page.get_by_role("searchbox").first.fill("under TE5")

    assert opened.column("nodes", 1) == ["te5"]
    assert opened.texts(".filter [aria-live]") == ["1 of 3"]
    opened.page.get_by_role("searchbox").first.fill("")
    assert opened.column("nodes", 1) == ["te3", "te5", "te1"]


def test_the_focus_is_seen(page: Open) -> None:
    opened = page()
    opened.press("Tab")

    style = opened.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


def test_hostile_names_are_text(page: Open) -> None:
    opened = page(poisoned(with_all(FOLLOWED_UP)))

    assert opened.evaluate("document.scripts.length") == 1
    assert "<script>alert(1)</script>" in HOSTILE
    assert "<script>alert(1)</script>" in opened.texts("h1")[0]
    assert "<script>alert(1)</script>" in opened.column("nodes", 1)[0]


def test_without_scripts_it_is_a_page_with_tables(page: Open) -> None:
    opened = page(scripts=False)

    assert opened.column("nodes", 1) == ["te3", "te5", "te1"]
    assert opened.page.locator("button, input").count() == 0


def test_its_colours_follow_the_browser(page: Open) -> None:
    color = "getComputedStyle(document.body).backgroundColor"

    assert page(scheme="light").evaluate(color) == "rgb(255, 255, 255)"
    assert page(scheme="dark").evaluate(color) == "rgb(15, 20, 26)"


def test_it_prints_all_of_it_on_white_paper(page: Open) -> None:
    opened = page(scheme="dark")
    opened.page.emulate_media(media="print", color_scheme="dark")
    color = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    printed = opened.page.pdf()

    assert color == "rgb(255, 255, 255)"
    assert printed.startswith(b"%PDF")
    assert opened.column("refused", 1) == ["shop/a", "shop/b", "shop/c"]
    assert opened.page.locator("button, input").filter(visible=True).count() == len(
        opened.texts("thead button")
    )


@pytest.mark.parametrize("width", [1280, 400])
def test_it_fits_into_a_window_of_any_width(page: Open, width: int) -> None:
    opened = page(with_all(FOLLOWED_UP), size=(width, 800))

    assert opened.evaluate("document.documentElement.scrollWidth") <= width
