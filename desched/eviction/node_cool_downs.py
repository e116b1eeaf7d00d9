"""Cool-downs of nodes after several rounds of moves without progress."""

from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import replace

from desched.eviction.cool_downs import Backoff
from desched.eviction.results import PresentLoad
from desched.model.groups import grouped
from desched.model.plan import NodeClass
from desched.model.state import EvictionRecord, NodeRounds, State

PROGRESS_SHARE = 0.1
"""A round made progress if it removed at least this share of the node's excess."""


def rounds_of_nodes(state: State, load: PresentLoad) -> tuple[NodeRounds, ...]:
    """Count the rounds that the shortest window shows completely; return all nodes by name.

    A round is all evictions from a node until the last of these pods has been gone for the shortest
    window. A relieved node starts again; a node with unknown load waits.
    """
    earlier = {each.node: each for each in state.nodes}
    records = grouped((record.node, record) for record in state.evictions)
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
    """Add new evictions to the round that is not counted yet."""
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
    """A node may also be relieved between rounds; a cool-down always lasts until its end."""
    if not each.rounds or each.is_cooling_down(load.context.now):
        return each
    loaded = load.loaded(each.node)
    if loaded is None or loaded.verdict.node_class is NodeClass.OVERLOADED:
        return each
    return _relieved(each)


def _relieved(each: NodeRounds) -> NodeRounds:
    return replace(each, rounds=0, left_at=None, cooling_down_until=None)


def _is_over(each: NodeRounds, load: PresentLoad) -> bool:
    """Whether a node without recorded evictions can be removed."""
    if not each.rounds and each.left_at is None:
        return True
    last = max(each.last_eviction_at, each.cooling_down_until or each.last_eviction_at)
    longest_seconds = load.context.policy.follow_up.node_cool_down_longest_seconds
    return (load.context.now - last).total_seconds() >= longest_seconds
