"""Nodes that moves do not relieve."""

from typing import Any

import msgspec
import pytest

from desched.model.state import MoveResult, NodeRounds, State
from tests.builders import NOW, unknown
from tests.unit.eviction.moves import CALM, followed, look, minutes, record

HOT = CALM | {"n0": 0.95}
LEFT_AT = NOW - minutes(5)


def left(name="web-0", **fields):
    """A settled eviction from n0 that the window of five minutes has seen."""
    defaults: dict[str, Any] = {
        "evicted_at": LEFT_AT - minutes(1),
        "left_at": LEFT_AT,
        "result": MoveResult.LANDED_AS_FORECAST,
    }
    return record(name, **(defaults | fields))


def rounds(state, cpu=HOT, now=NOW):
    """The rounds of n0, None if nothing of it is remembered."""
    nodes = followed(state, look(cpu=cpu), now).state.nodes
    assert [each.node for each in nodes] in ([], ["n0"])
    return nodes[0] if nodes else None


def later_round(before, now):
    """A state in which a further eviction from n0 has been seen by now."""
    record = left(f"web-{now:%H%M}", evicted_at=now - minutes(6), left_at=now - minutes(5))
    return State((record,), nodes=(before,))


def test_a_node_that_is_still_overloaded_after_a_round_is_counted_once():
    state = followed(State((left(),)), look(cpu=HOT)).state
    (counted,) = state.nodes
    assert (counted.rounds, counted.last_eviction_at) == (1, LEFT_AT - minutes(1))
    assert followed(state, look(cpu=HOT), NOW + minutes(1)).state.nodes == state.nodes


def test_the_evictions_of_one_cycle_are_one_round():
    together = State((left("web-0"), left("web-1", evicted_at=LEFT_AT - minutes(0.5))))
    assert rounds(together).rounds == 1
    assert rounds(together).last_eviction_at == LEFT_AT - minutes(0.5)


@pytest.mark.parametrize(
    "waiting",
    [left("web-1", left_at=None), left("web-1", left_at=NOW - minutes(4.9))],
    ids=["still there", "not seen by the window"],
)
def test_a_round_is_not_counted_before_the_windows_have_seen_all_of_it(waiting):
    before = rounds(State((left("web-0"), waiting)))
    assert before is None or before.rounds == 0


def test_a_round_is_counted_although_its_evictions_are_forgotten_meanwhile():
    state = followed(State((left(),)), look(cpu=HOT), NOW - minutes(1)).state
    forgotten = msgspec.structs.replace(state, evictions=())
    assert rounds(forgotten, now=NOW - minutes(0.5)).rounds == 0
    assert rounds(forgotten).rounds == 1


def test_after_two_rounds_a_node_cools_down_for_twice_as_long_each_time():
    each, now, waits = rounds(State((left(),))), NOW, []
    for _ in range(6):
        now += minutes(7)
        each = rounds(later_round(each, now), now=now)
        waits.append(each.cooling_down_until - now)
    assert each.rounds == 7
    assert waits == [minutes(m) for m in (30, 60, 120, 240, 360, 360)]


def test_a_node_that_gets_nearer_to_its_target_with_each_round_does_not_cool_down():
    each, now = rounds(State((left(),))), NOW
    for load in (0.92, 0.89, 0.87, 0.85, 0.83):
        now += minutes(7)
        each = rounds(later_round(each, now), CALM | {"n0": load}, now)
        assert (each.rounds, each.cooling_down_until) == (1, None)


def test_a_node_that_is_relieved_starts_anew():
    failed = NodeRounds("n0", 3, LEFT_AT - minutes(60), NOW - minutes(10))
    relieved = rounds(State((left(),), nodes=(failed,)), CALM)
    assert (relieved.rounds, relieved.cooling_down_until) == (0, None)


def test_an_eviction_that_relieved_a_node_does_not_count_when_it_is_hot_again_later():
    state = followed(State((left(),)), look(cpu=CALM)).state
    assert rounds(state, HOT, NOW + minutes(1)).rounds == 0


def test_a_node_of_unknown_load_waits():
    blind = CALM | {"n0": unknown()}
    state = followed(State((left(),)), look(cpu=blind)).state
    assert state.nodes[0].rounds == 0
    assert rounds(state, HOT, NOW + minutes(1)).rounds == 1


def test_a_node_that_is_gone_is_forgotten():
    state = State((left(),), nodes=(NodeRounds("n0", 2, LEFT_AT, NOW + minutes(20)),))
    assert rounds(state, {"n1": 0.5}) is None


def test_a_node_that_cools_between_rounds_is_forgotten_and_one_that_cools_down_serves_its_time():
    failed = NodeRounds("n0", 1, LEFT_AT)
    cooling_nodes = NodeRounds("n0", 2, LEFT_AT, NOW + minutes(20))
    assert rounds(State(nodes=(failed,)), HOT) == failed
    assert rounds(State(nodes=(failed,)), CALM) is None
    assert rounds(State(nodes=(cooling_nodes,)), CALM) == cooling_nodes
    assert rounds(State(nodes=(cooling_nodes,)), CALM, NOW + minutes(20)) is None


def test_an_overloaded_node_that_nothing_was_moved_from_for_long_is_forgotten():
    failed = NodeRounds("n0", 2, LEFT_AT, NOW)
    assert rounds(State(nodes=(failed,)), HOT, NOW + minutes(359)) == failed
    assert rounds(State(nodes=(failed,)), HOT, NOW + minutes(360)) is None
