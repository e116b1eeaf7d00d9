import msgspec
import pytest
from structlog.testing import capture_logs

from desched.model.plan import HoldReason, NodeClass, NodeVerdict, RefusalReason, Unsteered
from desched.model.report import CycleResult, EvictionVerdict, Mode, NotActing, Outcome, TaintChange
from desched.model.state import MoveResult
from desched.model.text import LONGEST_DETAIL
from desched.service.telemetry.cycle_log import MOST_NAMES, CompetitorLog, essentials, log_cycle
from tests.unit.service.example_reports import (
    BACK,
    BROKEN_DRAIN,
    DRAINING,
    FOLLOWED_UP,
    HELD,
    LANDED_DRAIN,
    REPORT,
    STARTED_AT,
    TOLD_DRAIN,
    begun_earlier,
    drain_move,
    record,
    with_drain,
)


def test_the_line_carries_the_essentials():
    assert essentials(REPORT) == {
        "cycle": 7,
        "result": "evicted",
        "mode": "evict",
        "nodes": {"overloaded": 1, "underloaded": 1, "unknown": 1},
        "planned": 1,
        "verdicts": {"evicted": 1},
        "refusals": {"bare_pod": 1, "not_needed": 2},
        "duration_seconds": 1.235,
        "observe_seconds": 1.0,
        "plan_seconds": 0.2,
        "overloaded": ["te3"],
        "unknown": {"stale": ["te1"]},
        "evictions": ["shop/web-1 from te3 to te5 (100 %): cpu"],
    }


def test_what_the_missing_right_to_steer_costs_is_in_the_line():
    plan = msgspec.structs.replace(REPORT.plan, unsteered=Unsteered(1, 1))
    line = essentials(msgspec.structs.replace(REPORT, plan=plan))
    assert line["unsteered"].startswith("1 pod on 1 node could move with soft taints; allow them")


def test_a_hold_has_its_reason():
    line = essentials(HELD)
    assert (line["hold"], line["hold_detail"]) == ("partial_data", "a shard is missing")


def test_a_large_cluster_does_not_make_a_long_line():
    nodes = tuple(NodeVerdict(f"node-{n}", NodeClass.OVERLOADED) for n in range(500))
    plan = msgspec.structs.replace(REPORT.plan, nodes=nodes)
    line = essentials(msgspec.structs.replace(REPORT, plan=plan))
    assert line["nodes"] == {"overloaded": 500}
    assert len(line["overloaded"]) == MOST_NAMES + 1
    assert line["overloaded"][-1] == "and 490 more"


def test_earlier_moves_add_what_became_of_them_and_what_is_left_alone():
    line = essentials(FOLLOWED_UP)
    assert {key: line[key] for key in line.keys() - essentials(REPORT).keys()} == {
        "settled": {"back_on_source": 1, "landed_as_forecast": 1},
        "settled_moves": [
            "shop/web-2 from te3: back_on_source on te3",
            "shop/web-1 from te3: landed_as_forecast on te5",
        ],
        "in_flight": 1,
        "cooling_down": 1,
        "cooling_nodes": ["te3"],
        "paused": ["pool gpu"],
        "awaiting_probe": ["everything"],
    }


def test_many_settled_moves_are_counted_and_the_failures_named():
    landed = [record(f"web-{n}", MoveResult.LANDED_ELSEWHERE) for n in range(50)]
    line = essentials(msgspec.structs.replace(REPORT, settled=(*landed, BACK)))
    assert line["settled"] == {"back_on_source": 1, "landed_elsewhere": 50}
    assert len(line["settled_moves"]) == MOST_NAMES + 1
    assert line["settled_moves"][0].startswith("shop/web-2 from te3: back_on_source")


def test_a_replacement_that_is_not_ready_has_the_kubelets_reason():
    broken = record("web-4", MoveResult.NOT_READY, landed_on="te5", waiting_for="ImagePullBackOff")
    line = essentials(msgspec.structs.replace(REPORT, settled=(broken,)))
    assert line["settled_moves"] == ["shop/web-4 from te3: not_ready on te5, ImagePullBackOff"]


def test_the_reason_for_not_acting_is_logged():
    paused = msgspec.structs.replace(
        REPORT,
        result=CycleResult.NOT_ACTING,
        not_acting=NotActing.PAUSED,
        not_acting_detail="by alice",
    )
    line = essentials(paused)
    assert (line["not_acting"], line["not_acting_detail"]) == ("paused", "by alice")


def test_planned_actions_that_failed_are_logged_with_the_reason():
    outcomes = (
        *REPORT.outcomes,
        Outcome(BACK.pod, "te3", EvictionVerdict.UNREADABLE, STARTED_AT, "the deadline passed"),
        Outcome(
            BACK.pod,
            "te3",
            EvictionVerdict.NOT_CONFIRMED,
            STARTED_AT,
            refusal=RefusalReason.BUDGET_EXHAUSTED,
        ),
        Outcome(BACK.pod, "te3", EvictionVerdict.FORBIDDEN, STARTED_AT, "x" * 10_000),
    )
    taints = (
        TaintChange("te3", tainted=True, why="hot"),
        TaintChange("te4", tainted=True, why="hot", done=False, detail="status 403"),
    )
    line = essentials(msgspec.structs.replace(REPORT, outcomes=outcomes, taints=taints))
    unreadable, not_confirmed, forbidden = line["outcomes"]
    assert unreadable == "shop/web-2: unreadable: the deadline passed"
    assert not_confirmed == "shop/web-2: not_confirmed: budget_exhausted"
    assert len(forbidden) == LONGEST_DETAIL
    assert line["taints_failed"] == ["te4: status 403"]

    standby = msgspec.structs.replace(
        REPORT, outcomes=outcomes, not_acting=NotActing.PAUSED, not_acting_detail="by alice"
    )
    assert "outcomes" not in essentials(standby)


def test_other_deschedulers_are_named():
    others = ("Volcano descheduler in volcano-system",)
    line = essentials(msgspec.structs.replace(REPORT, other_deschedulers=others))
    assert line["other_deschedulers"] == list(others)


def test_deschedulers_that_the_policy_acknowledges_are_named_apart():
    beside = ("Volcano descheduler in volcano-system",)
    line = essentials(msgspec.structs.replace(REPORT, acknowledged_deschedulers=beside))
    assert line["acknowledged_deschedulers"] == list(beside)
    assert "other_deschedulers" not in line


def test_it_is_one_line_for_each_cycle():
    with capture_logs() as lines:
        log_cycle(REPORT)
    assert [(line["event"], line["log_level"]) for line in lines] == [("cycle.completed", "info")]


def test_a_hold_is_a_warning_unless_it_passes_by_itself():
    starting = msgspec.structs.replace(HELD.plan, hold=HoldReason.JUST_STARTED)
    with capture_logs() as lines:
        log_cycle(HELD)
        log_cycle(msgspec.structs.replace(HELD, plan=starting))
    assert [line["log_level"] for line in lines] == ["warning", "info"]


# --- other deschedulers ----

VOLCANO = "Volcano descheduler in volcano-system"


def logged(*sightings):
    """What is logged over reports in which these other deschedulers are seen."""
    log = CompetitorLog()
    with capture_logs() as lines:
        for others in sightings:
            log.publish(msgspec.structs.replace(REPORT, other_deschedulers=others))
    return [(line["event"], line["log_level"]) for line in lines]


def test_a_cluster_without_others_is_not_worth_a_line():
    assert logged((), ()) == []


def test_another_descheduler_is_a_warning_once():
    assert logged((VOLCANO,), (VOLCANO,)) == [("other_descheduler.found", "warning")]


def test_a_change_is_logged_again_and_the_end_too():
    assert logged((VOLCANO,), (VOLCANO, "x in y"), ()) == [
        ("other_descheduler.found", "warning"),
        ("other_descheduler.found", "warning"),
        ("other_descheduler.gone", "info"),
    ]


def test_drains_are_named_with_what_waits_without_one():
    line = essentials(with_drain(DRAINING))
    assert line["drains"] == [TOLD_DRAIN]
    assert line["unserved"] == ["pod train/huge-0: no node has 16 GPUs"]
    assert not {"drains", "unserved", "purposes"} & essentials(REPORT).keys()
    assert "drains" not in essentials(with_drain(LANDED_DRAIN))
    assert essentials(drain_move(DRAINING))["purposes"] == {"gpu_demand": 1}


def test_a_drain_that_begins_or_ends_has_a_line_of_its_own():
    with capture_logs() as logs:
        log_cycle(drain_move(DRAINING))
        log_cycle(with_drain(begun_earlier(LANDED_DRAIN)))
        log_cycle(with_drain(begun_earlier(BROKEN_DRAIN)))
    begun, landed, broken = (each for each in logs if each["event"] != "cycle.completed")
    of_drain = {"demand": "pod train/big-0", "gpus": 8, "nodes": ["te3"], "moves": 2}
    assert (
        begun.items()
        >= {**of_drain, "event": "drain.begun", "until": "2026-03-04T13:00:00Z"}.items()
    )
    assert landed.items() >= {**of_drain, "event": "drain.ended", "end": "landed"}.items()
    assert (landed["log_level"], broken["log_level"]) == ("info", "warning")
    assert (broken["end"], broken["why"]) == ("broken", "node te3 is gone")


@pytest.mark.parametrize("fields", [{"mode": Mode.DRY_RUN}, {"not_acting": NotActing.NOT_LEADING}])
def test_drains_are_logged_by_the_acting_replica_only(fields):
    with capture_logs() as logs:
        log_cycle(msgspec.structs.replace(drain_move(DRAINING), **fields))
    assert [each["event"] for each in logs] == ["cycle.completed"]
