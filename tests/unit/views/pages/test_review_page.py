"""The page of a review: its figures are those of the JSON."""

from desched.history.review import review
from desched.views.pages.review_page import review_page
from tests.page_reader import Page, loads_nothing
from tests.unit.example_logbook import dry_run, logbook
from tests.unit.history.test_review import LONG_AGO

FOUND = review(logbook(*(dry_run(i) for i in range(12))), LONG_AGO)


def test_its_figures_are_those_of_the_review():
    found = Page(review_page(FOUND))
    figures = {row[0]: row[1] for row in found.rows("figures")}

    assert figures == {
        "cycles": "12",
        "overloaded node-minutes": "65",
        "nodes overloaded at some time": "1",
        "longest overload of one node, in minutes": "65",
        "evictions that were planned": "1",
        "evictions per day": "22.2",
        "overload for which an eviction was planned": "100 %",
    }
    assert found.rows("nodes") == [
        ["te3", "65", "1", "90.0 %"],
        ["te5", "0", "0", "10.0 %"],
    ]
    assert "1 eviction would have begun" in found.text
    assert "expected on te5" in found.rows("evictions")[0][4]
    loads_nothing(found)


def test_a_time_without_overload_has_a_page_too():
    quiet = review(logbook(*(dry_run(i, ratio=0.5) for i in range(3))), LONG_AGO)

    assert "No node was overloaded." in Page(review_page(quiet)).text


def test_a_single_cycle_has_a_page_too():
    assert "1 cycle" in Page(review_page(review(logbook(dry_run(0)), LONG_AGO))).text
