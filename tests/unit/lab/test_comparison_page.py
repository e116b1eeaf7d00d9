"""The page of policies side by side: its figures are those of the policies."""

from msgspec.structs import replace

from desched.history.overload import Overload
from desched.history.timeline import Lines
from desched.lab.comparison import left_sentence, policies_compared
from desched.lab.figures import (
    Hours,
    IdleHours,
    NodeFigures,
    PolicyFigures,
    WorkloadFigures,
)
from desched.model.plan import NodeReason
from desched.views.pages.timeline_page import timeline_page
from desched.wording.section import Section
from tests.page_reader import Page, loads_nothing
from tests.unit.views.pages.test_timeline_page import AFTER, BEFORE


def figures(name: str, **changes) -> PolicyFigures:
    """A policy over three nodes, of which it relieves the first one."""
    found = PolicyFigures(
        policy=name,
        evictions=5,
        evictions_per_day=480.0,
        without=Overload(25.0, 12.0, 3.0, 300.0, 15.0, 2),
        with_policy=Overload(10.0, 4.0, None, 70.0, 5.0, 1),
        avoided_share=0.6,
        replicas_moved_again=1,
        came_back=2,
        landed_overloaded=3,
        pending_minutes=2.5,
        most_of_a_workload_within_an_hour=0.5,
        hours=Hours(4, 0, (IdleHours(NodeReason.POOL_SATURATED, 6),)),
        workloads=(WorkloadFigures("Deployment shop/web", 5, 10),),
        nodes=tuple(
            NodeFigures(node, 15.0 - i, 5.0 - i, 1.2 - i / 10, 1.1 - i / 10, i, 2 * i)
            for i, node in enumerate(BEFORE.nodes)
        ),
        before=replace(BEFORE, name="what really happened"),
        after=replace(AFTER, name=name),
    )
    return replace(found, **changes)


def page(*policies: PolicyFigures) -> Page:
    notes = [Section("Assumed", ("a note",)), Section("Not known", ())]
    return Page(timeline_page(policies_compared("backtest", ["an hour"], policies, notes)))


def table(found: Page) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in found.rows("figures")}


def test_its_figures_are_those_of_the_policies_and_not_of_the_shortened_timelines():
    found = table(page(figures("a.yaml"), figures("b.yaml", evictions=7)))

    assert found["overloaded node-minutes"] == ["25", "10", "10"]
    assert found["node-minutes above 90 %"] == ["12", "4", "4"]
    assert found["node-minutes at 100 % CPU"] == ["3", "-", "-"]
    assert found["point-minutes above target"] == ["300", "70", "70"]
    assert "CPU not given, node-min" not in found
    assert found["longest overload, minutes"] == ["15", "5", "5"]
    assert found["nodes overloaded"] == ["2", "1", "1"]
    assert found["evictions"] == ["-", "5", "7"]
    assert found["evictions per day"] == ["-", "480", "480"]
    assert found["came back to the node"] == ["-", "2", "2"]
    assert found["landed on overloaded node"] == ["-", "3", "3"]
    assert found["moved again within 1 h"] == ["-", "1", "1"]
    assert found["minutes pending, all pods"] == ["-", "2.5", "2.5"]
    assert found["hours with evictions"] == ["-", "4", "4"]
    assert found["hours idle with overload"] == ["-", "6", "6"]


def test_it_says_in_one_sentence_for_each_policy_what_it_leaves():
    text = " ".join(page(figures("a.yaml"), figures("b.yaml", evictions=1)).text.split())

    assert (
        "a.yaml: 10 of 25 overloaded node-minutes are left (60.0 % less), with 5 evictions." in text
    )
    assert "b.yaml: 10 of 25" in text
    assert "with 1 eviction." in text
    assert "a note" in text
    assert "Not known" not in text


def test_where_no_node_is_overloaded_it_shows_that_first():
    calm = Overload(0.0, 0.0, None, 0.0, 0.0, 0)
    sentence = left_sentence("a.yaml", calm, calm, 1)
    assert sentence == "a.yaml: no node was overloaded; 1 eviction."


def test_each_node_has_its_figures_before_and_after():
    found = page(figures("a.yaml"))
    first = next(row for row in found.rows("nodes") if row[0] == BEFORE.nodes[0])

    assert first[1:] == ["15", "5", "120.0 %", "110.0 %", "0", "0"]
    assert len(found.rows("nodes")) == len(BEFORE.nodes)


def test_policies_with_other_lines_are_compared_with_the_same_time_by_those():
    """What happened overloads more nodes if the targets are lower."""
    lower = tuple(
        replace(load, lines=tuple(each and Lines(0.5, 0.45, 0.4) for each in load.lines))
        for load in BEFORE.loads
    )
    other = figures(
        "low.yaml",
        without=Overload(40.0, 12.0, 3.0, 500.0, 15.0, 3),
        before=replace(BEFORE, loads=lower),
    )
    found = table(page(figures("a.yaml"), other))

    assert found["overloaded node-minutes"] == ["25", "10", "40", "10"]
    assert found["evictions"] == ["-", "5", "-", "5"]


def test_it_loads_nothing():
    loads_nothing(page(figures("a.yaml")))
