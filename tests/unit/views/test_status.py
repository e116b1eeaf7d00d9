"""What `desched status` says: `status.txt` has the whole of each case."""

from datetime import timedelta
from pathlib import Path

import msgspec

from desched.cycle_report import MOST_NAMES
from desched.model.cluster import PodRef
from desched.model.plan import Unsteered
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
from desched.plugins.gpus.drains.drain import GPU_DEMAND, Drains
from desched.ports import LeaseRecord
from desched.views.status import Status, status_blocks
from tests.builders import NOW, certain
from tests.shown import json_of, text_of
from tests.stored_text import check_stored, sections
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


def changed(record: EvictionRecord, **fields) -> EvictionRecord:
    return msgspec.structs.replace(record, **fields)


CYCLE = LastCycle(
    NOW - 4 * MINUTE,
    "desched-7f9-x",
    "evict",
    "not_acting",
    tuple(f"n{i}" for i in range(12)),
    evicted=1,
    not_acting="everything is paused by alice",
    unsteered=Unsteered(7, 3),
)


def last(**fields) -> State:
    return State(last_cycle=msgspec.structs.replace(CYCLE, **fields))


def in_flight(**fields) -> State:
    """An eviction in flight, beside one that is settled."""
    settled = changed(WEB, result=MoveResult.LANDED_AS_FORECAST)
    return State(evictions=(settled, changed(WEB, **fields)))


def paused(*pauses: Pause) -> State:
    return State(pauses=pauses)


def checks() -> State:
    return State(
        forecasts=tuple(
            ForecastCheck(NOW - MINUTE, "", 0.1, bad=i == 0, probability=0.8, hit=i < 3)
            for i in range(4)
        )
    )


def renewed(before: timedelta) -> Status:
    return status(None, lease=LeaseRecord("a", 15, renewed_at=NOW - before))


LEFT = NOW - 2 * MINUTE
COOL_DOWNS = (
    CoolDown("1", "Deployment shop/a", NOW + 30 * MINUTE, 1, MoveResult.LANDED_OVERLOADED),
    CoolDown("2", "Deployment shop/b", NOW + 10 * MINUTE),
    CoolDown("3", "Deployment shop/c", NOW - MINUTE, 2),
)
ROUNDS = (
    NodeRounds("n1", 2, NOW, NOW + 30 * MINUTE),
    NodeRounds("n2", 1, NOW),
    NodeRounds("n3", 2, NOW, NOW - MINUTE),
)
MANY = tuple(CoolDown(str(i), f"w{i}", NOW + (i + 1) * MINUTE) for i in range(13))
SKIPPED = SkippedCycles(NOW - 4 * MINUTE, "It was refused.")
EDIT = PolicyEdit(NOW - 9 * MINUTE, ("targetThresholds.cpu: 80 % → 70 %",))

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

CASES = {
    "before the first cycle there is no state": status(None),
    "a state that cannot be used comes first and is not called absent": status(
        None, problem="It is damaged."
    ),
    "empty sections are marked as empty": status(State()),
    "the last cycle has time, replica, result and reason": status(last()),
    "of so many overloaded nodes the state names no more": status(
        last(overloaded=tuple(f"n{i}" for i in range(MOST_NAMES)))
    ),
    "a cycle that was held": status(
        last(hold="just_started", hold_detail="no state before 9 s", not_acting="")
    ),
    "a hold of a newer desched": status(last(hold="from_a_newer_desched", hold_detail="9 s")),
    "a calm cycle": status(last(overloaded=(), evicted=0, not_acting="", unsteered=None)),
    "an edit of the policy, and deschedulers beside desched on purpose": status(
        last(edit=EDIT, acknowledged_deschedulers=("Volcano descheduler in x",))
    ),
    "cycles that were skipped, and an edit that was refused": status(
        msgspec.structs.replace(last(refused_edit="No such key."), skipped=SKIPPED)
    ),
    "what is in flight is as the last cycle saw it": status(
        State((WEB,), last_cycle=LastCycle(NOW - 4 * MINUTE, "desched-0", "evict", "evicted"))
    ),
    "pauses have end, person and reason": status(
        paused(
            Pause(PauseScope.EVERYTHING, NOW - MINUTE, None, why="storage work", by="alice"),
            Pause(PauseScope.WORKLOAD, NOW, NOW + 90 * MINUTE, "shop/web", by="alice"),
            Pause(PauseScope.POOL, NOW - 40 * MINUTE, NOW - 10 * MINUTE, "gpu", why="failures"),
        )
    ),
    "a pod that is leaving": status(in_flight()),
    "one whose clock is ahead": status(in_flight(evicted_at=NOW + MINUTE / 60, judged_by=None)),
    "a pod that left": status(in_flight(left_at=LEFT)),
    "a pod that was replaced, as the probe after a pause": status(
        in_flight(
            left_at=LEFT,
            replacement=PodRef("shop", "web-2", "uid-2"),
            landed_on="n3",
            judged_by=None,
            probe=True,
        )
    ),
    "an eviction has its purpose unless it is relief": status(in_flight(purpose=GPU_DEMAND)),
    "cool-downs that last, by their end": status(State(cool_downs=COOL_DOWNS)),
    "only nodes that cool down now": status(State(nodes=ROUNDS)),
    "forecasts beside landings": status(checks()),
    "a leader that is not known": status(None, lease_problem="403"),
    "a leader that released the Lease": status(None, lease=LeaseRecord("", 15)),
    "a leader": renewed(timedelta(seconds=3)),
    "a leader that is silent": renewed(5 * MINUTE),
    "long lists are cut and counted": status(State(cool_downs=MANY)),
    "drains, those under way first": status(
        State(extras=Drains((begun_earlier(LANDED_DRAIN), DRAINING)).extras)
    ),
    "hostile names are shown as text": BUSY,
}


def test_status_says_all_of_this():
    found = {case: text_of(status_blocks(each)) for case, each in CASES.items()}
    check_stored(Path(__file__).with_name("status.txt"), sections(found))


def test_json_has_every_field():
    document = json_of(BUSY)
    assert document["asked_at"] == "2026-05-01T12:00:00Z"
    assert document["lease"]["holder"] == "desched-1"
    assert document["state"]["cool_downs"] == []
    (record,) = document["state"]["evictions"]
    assert record["pod"] == {"namespace": "shop", "name": "web-1", "uid": "uid-1"}
    assert record["result"] is None
    assert record["probe"] is False
    assert document["forecast_quality"] is None


def test_without_a_state_json_has_null_and_the_problem():
    document = json_of(status(None, problem="It is damaged."))
    assert (document["state"], document["problem"]) == (None, "It is damaged.")
