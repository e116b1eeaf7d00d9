"""What a report looks like to programs and to people."""

import json
import re
from datetime import UTC, datetime

import msgspec
import pytest
from rich.console import Console

from desched.errors import ConfigurationError
from desched.model.cluster import PodRef
from desched.model.load import UnknownReason
from desched.model.plan import (
    HoldReason,
    NodeClass,
    NodeReason,
    NodeVerdict,
    Plan,
    PlannedEviction,
    Refusal,
    RefusalReason,
    ResourceRelief,
    UnjudgedLoad,
    Unreserved,
    UnreservedReason,
)
from desched.model.report import (
    CycleReport,
    CycleResult,
    EvictionVerdict,
    Mode,
    NotActing,
    ObservedCounts,
    Outcome,
)
from desched.model.resources import Resource
from desched.model.state import MoveResult
from desched.views.cycle import CycleView
from desched.views.reasons import sentence_of
from tests.builders import planned_eviction, pressure
from tests.shown import print_shown, shown
from tests.unit.service.example_reports import FOLLOWED_UP

AT = datetime(2026, 1, 1, tzinfo=UTC)


def node(name: str, ratio: float = 0.5, **fields: object) -> NodeVerdict:
    kind = NodeClass.OVERLOADED if ratio > 0.8 else NodeClass.BALANCED
    return msgspec.structs.replace(NodeVerdict(name, kind, (pressure(ratio),)), **fields)


def eviction(name: str = "web-1") -> PlannedEviction:
    relief = (ResourceRelief(Resource.CPU, 0.125),)
    return planned_eviction(PodRef("shop", name, "u1"), "a", "b", priority=7, relief=relief)


def report(
    *nodes: NodeVerdict, result: CycleResult = CycleResult.PLANNED, **plan_fields: object
) -> CycleReport:
    return CycleReport(
        cycle=1,
        started_at=AT,
        duration_seconds=0.123456,
        observe_seconds=0.1,
        plan_seconds=0.02,
        mode=Mode.DRY_RUN,
        target="test",
        policy="policy.yaml",
        result=result,
        observed=ObservedCounts(
            nodes=len(nodes), pods=2, pods_asked=2, pods_measured=2, unresolved_series=0
        ),
        plan=msgspec.structs.replace(Plan(nodes), **plan_fields),
    )


def printed(cycle: CycleReport, width: int = 80) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        print_shown(cycle, console)
    return capture.get()


# --- JSON and YAML ----------------------------------------------------------------------------


def test_json_holds_enumerations_as_values_iso_times_and_four_decimals() -> None:
    document = json.loads(shown(report(node("a", 0.123456789)), "json"))
    assert document["version"] == "desched.io/report/v1"
    assert document["mode"] == "dry_run"
    assert document["started_at"] == "2026-01-01T00:00:00Z"
    assert document["duration_seconds"] == 0.1235
    assert document["plan"]["nodes"][0]["pressures"][0]["measured"] == [[300, 0.1235]]


def test_pending_pods_without_reserved_room_are_named_by_namespace() -> None:
    cycle = report(node("a"))
    crowd = (Unreserved("evil", UnreservedReason.NAMESPACE_SHARE, 13),)
    plan = msgspec.structs.replace(cycle.plan, unreserved=crowd)
    found = shown(msgspec.structs.replace(cycle, plan=plan), "table")
    assert "13 pods of namespace evil (namespace_share): Their namespace has reserved" in found


def test_nodes_and_refusals_are_sorted_and_evictions_keep_their_order() -> None:
    cycle = report(
        node("b"),
        node("a"),
        evictions=(eviction("z"), eviction("y")),
        refusals=(
            Refusal(PodRef("n", "q"), "a", RefusalReason.BARE_POD),
            Refusal(PodRef("n", "p"), "a", RefusalReason.BARE_POD),
        ),
    )
    plan = json.loads(shown(cycle, "json"))["plan"]
    assert [verdict["node"] for verdict in plan["nodes"]] == ["a", "b"]
    assert [refusal["pod"]["name"] for refusal in plan["refusals"]] == ["p", "q"]
    assert [each["pod"]["name"] for each in plan["evictions"]] == ["z", "y"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_a_number_is_null(value: float) -> None:
    rendered = shown(report(node("a", value)), "json")
    assert json.loads(rendered)["plan"]["nodes"][0]["pressures"][0]["lowest_ratio"] is None


# --- the terminal -----------------------------------------------------------------------------


def test_the_hottest_node_comes_first_and_shows_its_lines() -> None:
    output = printed(report(node("cool", 0.1), node("hot", 0.9), node("warm", 0.5)))
    assert output.index("hot ") < output.index("warm ") < output.index("cool ")
    assert "CPU % 5m" in output
    assert "90.0" in output
    assert "80/75" in output


def test_a_node_without_numbers_is_shown_with_its_reason() -> None:
    unknown = NodeVerdict(
        "dark", NodeClass.UNKNOWN, reason=UnknownReason.STALE, detail="600 seconds"
    )
    output = printed(report(node("a"), unknown))
    assert "dark (600 seconds)" in output
    assert sentence_of(UnknownReason.STALE) in output


def test_of_many_nodes_only_the_interesting_are_shown_and_the_others_counted() -> None:
    cool = [node(f"cool-{number}", 0.2) for number in range(40)]
    cycle = report(node("a", 0.9), node("b", 0.1), *cool, evictions=(eviction(),))
    output = printed(cycle)
    assert "… and 22 more balanced" in output
    assert "cool-39" not in output
    assert "\nb " in output  # the expected destination


def test_refusals_are_grouped_with_counts_examples_and_the_sentence() -> None:
    refusals = [
        Refusal(PodRef("n", f"p{number}"), "a", RefusalReason.PVC_POD, "data")
        for number in range(12)
    ]
    output = printed(report(node("a", 0.9), refusals=tuple(refusals)))
    assert "12 pods on overloaded nodes stay:" in output
    assert sentence_of(RefusalReason.PVC_POD).split(",")[0] in output
    assert "n/p9 (data)" in output
    assert "… and 2 more" in output
    assert "n/p10" not in output


def test_a_detail_that_several_share_is_shown_once() -> None:
    dark = [
        NodeVerdict(name, NodeClass.UNKNOWN, reason=UnknownReason.STALE, detail=detail)
        for name, detail in (("d1", "600 s"), ("d2", "600 s"), ("d3", "900 s"))
    ]
    output = printed(report(node("a"), *dark))
    assert "  d1, d2 (600 s) " in output
    assert "  d3 (900 s) " in output


def test_an_outcome_is_shown_with_the_api_servers_message() -> None:
    planned = eviction()
    outcome = Outcome(planned.pod, "a", EvictionVerdict.BLOCKED_BY_BUDGET, AT, "needs 2, has 2")
    cycle = report(node("a", 0.9), evictions=(planned,), result=CycleResult.NOT_EVICTED)
    output = printed(msgspec.structs.replace(cycle, mode=Mode.EVICT, outcomes=(outcome,)))
    assert "blocked_by_budget: Its PodDisruptionBudget refused." in output
    assert "needs 2, has 2" in output


def test_an_eviction_is_shown_with_what_it_costs() -> None:
    dear = msgspec.structs.replace(eviction(), cost=2.525)
    cycle = report(node("a", 0.9), evictions=(dear,))
    assert "of Deployment shop/web, priority 7, cost 2.5" in printed(cycle)
    assert json.loads(shown(cycle, "json"))["plan"]["evictions"][0]["cost"] == 2.525


def test_a_pod_of_another_scheduler_is_marked_in_the_table() -> None:
    theirs = msgspec.structs.replace(eviction(), scheduler="volcano")
    text = printed(report(node("a", 0.9), evictions=(theirs,)))
    assert "placed by volcano, possibly on any node where it fits" in text
    assert "placed by" not in printed(report(node("a", 0.9), evictions=(eviction(),)))


def test_a_hold_with_braces_in_its_detail_is_shown_unchanged() -> None:
    cycle = report(
        node("a", 0.9),
        result=CycleResult.HELD,
        hold=HoldReason.SEVERAL_CLUSTERS,
        hold_detail='{cluster="x"}',
    )
    assert '{cluster="x"}' in printed(cycle, width=200).splitlines()[-1]


@pytest.mark.parametrize("result", CycleResult)
def test_the_last_line_is_a_sentence_about_what_happened(result: CycleResult) -> None:
    cycle = report(
        node("a", 0.9),
        evictions=(eviction(),),
        result=result,
        hold=HoldReason.PARTIAL_DATA if result is CycleResult.HELD else None,
    )
    if result is CycleResult.NOT_ACTING:
        cycle = msgspec.structs.replace(cycle, not_acting=NotActing.PAUSED)
    last = printed(cycle, width=300).splitlines()[-1]
    assert last.endswith(".")
    assert "{" not in last


def last_line(cycle: CycleReport, *, single: bool) -> str:
    return shown(cycle, "table", single=single).splitlines()[-1]


def test_after_a_single_run_the_next_one_must_wait_for_the_measurements() -> None:
    cycle = report(node("a", 0.9), evictions=(eviction(),), result=CycleResult.EVICTED)
    assert "run it again only after 5m" in last_line(cycle, single=True)
    assert "the next cycle counts their load as gone" in last_line(cycle, single=False)


def test_a_dry_run_names_the_flags_that_would_evict() -> None:
    cycle = report(node("a", 0.9), evictions=(eviction(),))
    assert last_line(cycle, single=True).startswith("To evict, run `desched --evict --once …`")
    assert last_line(cycle, single=False).startswith("To evict, run `desched --evict …`")


def test_nothing_to_do_counts_the_nodes_that_were_not_judged() -> None:
    cycle = report(
        node("a"),
        node("b"),
        node("c"),
        NodeVerdict("d", NodeClass.UNKNOWN, reason=UnknownReason.STALE),
        NodeVerdict("e", NodeClass.OUT_OF_SCOPE, reason=NodeReason.TOO_YOUNG),
        result=CycleResult.NOTHING_TO_DO,
    )
    assert CycleView(cycle).summary == [
        "None of the 3 nodes with known load is overloaded; 2 were not judged."
    ]


@pytest.mark.parametrize(
    ("reason", "asks"), [(UnknownReason.ABSENT, True), (UnknownReason.STALE, False)]
)
def test_where_no_node_has_data_the_matchers_are_mentioned(
    reason: UnknownReason,
    asks: bool,  # noqa: FBT001  (pytest passes parameters by name)
) -> None:
    cycle = report(
        NodeVerdict("a", NodeClass.UNKNOWN, reason=reason),
        NodeVerdict("b", NodeClass.UNKNOWN, reason=reason),
        result=CycleResult.HELD,
        hold=HoldReason.TOO_MANY_UNKNOWN_NODES,
    )
    assert ("metrics.matchers" in CycleView(cycle).summary[0]) is asks


# --- earlier moves ----------------------------------------------------------------------------


def test_without_earlier_moves_there_is_no_section_about_them() -> None:
    output = printed(report(node("a")))
    for heading in ("Results of", "in flight", "Left alone", "Another descheduler"):
        assert heading not in output


def test_results_of_earlier_evictions_are_shown_failures_first() -> None:
    output = printed(FOLLOWED_UP, width=200)
    assert "Results of earlier evictions:" in output
    assert f"1 back_on_source: {sentence_of(MoveResult.BACK_ON_SOURCE)}" in output
    assert "shop/web-2 te3 → te3" in output
    assert output.index("back_on_source") < output.index("landed_as_forecast")


def test_evictions_in_flight_are_shown_with_where_they_are_expected() -> None:
    output = printed(FOLLOWED_UP, width=200)
    assert (
        "shop/web-3 of Deployment shop/web left te3 1 h ago (11:00 UTC), expected on te5" in output
    )


def test_what_is_left_alone_is_shown_with_its_end_and_reason() -> None:
    output = printed(FOLLOWED_UP, width=200).partition("left alone for now:")[2]
    assert "pool gpu ends in 1 h (13:00 UTC) (started automatically" in output
    assert "moves of 2 workloads failed" in output
    assert "one careful move must succeed before others follow" in output
    assert "te3 ends in 1 h (13:00 UTC): 2 rounds did not relieve it" in output
    assert "Deployment shop/web ends in 1 h (13:00 UTC) after back_on_source" in output
    assert "te4" not in output
    assert "StatefulSet shop/db" not in output


def test_the_reason_why_evictions_are_not_allowed_is_shown_once() -> None:
    waiting = msgspec.structs.replace(
        report(node("a", 0.9), evictions=(eviction(),), result=CycleResult.NOT_ACTING),
        not_acting=NotActing.OUTSIDE_WINDOW,
        not_acting_detail="until 06:00 Europe/Berlin",
    )
    assert printed(waiting, width=200).count("until 06:00 Europe/Berlin") == 1
    assert printed(waiting, width=200).splitlines()[-1] == (
        "1 pod would be evicted, but not now: The policy's windows forbid evictions at this time "
        "(until 06:00 Europe/Berlin)."
    )
    idle = msgspec.structs.replace(waiting, result=CycleResult.NOTHING_TO_DO)
    assert "Evictions are not allowed now: The policy's windows" in printed(idle, width=200)


def test_other_deschedulers_are_named_with_what_to_do() -> None:
    cycle = msgspec.structs.replace(report(node("a")), other_deschedulers=("Volcano in x",))
    assert (
        "Another descheduler runs in this cluster: Volcano in x. They undo each other's work; "
        "choose one." in printed(cycle, width=200)
    )


def test_a_reserve_that_the_nodes_cannot_give_is_a_warning() -> None:
    why = "p.yaml:31: reserve[0]: no node has 8 GPUs"
    assert why in printed(msgspec.structs.replace(report(node("a")), impossible_reserves=(why,)))


def test_a_descheduler_that_is_acknowledged_is_no_warning() -> None:
    beside = ("Volcano descheduler in x",)
    cycle = msgspec.structs.replace(report(node("a")), acknowledged_deschedulers=beside)
    assert "Beside desched on purpose: Volcano descheduler in x." in printed(cycle, width=200)
    assert "choose one" not in printed(cycle, width=200)


# --- nodes that are not judged, and parts of a table ------------------------------------------


def fresh(name: str) -> NodeVerdict:
    return NodeVerdict(
        name,
        NodeClass.UNKNOWN,
        reason=UnknownReason.WINDOW_NOT_COVERED,
        detail="samples cover 40% of the last 15m",
        unjudged=(UnjudgedLoad(Resource.CPU, ((300, 0.421), (900, 0.4)), 12.0),),
        until=datetime(2026, 1, 1, 0, 9, tzinfo=UTC),
    )


def test_the_first_look_shows_loads_and_from_when_they_can_be_judged() -> None:
    output = printed(report(fresh("a"), fresh("b")))

    assert "CPU % 5m/15m" in output
    assert "(42.1/40.0)" in output
    assert "until 00:09 UTC at the earliest" in " ".join(output.split())


def test_a_node_without_any_load_has_a_question_mark_beside_others() -> None:
    output = printed(report(fresh("a"), NodeVerdict("dark", NodeClass.UNKNOWN)))

    assert re.search(r"^dark +unknown +\?", output, re.MULTILINE)


def busy() -> CycleReport:
    refusals = [
        Refusal(PodRef("n", f"p{i:02}"), "ab"[i % 2], RefusalReason.BARE_POD) for i in range(30)
    ]
    nodes = (node("a", 0.9), node("b", 0.9), node("c", 0.1))
    return report(*nodes, evictions=(eviction(),), refusals=tuple(refusals))


def test_each_pod_that_stays_is_named_with_its_node() -> None:
    output = " ".join(printed(busy(), 200).split())

    assert "a: n/p00, n/p02, n/p04, n/p06, n/p08 b: n/p01, n/p03" in output
    assert "… and 20 more" in output


def test_all_pods_that_stay_can_be_shown() -> None:
    text = shown(busy(), "table", all_pods=True)

    assert all(f"n/p{i:02}" in text for i in range(30))
    assert "more" not in text


def test_one_node_can_be_shown_with_its_pods_and_where_they_go() -> None:
    text = shown(busy(), "table", node="b", all_pods=True)

    assert "n/p01" in text
    assert "n/p00" not in text
    assert not re.search(r"^[ac] ", text, re.MULTILINE)

    of_source = shown(busy(), "table", node=eviction().node)
    assert "Would evict 1 pod" in of_source
    assert re.search(rf"^{eviction().expected_node} ", of_source, re.MULTILINE)


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='There is no node "x" among the 3 nodes'):
        shown(busy(), "table", node="x")
