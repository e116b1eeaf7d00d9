"""What `desched status` says."""

import json
import re
from datetime import timedelta

import msgspec
import pytest

from desched.cycle_report import MOST_NAMES
from desched.model.cluster import PodRef
from desched.model.drains import Purpose
from desched.model.plan import HoldReason, Unsteered
from desched.model.state import (
    CoolDown,
    EvictionRecord,
    ForecastCheck,
    LastCycle,
    MoveResult,
    NodeRounds,
    Pause,
    PauseScope,
    PolicyEdit,
    SkippedCycles,
    State,
)
from desched.ports import LeaseRecord
from desched.views.reasons import describe, describe_unsteered
from desched.views.rendering import rendered
from desched.views.status import Status, print_status
from tests.builders import NOW, certain
from tests.unit.service.example_reports import (
    DRAINING,
    LANDED_DRAIN,
    begun_earlier,
)

MINUTE = timedelta(minutes=1)
WEB = EvictionRecord(
    PodRef("shop", "web-1", "uid-1"),
    "n1",
    "uid-web",
    NOW - 5 * MINUTE,
    certain("n2"),
    workload="Deployment shop/web",
    judged_by=NOW + 6 * MINUTE,
)


def status(state: State | None, **fields) -> Status:
    return Status(NOW, 'context "prod"', "ConfigMap desched-system/desched-state", state, **fields)


def said(title: str, state: State | None, **fields) -> list[str]:
    (lines,) = [lines for name, lines in status(state, **fields).sections if name == title]
    return list(lines)


def changed(record: EvictionRecord, **fields) -> EvictionRecord:
    return msgspec.structs.replace(record, **fields)


# --- sections --------------------------------------------------------------------------------


def test_before_the_first_cycle_there_is_no_state():
    titles = [title for title, _ in status(None).sections]
    assert titles == ["leader", "state"]
    assert "none yet" in said("state", None)[0]


def test_a_state_that_cannot_be_used_comes_first_and_is_not_called_absent():
    found = list(status(None, problem="It is damaged.").sections)
    assert found[0] == ("PROBLEM", ["It is damaged."])
    assert [title for title, _ in found] == ["PROBLEM", "leader"]


def test_empty_sections_are_marked_as_empty():
    lines = dict(status(State()).sections)
    assert lines["last cycle"] == ["none yet"]
    empty = ("pauses", "in flight", "drains", "cool-downs", "cooling nodes", "forecasts")
    text = rendered(status(State()), print_status, "table")
    for title in empty:
        assert lines[title] == []
        assert re.search(rf"^{title} +none$", text, re.MULTILINE)


def test_the_last_cycle_has_time_replica_result_and_reason():
    cycle = LastCycle(
        NOW - 4 * MINUTE,
        "desched-7f9-x",
        "evict",
        "not_acting",
        tuple(f"n{i}" for i in range(12)),
        evicted=1,
        not_acting="everything is paused by alice",
        unsteered=Unsteered(7, 3),
    )
    assert said("last cycle", State(last_cycle=cycle)) == [
        "4 min ago (11:56 UTC) by desched-7f9-x, evicting: not_acting",
        "evicted 1 pod",
        "not acting: everything is paused by alice",
        describe_unsteered(Unsteered(7, 3)),
        "12 nodes are overloaded: n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and 2 more",
    ]
    many = msgspec.structs.replace(cycle, overloaded=tuple(f"n{i}" for i in range(MOST_NAMES)))
    assert said("last cycle", State(last_cycle=many))[-1].startswith("at least 20 nodes are over")
    held = msgspec.structs.replace(cycle, hold="just_started", hold_detail="no state before 9 s")
    (said_of_hold,) = [
        line for line in said("last cycle", State(last_cycle=held)) if "held" in line
    ]
    assert said_of_hold == f"held: {describe(HoldReason.JUST_STARTED, 'no state before 9 s')}"
    newer = msgspec.structs.replace(held, hold="from_a_newer_desched")
    assert "held: from_a_newer_desched (no state before 9 s)" in said(
        "last cycle", State(last_cycle=newer)
    )
    calm = msgspec.structs.replace(cycle, overloaded=(), evicted=0, not_acting="", unsteered=None)
    assert said("last cycle", State(last_cycle=calm))[1:] == ["no node is overloaded"]


def test_the_last_edit_of_the_policy_is_told_with_what_it_changed():
    cycle = LastCycle(
        NOW,
        "desched-0",
        "evict",
        "held",
        acknowledged_deschedulers=("Volcano descheduler in x",),
        edit=PolicyEdit(NOW - 9 * MINUTE, ("targetThresholds.cpu: 80 % → 70 %",)),
    )
    state = State(last_cycle=cycle)
    assert said("policy", state) == [
        "edited 9 min ago (11:51 UTC)",
        "targetThresholds.cpu: 80 % → 70 %",
    ]
    assert said("last cycle", state)[-1] == "beside desched on purpose: Volcano descheduler in x"


def test_cycles_that_were_skipped_and_an_edit_that_was_refused_are_told():
    cycle = LastCycle(NOW - 9 * MINUTE, "desched-0", "evict", "held", refused_edit="No such key.")
    state = State(last_cycle=cycle, skipped=SkippedCycles(NOW - 4 * MINUTE, "It was refused."))
    assert said("SKIPPED", state) == ["cycles since 4 min ago (11:56 UTC): It was refused."]
    assert said("POLICY", state) == ["the newest edit is not in force: No such key."]


def test_what_is_in_flight_is_as_the_last_cycle_saw_it():
    cycle = LastCycle(NOW - 4 * MINUTE, "desched-0", "evict", "evicted")
    assert said("in flight", State((WEB,), last_cycle=cycle))[-1] == (
        "as the cycle of 4 min ago (11:56 UTC) saw it"
    )
    assert said("in flight", State(last_cycle=cycle)) == []


@pytest.mark.parametrize(
    ("pause", "line"),
    [
        (
            Pause(PauseScope.EVERYTHING, NOW - MINUTE, None, why="storage work", by="alice"),
            "everything until it is resumed (started by alice 60 s ago (11:59 UTC)): storage work",
        ),
        (
            Pause(PauseScope.WORKLOAD, NOW, NOW + 90 * MINUTE, "shop/web", by="alice"),
            (
                "workload shop/web ends in 1 h 30 min (13:30 UTC) "
                "(started by alice 0 s ago (12:00 UTC))"
            ),
        ),
        (
            Pause(PauseScope.POOL, NOW - 40 * MINUTE, NOW - 10 * MINUTE, "gpu", why="failures"),
            (
                "pool gpu ended 10 min ago (11:50 UTC); one careful move must succeed before "
                "others follow (started automatically 40 min ago (11:20 UTC)): failures"
            ),
        ),
    ],
)
def test_a_pause_has_end_person_and_reason(pause, line):
    assert said("pauses", State(pauses=(pause,))) == [line]


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (
            WEB,
            (
                "is leaving n1, eviction requested 5 min ago (11:55 UTC), expected on n2 (100 %); "
                "judged in 6 min (12:06 UTC) at the latest"
            ),
        ),
        (
            changed(WEB, evicted_at=NOW + MINUTE / 60, judged_by=None),
            "is leaving n1, eviction requested 0 s ago (12:00 UTC), expected on n2 (100 %)",
        ),
        (
            changed(WEB, left_at=NOW - 2 * MINUTE),
            (
                "left n1 2 min ago (11:58 UTC), expected on n2 (100 %); judged in 6 min "
                "(12:06 UTC) at the latest"
            ),
        ),
        (
            changed(
                WEB,
                left_at=NOW - 2 * MINUTE,
                replacement=PodRef("shop", "web-2", "uid-2"),
                landed_on="n3",
                judged_by=None,
                probe=True,
            ),
            (
                "left n1 2 min ago (11:58 UTC), replaced by shop/web-2 on n3 (the probe after a "
                "pause)"
            ),
        ),
    ],
)
def test_an_eviction_in_flight_has_its_nodes(record, line):
    settled = changed(WEB, result=MoveResult.LANDED_AS_FORECAST)
    lines = said("in flight", State(evictions=(settled, record)))
    assert lines == [f"shop/web-1 of Deployment shop/web {line}"]


def test_cool_downs_that_last_are_listed_by_their_end():
    cool_downs = (
        CoolDown("1", "Deployment shop/a", NOW + 30 * MINUTE, 1, MoveResult.LANDED_OVERLOADED),
        CoolDown("2", "Deployment shop/b", NOW + 10 * MINUTE),
        CoolDown("3", "Deployment shop/c", NOW - MINUTE, 2),
    )
    assert said("cool-downs", State(cool_downs=cool_downs)) == [
        "Deployment shop/b ends in 10 min (12:10 UTC)",
        "Deployment shop/a ends in 30 min (12:30 UTC) after landed_overloaded, level 1",
    ]


def test_only_nodes_that_cool_down_now_are_listed():
    nodes = (
        NodeRounds("n1", 2, NOW, NOW + 30 * MINUTE),
        NodeRounds("n2", 1, NOW),
        NodeRounds("n3", 2, NOW, NOW - MINUTE),
    )
    assert said("cooling nodes", State(nodes=nodes)) == [
        "n1 ends in 30 min (12:30 UTC): 2 rounds did not relieve it"
    ]


def test_forecasts_are_shown_beside_landings():
    checks = tuple(
        ForecastCheck(NOW - MINUTE, "", 0.1, bad=i == 0, probability=0.8, hit=i < 3)
        for i in range(4)
    )
    assert said("forecasts", State(forecasts=checks)) == [
        (
            "4 landings in the last 24 h: 75.0 % where expected (forecast 80.0 %), 25.0 % bad "
            "(forecast 10.0 %)"
        )
    ]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "no leader election"),
        ({"lease_problem": "403"}, "not known: 403"),
        ({"lease": LeaseRecord("", 15)}, "none; the last leader released the Lease"),
        (
            {"lease": LeaseRecord("a", 15, renewed_at=NOW - timedelta(seconds=3))},
            "a, renewed 3 s ago (11:59 UTC)",
        ),
        (
            {"lease": LeaseRecord("a", 15, renewed_at=NOW - 5 * MINUTE)},
            (
                "a, renewed 5 min ago (11:55 UTC), which is too long ago: no replica acts, or the "
                "clocks differ"
            ),
        ),
    ],
)
def test_the_leader_is_named_if_there_is_one(fields, line):
    assert said("leader", None, **fields) == [line]


def test_long_lists_are_cut_and_counted():
    cool_downs = tuple(CoolDown(str(i), f"w{i}", NOW + (i + 1) * MINUTE) for i in range(13))
    text = rendered(status(State(cool_downs=cool_downs)), print_status, "table")
    assert text.count(" ends in ") == 10
    assert "… and 3 more; --output json has all" in text


# --- formats ---------------------------------------------------------------------------------

BUSY = status(
    State(
        evictions=(WEB,),
        since=NOW,
        pauses=(
            Pause(PauseScope.EVERYTHING, NOW, None, why="\x1b[2Jgone\u202e\n", by="al\x07ice"),
        ),
        last_cycle=LastCycle(NOW, "desched-1", "evict", "held"),
    ),
    lease=LeaseRecord("desched-1", 15, renewed_at=NOW),
)


def test_a_table_begins_with_where_the_state_is_and_when():
    text = rendered(BUSY, print_status, "table")
    assert text.startswith('desched · status · context "prod"\n')
    assert "ConfigMap desched-system/desched-state at 2026-05-01 12:00:00 UTC" in text


def test_of_several_lines_each_has_a_mark():
    cool_downs = tuple(CoolDown(str(i), f"w{i}", NOW + MINUTE) for i in range(2))
    text = rendered(status(State(cool_downs=cool_downs)), print_status, "table")
    assert text.count("•") == 2
    assert "• w0 ends in" in text
    assert "• w1 ends in" in text


def test_json_has_every_field():
    document = json.loads(rendered(BUSY, print_status, "json"))
    assert document["asked_at"] == "2026-05-01T12:00:00Z"
    assert document["lease"]["holder"] == "desched-1"
    assert document["state"]["cool_downs"] == []
    (record,) = document["state"]["evictions"]
    assert record["pod"] == {"namespace": "shop", "name": "web-1", "uid": "uid-1"}
    assert record["result"] is None
    assert record["probe"] is False
    assert document["forecast_quality"] is None


def test_without_a_state_json_has_null_and_the_problem():
    document = json.loads(rendered(status(None, problem="It is damaged."), print_status, "json"))
    assert (document["state"], document["problem"]) == (None, "It is damaged.")


def test_a_drain_is_one_line_and_those_under_way_come_first():
    earlier = begun_earlier(LANDED_DRAIN)
    first, second = said("drains", State(drains=(earlier, DRAINING)))
    assert "2 moves made, held until" in first
    assert ": landed " in second


def test_an_eviction_in_flight_has_its_purpose_unless_it_is_relief():
    moved = changed(WEB, purpose=Purpose.GPU_DEMAND)
    assert "for gpu_demand" in said("in flight", State(evictions=(moved,)))[0]
    assert "relief" not in said("in flight", State(evictions=(WEB,)))[0]
