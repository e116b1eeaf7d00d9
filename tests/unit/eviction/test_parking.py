"""Nodes that moves do not relieve."""

import msgspec
import pytest

from desched.model.memory import Memory, MoveResult, NodeRounds
from tests.builders import NOW, unknown
from tests.unit.eviction.moves import CALM, followed, look, minutes, record

HOT = CALM | {"n0": 0.95}
LEFT_AT = NOW - minutes(5)


def left(name="web-0", **fields):
    """A settled eviction from n0 that the window of five minutes has seen."""
    defaults = {
        "evicted_at": LEFT_AT - minutes(1),
        "left_at": LEFT_AT,
        "result": MoveResult.LANDED_AS_FORECAST,
    }
    return record(name, **(defaults | fields))


def rounds(memory, cpu=HOT, now=NOW):
    """The rounds of n0, None if nothing of it is remembered."""
    nodes = followed(memory, look(cpu=cpu), now).memory.nodes
    assert [each.node for each in nodes] in ([], ["n0"])
    return nodes[0] if nodes else None


def later_round(before, now):
    """A memory in which a further eviction from n0 has been seen by now."""
    record = left(f"web-{now:%H%M}", evicted_at=now - minutes(6), left_at=now - minutes(5))
    return Memory((record,), nodes=(before,))


def test_a_node_that_is_still_overloaded_after_a_round_is_counted_once():
    memory = followed(Memory((left(),)), look(cpu=HOT)).memory
    (counted,) = memory.nodes
    assert (counted.rounds, counted.last_eviction_at) == (1, LEFT_AT - minutes(1))
    assert followed(memory, look(cpu=HOT), NOW + minutes(1)).memory.nodes == memory.nodes


def test_the_evictions_of_one_cycle_are_one_round():
    together = Memory((left("web-0"), left("web-1", evicted_at=LEFT_AT - minutes(0.5))))
    assert rounds(together).rounds == 1
    assert rounds(together).last_eviction_at == LEFT_AT - minutes(0.5)


@pytest.mark.parametrize(
    "waiting",
    [left("web-1", left_at=None), left("web-1", left_at=NOW - minutes(4.9))],
    ids=["still there", "not seen by the window"],
)
def test_a_round_is_not_counted_before_the_windows_have_seen_all_of_it(waiting):
    before = rounds(Memory((left("web-0"), waiting)))
    assert before is None or before.rounds == 0


def test_a_round_is_counted_although_its_evictions_are_forgotten_meanwhile():
    memory = followed(Memory((left(),)), look(cpu=HOT), NOW - minutes(1)).memory
    forgotten = msgspec.structs.replace(memory, evictions=())
    assert rounds(forgotten, now=NOW - minutes(0.5)).rounds == 0
    assert rounds(forgotten).rounds == 1


def test_after_two_rounds_a_node_is_parked_for_twice_as_long_each_time():
    each, now, waits = rounds(Memory((left(),))), NOW, []
    for _ in range(6):
        now += minutes(7)
        each = rounds(later_round(each, now), now=now)
        waits.append(each.parked_until - now)
    assert each.rounds == 7
    assert waits == [minutes(m) for m in (30, 60, 120, 240, 360, 360)]


def test_a_node_that_gets_nearer_to_its_target_with_each_round_is_not_parked():
    each, now = rounds(Memory((left(),))), NOW
    for load in (0.92, 0.89, 0.87, 0.85, 0.83):
        now += minutes(7)
        each = rounds(later_round(each, now), CALM | {"n0": load}, now)
        assert (each.rounds, each.parked_until) == (1, None)


def test_a_node_that_is_relieved_starts_anew():
    failed = NodeRounds("n0", 3, LEFT_AT - minutes(60), NOW - minutes(10))
    relieved = rounds(Memory((left(),), nodes=(failed,)), CALM)
    assert (relieved.rounds, relieved.parked_until) == (0, None)


def test_an_eviction_that_relieved_a_node_does_not_count_when_it_is_hot_again_later():
    memory = followed(Memory((left(),)), look(cpu=CALM)).memory
    assert rounds(memory, HOT, NOW + minutes(1)).rounds == 0


def test_a_node_of_unknown_load_waits():
    blind = CALM | {"n0": unknown()}
    memory = followed(Memory((left(),)), look(cpu=blind)).memory
    assert memory.nodes[0].rounds == 0
    assert rounds(memory, HOT, NOW + minutes(1)).rounds == 1


def test_a_node_that_is_gone_is_forgotten():
    memory = Memory((left(),), nodes=(NodeRounds("n0", 2, LEFT_AT, NOW + minutes(20)),))
    assert rounds(memory, {"n1": 0.5}) is None


def test_a_node_that_cools_between_rounds_is_forgotten_and_a_parked_one_serves_its_time():
    failed = NodeRounds("n0", 1, LEFT_AT)
    parked = NodeRounds("n0", 2, LEFT_AT, NOW + minutes(20))
    assert rounds(Memory(nodes=(failed,)), HOT) == failed
    assert rounds(Memory(nodes=(failed,)), CALM) is None
    assert rounds(Memory(nodes=(parked,)), CALM) == parked
    assert rounds(Memory(nodes=(parked,)), CALM, NOW + minutes(20)) is None


def test_an_overloaded_node_that_nothing_was_moved_from_for_long_is_forgotten():
    failed = NodeRounds("n0", 2, LEFT_AT, NOW)
    assert rounds(Memory(nodes=(failed,)), HOT, NOW + minutes(359)) == failed
    assert rounds(Memory(nodes=(failed,)), HOT, NOW + minutes(360)) is None
