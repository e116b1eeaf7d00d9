"""Cool-downs of nodes that several rounds of moves in a row did not relieve."""

from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import replace

from desched.eviction.backoff import Backoff
from desched.eviction.present_load import PresentLoad
from desched.model.plan import NodeClass
from desched.model.state import EvictionRecord, NodeRounds, State

PROGRESS_SHARE = 0.1
"""A round that takes less than this share of a node's excess off it has not got it any nearer."""


def rounds_of_nodes(state: State, load: PresentLoad) -> tuple[NodeRounds, ...]:
    """The rounds of all nodes by name, with those counted that the shortest window has seen.

    A round is all evictions from a node until the last of its pods has been gone for that long. A
    node that was relieved starts anew; one whose load is not known waits.
    """
    earlier = {each.node: each for each in state.nodes}
    records: dict[str, list[EvictionRecord]] = {}
    for record in state.evictions:
        records.setdefault(record.node, []).append(record)
    found = (
        _followed(node, earlier.get(node), records.get(node, ()), load)
        for node in sorted({*earlier, *records})
        if node in load.context.cluster.node_by_name
    )
    return tuple(each for each in found if each is not None)


def _followed(
    node: str, each: NodeRounds | None, records: Sequence[EvictionRecord], load: PresentLoad
) -> NodeRounds | None:
    if any(record.left_at is None for record in records):
        return each
    each = _with_departures(node, each, records)
    if each is None:
        return None
    shortest = timedelta(seconds=load.context.policy.shortest_window_seconds)
    if each.left_at is None:
        each = _relieved_by_itself(each, load)
    elif load.context.now - each.left_at >= shortest:
        each = _counted(each, load)
    return each if records or not _is_over(each, load) else None


def _with_departures(
    node: str, each: NodeRounds | None, records: Sequence[EvictionRecord]
) -> NodeRounds | None:
    """The node with the evictions that are new belonging to the round that is to be counted."""
    counted = each.last_eviction_at if each else None
    new = [r for r in records if counted is None or r.evicted_at > counted]
    if not new:
        return each
    newest = max(record.evicted_at for record in new)
    left = [record.left_at for record in new] + [each.left_at if each else None]
    each = each or NodeRounds(node, 0, newest)
    return replace(each, last_eviction_at=newest, left_at=max(filter(None, left), default=None))


def _counted(each: NodeRounds, load: PresentLoad) -> NodeRounds:
    loaded = load.loaded(each.node)
    if loaded is None:
        return each
    if loaded.verdict.node_class is not NodeClass.OVERLOADED:
        return _relieved(each)
    excess_ratio = loaded.excess_ratio
    each = replace(each, left_at=None, cooling_down_until=None)
    if each.rounds and excess_ratio <= each.excess_ratio * (1 - PROGRESS_SHARE):
        return replace(each, rounds=1, excess_ratio=excess_ratio)
    rules = load.context.policy.follow_up
    backoff = Backoff(rules.node_cool_down_first_seconds, rules.node_cool_down_longest_seconds)
    rounds = each.rounds + 1
    level = rounds - rules.node_cool_down_rounds
    until = load.context.now + backoff.wait(level) if level >= 0 else None
    return replace(each, rounds=rounds, cooling_down_until=until, excess_ratio=excess_ratio)


def _relieved_by_itself(each: NodeRounds, load: PresentLoad) -> NodeRounds:
    """Between rounds a node may cool as well; one that cools down serves its time."""
    if not each.rounds or _is_cooling_down(each, load):
        return each
    loaded = load.loaded(each.node)
    if loaded is None or loaded.verdict.node_class is NodeClass.OVERLOADED:
        return each
    return _relieved(each)


def _relieved(each: NodeRounds) -> NodeRounds:
    return replace(each, rounds=0, left_at=None, cooling_down_until=None)


def _is_cooling_down(each: NodeRounds, load: PresentLoad) -> bool:
    return each.cooling_down_until is not None and load.context.now < each.cooling_down_until


def _is_over(each: NodeRounds, load: PresentLoad) -> bool:
    """Whether nothing of it matters any more, once none of its evictions is remembered."""
    if not each.rounds and each.left_at is None:
        return True
    last = max(each.last_eviction_at, each.cooling_down_until or each.last_eviction_at)
    return (
        load.context.now - last
    ).total_seconds() >= load.context.policy.follow_up.node_cool_down_longest_seconds
