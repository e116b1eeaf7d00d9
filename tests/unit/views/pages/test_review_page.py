"""The page of a review: its figures are those of the JSON."""

from desched.history.review import review
from desched.views.pages.timeline_page import timeline_page
from desched.views.review import review_view
from tests.page_reader import Page, loads_nothing
from tests.unit.example_logbook import dry_run, logbook
from tests.unit.history.test_review import LONG_AGO

FOUND = review(logbook(*(dry_run(i) for i in range(12))), LONG_AGO)


def test_its_figures_are_those_of_the_review():
    found = Page(timeline_page(review_view(FOUND)))
    figures = {row[0]: row[1] for row in found.rows("figures")}

    assert figures == {
        "cycles": "12",
        "overloaded node-minutes": "65",
        "node-minutes above 90 %": "0",
        "node-minutes at 100 % CPU": "0",
        "point-minutes above target": "650",
        "nodes overloaded": "1",
        "longest overload, minutes": "65",
        "planned evictions": "1",
    }
    assert found.rows("nodes") == [
        ["te3", "65", "90.0 %", "1"],
        ["te5", "0", "10.0 %", "0"],
    ]
    assert "1 eviction would have begun" in found.text
    assert "expected on te5" in found.rows("evictions")[0][4]
    loads_nothing(found)


def test_a_time_without_overload_has_a_page_too():
    quiet = review(logbook(*(dry_run(i, ratio=0.5) for i in range(3))), LONG_AGO)

    assert "No node was overloaded." in Page(timeline_page(review_view(quiet))).text


def test_a_single_cycle_has_a_page_too():
    assert "1 cycle" in Page(timeline_page(review_view(review(logbook(dry_run(0)), LONG_AGO)))).text
