"""Drains in the state: what evictions do to them, and what is stored."""

from datetime import timedelta

import msgspec
import pytest

from desched.errors import StopActing
from desched.eviction.journal import Journal
from desched.lab.clock import VirtualClock
from desched.model.cluster import PodRef
from desched.model.state import State
from desched.model.stored_state import encode_state
from desched.plugins.gpus.drains.drain import Drain, DrainEnd, drains_of
from desched.plugins.states import decode_state
from desched.policy.follow_up import FollowUpRules
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.names import with_new_names
from tests.builders import NOW, planned_eviction, policy
from tests.unit.plugins.gpus.gpu_cluster import draining, gpu_node, runs, seen, waits

DRAIN = Drain((PodRef("train", "big", "1"),), ("g0",), 8, NOW, NOW + timedelta(hours=1))


def test_a_drain_begins_with_its_first_move_and_counts_the_others() -> None:
    state = DRAIN.with_move(State())
    assert [drain.moves for drain in drains_of(state)] == [1]
    state = DRAIN.with_move(state)
    assert [drain.moves for drain in drains_of(state)] == [2]


def test_a_move_that_did_not_begin_is_taken_back_and_with_the_only_one_the_drain() -> None:
    state = DRAIN.without_move(DRAIN.with_move(DRAIN.with_move(State())))
    assert [drain.moves for drain in drains_of(state)] == [1]
    assert DRAIN.without_move(state) == State()


def test_one_write_has_an_eviction_and_its_drain_and_both_go_if_it_did_not_begin() -> None:
    written: list[State] = []
    journal = Journal(State(), written.append, FollowUpRules(), VirtualClock(NOW))
    evictions = [
        planned_eviction(PodRef("shop", name, name), "g0", "g1", undertaking=DRAIN) for name in "ab"
    ]
    for eviction in evictions:
        journal.remember(eviction)
    assert [len(state.in_flight) for state in written] == [1, 2]
    assert [[drain.moves for drain in drains_of(state)] for state in written] == [[1], [2]]

    journal.forget(*evictions)
    assert journal.state == State()


def test_a_drain_that_has_ended_is_not_the_same() -> None:
    ended = DRAIN.ended(DrainEnd.LANDED, NOW)
    state = DRAIN.with_move(draining(ended))
    assert [drain.moves for drain in drains_of(state)] == [0, 1]
    assert drains_of(DRAIN.without_move(state)) == (ended,)


def test_the_end_of_a_drain_that_only_a_newer_desched_knows_is_no_success() -> None:
    text = encode_state(draining(DRAIN.ended(DrainEnd.LANDED, NOW)))
    found = decode_state(text.replace(b'"landed"', b'"moved_on"')).state
    assert found is not None
    assert [drain.end for drain in drains_of(found)] == [DrainEnd.BROKEN]


def test_drains_that_ended_may_go_and_those_under_way_never() -> None:
    wordy = msgspec.structs.replace(DRAIN, pods=(), reserve="x" * 1000)
    ended = wordy.ended(DrainEnd.BROKEN, NOW)
    found = decode_state(encode_state(draining(wordy, *[ended] * 600))).state
    assert found is not None
    assert drains_of(found)[0] == wordy
    assert 1 < len(drains_of(found)) < 601
    with pytest.raises(StopActing, match="600 drains under way"):
        encode_state(draining(*[wordy] * 600))


def test_a_snapshot_with_new_names_has_the_drains_with_them() -> None:
    pods = [waits("big"), *(runs(f"p{i}", f"g{i}") for i in range(2))]
    cluster = seen([gpu_node(f"g{i}") for i in range(2)], pods)
    drain = msgspec.structs.replace(DRAIN, pods=(pods[0].ref,), nodes=("g1",), namespace="train")
    content = with_new_names(SnapshotContent(cluster, draining(drain), ""), policy())
    waiting, _, on_g1 = content.snapshot.cluster.pods
    [renamed] = drains_of(content.state)
    assert renamed.pods == (waiting.ref,)
    assert renamed.nodes == (on_g1.node,)
    assert renamed.namespace == waiting.namespace
    assert "train" not in str(renamed)
