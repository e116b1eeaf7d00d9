"""What a report looks like to programs and to people: `cycles.txt` has the whole of each case."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

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
    PlannedTaint,
    Refusal,
    RefusalReason,
    ResourceRelief,
    TaintRemoval,
    UnjudgedLoad,
    Unreserved,
    UnreservedReason,
    Unsteered,
)
from desched.model.report import (
    CycleReport,
    CycleResult,
    EvictionVerdict,
    Mode,
    NotActing,
    ObservedCounts,
    Outcome,
    TaintChange,
)
from desched.model.resources import Resource
from desched.views.cycle import CycleView
from tests.builders import planned_eviction, pressure
from tests.shown import shown
from tests.stored_text import check_stored, sections
from tests.unit.service.example_reports import EVICTION, FOLLOWED_UP, REPORT

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


def changed(cycle: CycleReport, **fields: Any) -> CycleReport:
    return msgspec.structs.replace(cycle, **fields)


def planned(cycle: CycleReport, **fields: Any) -> CycleReport:
    """The report with these fields of its plan."""
    return changed(cycle, plan=msgspec.structs.replace(cycle.plan, **fields))


def evicting(result: CycleResult = CycleResult.PLANNED, **fields: Any) -> CycleReport:
    """One eviction from an overloaded node."""
    moved = msgspec.structs.replace(eviction(), **fields)
    return report(node("a", 0.9), evictions=(moved,), result=result)


def unknown(name: str, reason: UnknownReason, detail: str = "") -> NodeVerdict:
    return NodeVerdict(name, NodeClass.UNKNOWN, reason=reason, detail=detail)


def fresh(name: str) -> NodeVerdict:
    return NodeVerdict(
        name,
        NodeClass.UNKNOWN,
        reason=UnknownReason.WINDOW_NOT_COVERED,
        detail="samples cover 40% of the last 15m",
        unjudged=(UnjudgedLoad(Resource.CPU, ((300, 0.421), (900, 0.4)), 12.0),),
        until=datetime(2026, 1, 1, 0, 9, tzinfo=UTC),
    )


def busy() -> CycleReport:
    refusals = [
        Refusal(PodRef("n", f"p{i:02}"), "ab"[i % 2], RefusalReason.BARE_POD) for i in range(30)
    ]
    nodes = (node("a", 0.9), node("b", 0.9), node("c", 0.1))
    return report(*nodes, evictions=(eviction(),), refusals=tuple(refusals))


def pvc_pods() -> CycleReport:
    pods = (PodRef("n", f"p{number}") for number in range(12))
    staying = tuple(Refusal(pod, "a", RefusalReason.PVC_POD, "data") for pod in pods)
    return report(node("a", 0.9), refusals=staying)


def without_data(reason: UnknownReason) -> CycleReport:
    hold = HoldReason.TOO_MANY_UNKNOWN_NODES
    nodes = (unknown("a", reason), unknown("b", reason))
    return report(*nodes, result=CycleResult.HELD, hold=hold)


def results() -> Iterator[tuple[str, CycleReport]]:
    for result in CycleResult:
        cycle = evicting(result)
        if result is CycleResult.HELD:
            cycle = planned(cycle, hold=HoldReason.PARTIAL_DATA)
        if result is CycleResult.NOT_ACTING:
            cycle = changed(cycle, not_acting=NotActing.PAUSED)
        yield f"a cycle that is {result}", cycle


def steering(mode: Mode, *changes: TaintChange, **fields: Any) -> CycleReport:
    """Two moves that need soft taints on one node, and what became of taints."""
    steered = msgspec.structs.replace(EVICTION, steered=("te1", "te3"))
    pods = (EVICTION.pod, PodRef("shop", "web-2", "uid-2"))
    taints = tuple(PlannedTaint("te1", f"the replacement of {pod} …", pod) for pod in pods)
    cycle = planned(REPORT, evictions=(steered,), taints=taints, **fields)
    return changed(cycle, mode=mode, taints=changes)


COOL = [node(f"cool-{number}", 0.2) for number in range(40)]
OUTCOME = Outcome(eviction().pod, "a", EvictionVerdict.BLOCKED_BY_BUDGET, AT, "needs 2, has 2")
OUTSIDE = changed(
    evicting(CycleResult.NOT_ACTING),
    not_acting=NotActing.OUTSIDE_WINDOW,
    not_acting_detail="until 06:00 Europe/Berlin",
)
CROWD = (Unreserved("evil", UnreservedReason.NAMESPACE_SHARE, 13),)
STALE = UnknownReason.STALE
TOO_YOUNG = NodeVerdict("e", NodeClass.OUT_OF_SCOPE, reason=NodeReason.TOO_YOUNG)
IMPOSSIBLE = "p.yaml:31: reserve[0]: no node has 8 GPUs"
MISSING = TaintChange("te3", tainted=True, why="a move needs it", done=False, detail="403")
CASES: dict[str, CycleReport] = {
    **dict(results()),
    "the hottest node is first, without earlier moves there is no section of them": report(
        node("cool", 0.1), node("hot", 0.9), node("warm", 0.5)
    ),
    "a node without numbers has its reason": report(node("a"), unknown("dark", STALE, "600 s")),
    "a detail that several share is there once": report(
        node("a"), *(unknown(n, STALE, d) for n, d in (("d1", "6 s"), ("d2", "6 s"), ("d3", "9 s")))
    ),
    "of many nodes only the interesting are shown, and the others counted": report(
        node("a", 0.9), node("b", 0.1), *COOL, evictions=(eviction(),)
    ),
    "pending pods without reserved room": planned(report(node("a")), unreserved=CROWD),
    "refusals have counts, examples and the sentence": pvc_pods(),
    "each pod that stays is named with its node": busy(),
    "an outcome has the API server's message": changed(
        evicting(CycleResult.NOT_EVICTED), mode=Mode.EVICT, outcomes=(OUTCOME,)
    ),
    "an eviction has what it costs": evicting(cost=2.525),
    "a pod of another scheduler": evicting(scheduler="volcano"),
    "a hold with braces in its detail": report(
        node("a", 0.9),
        result=CycleResult.HELD,
        hold=HoldReason.SEVERAL_CLUSTERS,
        hold_detail='{cluster="x"}',
    ),
    "nothing to do counts the nodes that were not judged": report(
        *map(node, "abc"), unknown("d", STALE), TOO_YOUNG, result=CycleResult.NOTHING_TO_DO
    ),
    "where no node has data the matchers are mentioned": without_data(UnknownReason.ABSENT),
    "but not where it is too old": without_data(STALE),
    "what became of earlier moves, and what is left alone": FOLLOWED_UP,
    "why evictions are not allowed is there once": OUTSIDE,
    "also where nothing would be evicted": changed(OUTSIDE, result=CycleResult.NOTHING_TO_DO),
    "other deschedulers": changed(report(node("a")), other_deschedulers=("Volcano in x",)),
    "a descheduler that is acknowledged": changed(
        report(node("a")), acknowledged_deschedulers=("Volcano descheduler in x",)
    ),
    "a reserve that the nodes cannot give": changed(report(node("a")), unmet=(IMPOSSIBLE,)),
    "the first look has loads, and from when they can be judged": report(fresh("a"), fresh("b")),
    "a node without any load has a question mark beside others": report(
        fresh("a"), NodeVerdict("dark", NodeClass.UNKNOWN)
    ),
    "what the missing right to steer costs": planned(REPORT, unsteered=Unsteered(7, 3)),
    "a dry run has the soft taints that it would set": steering(Mode.DRY_RUN),
    "and before them those that it would remove": steering(
        Mode.DRY_RUN, removed_taints=(TaintRemoval("te9", "its time is over"),)
    ),
    "soft taints that were set, removed, or could not be": steering(
        Mode.EVICT,
        TaintChange("te1", tainted=True, why="a move needs it"),
        TaintChange("te2", tainted=False, why="its time is over"),
        MISSING,
    ),
}
VIEWS: dict[str, dict[str, Any]] = {
    "all pods that stay": {"all_pods": True},
    "one node with its pods and where they go": {"node": "b", "all_pods": True},
    "the node that a pod leaves": {"node": "a"},
}


def test_a_table_says_all_of_this() -> None:
    found = {case: shown(cycle) for case, cycle in CASES.items()}
    found |= {title: shown(busy(), "table", **view) for title, view in VIEWS.items()}
    check_stored(Path(__file__).with_name("cycles.txt"), sections(found))


@pytest.mark.parametrize("result", CycleResult)
def test_the_last_line_is_a_sentence_about_what_happened(result: CycleResult) -> None:
    last = CycleView(dict(results())[f"a cycle that is {result}"]).summary[-1]
    assert last.endswith(".")
    assert "{" not in last


def test_json_holds_enumerations_as_values_iso_times_and_four_decimals() -> None:
    document = json.loads(shown(report(node("a", 0.123456789)), "json"))
    assert document["version"] == "desched.io/report/v2"
    assert document["mode"] == "dry_run"
    assert document["started_at"] == "2026-01-01T00:00:00Z"
    assert document["duration_seconds"] == 0.1235
    assert document["plan"]["nodes"][0]["pressures"][0]["measured"] == [[300, 0.1235]]


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


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='There is no node "x" among the 3 nodes'):
        shown(busy(), "table", node="x")
