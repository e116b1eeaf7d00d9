"""What evictions do to the drains of a state."""

from datetime import timedelta

from desched.model.cluster import PodRef
from desched.model.drains import Drain, DrainEnd
from desched.model.state import EvictionRecord, State
from tests.builders import NOW, certain

DRAIN = Drain((PodRef("train", "big", "1"),), ("g0",), 8, NOW, NOW + timedelta(hours=1))


def evicted(name: str) -> EvictionRecord:
    return EvictionRecord(PodRef("apps", name, name), "g0", "web", NOW, certain("g1"))


def test_a_drain_begins_with_its_first_move_and_counts_the_others() -> None:
    state = State().with_eviction(evicted("a"), drain=DRAIN)
    assert [drain.moves for drain in state.drains] == [1]
    state = state.with_eviction(evicted("b"), drain=DRAIN)
    assert [drain.moves for drain in state.drains] == [2]


def test_a_move_that_did_not_begin_is_taken_back_and_with_the_only_one_the_drain() -> None:
    state = (
        State().with_eviction(evicted("a"), drain=DRAIN).with_eviction(evicted("b"), drain=DRAIN)
    )
    state = state.without_eviction(evicted("b").pod, DRAIN)
    assert [drain.moves for drain in state.drains] == [1]
    assert not state.without_eviction(evicted("a").pod, DRAIN).drains


def test_a_drain_that_has_ended_is_not_the_same() -> None:
    ended = DRAIN.ended(DrainEnd.LANDED, NOW)
    state = State(drains=(ended,)).with_eviction(evicted("a"), drain=DRAIN)
    assert [drain.moves for drain in state.drains] == [0, 1]
    assert state.without_eviction(evicted("a").pod, DRAIN).drains == (ended,)
