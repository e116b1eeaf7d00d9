"""Which pod replaces which evicted one."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.eviction.replacements import replacements, replicas_of
from desched.model.cluster import Owner
from desched.model.state import MoveResult, State
from desched.planning.clocks import CLUSTER_TOLERANCE_SECONDS
from tests.unit.eviction.moves import (
    EVICTED_AT,
    followed,
    look,
    minutes,
    record,
    ref,
    replacement,
)

SECOND = timedelta(seconds=1)
PENDING: dict[str, Any] = {"on": "", "ready": False}


def matched(records, pods):
    """Names of replacements by names of evicted pods."""
    found = replacements(records, replicas_of(records, look(pods).cluster))
    return {evicted.name: pod.name if pod else None for evicted, pod in found.items()}


@pytest.mark.parametrize(
    "pod",
    [
        replacement(created_at=EVICTED_AT - 8 * SECOND),
        replacement(of="db"),
        replacement(of=None),
        replacement(deleting=True),
        replacement(phase="Failed"),
        replacement(phase="Succeeded"),
        replacement("web-0"),
    ],
    ids=["older", "of another workload", "bare", "deleting", "failed", "finished", "evicted"],
)
def test_a_pod_that_is_no_replacement(pod):
    assert matched([record()], [pod]) == {"web-0": None}


def test_a_replacement_may_seem_older_by_the_part_of_a_second():
    stamped = EVICTED_AT + timedelta(milliseconds=900)
    pod = replacement(created_at=stamped.replace(microsecond=0))
    assert matched([record(evicted_at=stamped)], [pod]) == {"web-0": "web-9"}


def test_a_replacement_may_seem_older_by_as_much_as_clocks_may_differ():
    pod = replacement(created_at=EVICTED_AT - timedelta(seconds=CLUSTER_TOLERANCE_SECONDS))
    assert matched([record()], [pod]) == {"web-0": "web-9"}


def test_the_earliest_eviction_gets_the_earliest_pod_in_any_order():
    first, second = record("web-1"), record("web-0", evicted_at=EVICTED_AT + minutes(1))
    early = replacement("web-9", created_at=EVICTED_AT + minutes(1.5))
    late = replacement("web-8", created_at=EVICTED_AT + minutes(2))
    expected = {"web-1": "web-9", "web-0": "web-8"}
    assert matched([first, second], [early, late]) == expected
    assert matched([second, first], [late, early]) == expected


def test_a_replacement_that_is_known_stays_although_an_earlier_one_appears():
    state = followed(record(), look([replacement("web-9", **PENDING)])).state
    earlier = replacement("web-1", created_at=EVICTED_AT - SECOND, **PENDING)
    later = followed(state, look([earlier, replacement("web-9", **PENDING)])).state
    assert later.evictions[0].replacement == ref("web-9")


def test_no_eviction_takes_the_replacement_that_another_one_holds():
    lost = record("web-0", replacement=ref("web-7"))
    holding = record("web-1", replacement=ref("web-9"))
    assert matched([lost, holding], [replacement("web-9")]) == {"web-0": None, "web-1": "web-9"}


def test_a_replacement_that_vanished_is_replaced_itself():
    state = followed(record(), look([replacement("web-9", **PENDING)])).state
    after = followed(state, look([replacement("web-8", created_at=EVICTED_AT + minutes(1))]))
    assert after.settled[0].replacement == ref("web-8")


def test_the_replacement_of_a_settled_eviction_is_taken():
    settled = record("web-1", result=MoveResult.LANDED_ELSEWHERE, replacement=ref("web-9"))
    assert matched([settled, record("web-0")], [replacement()]) == {"web-0": None}


def test_a_pod_that_is_evicted_itself_replaces_nothing():
    assert matched([record("web-0"), record("web-9")], [replacement("web-9")]) == {
        "web-0": None,
        "web-9": None,
    }


def test_a_stateful_set_replaces_a_pod_under_its_own_name():
    owner = Owner("StatefulSet", "web", "uid-web", "apps/v1")
    again = replacement("web-0", uid="uid-again", owner=owner)
    other = replacement("web-1", uid="uid-other", owner=owner)
    assert matched([record("web-0")], [other]) == {"web-0": None}
    assert matched([record("web-1"), record("web-0")], [again, other]) == {
        "web-0": "web-0",
        "web-1": "web-1",
    }


def test_a_replacement_stays_that_of_its_eviction_while_another_one_waits():
    """Otherwise a single pod would be the good landing of two evictions."""
    hour = timedelta(hours=1)
    moved = record("web-0", taken_over=True)
    first = followed(State((moved, record("web-1"))), look([replacement()]))
    assert [r.pod.name for r in first.settled] == ["web-0"]
    late = EVICTED_AT + minutes(8)
    again, _ = first.state.observed([replacement()], late, minutes(5))
    assert followed(again, look([replacement()]), late).settled == ()
    # One that is requested long afterwards cannot have been replaced by it.
    new = record("web-2", evicted_at=EVICTED_AT + hour, left_at=None)
    later = msgspec.structs.replace(again, evictions=(again.evictions[0], new))
    observed = later.observed([], EVICTED_AT + hour, minutes(5))
    assert [r.pod.name for r in observed.state.evictions] == ["web-2"]
