"""Cool-downs of workloads after moves, and of nodes after several rounds without progress."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from desched.eviction.results import PresentLoad
from desched.model.groups import grouped
from desched.model.plan import NodeClass, PlannedEviction
from desched.model.state import (
    FAILURES,
    SUCCESSES,
    CoolDown,
    EvictionRecord,
    MoveResult,
    NodeRounds,
    State,
)
from desched.policy.follow_up import FollowUpRules

_HIGHEST_LEVEL = 32  # a longer wait than any policy allows, however short the first one is


class Backoff(NamedTuple):
    """Waits that double from level to level, up to a maximum."""

    first_seconds: int
    longest_seconds: int

    def wait(self, level: int) -> timedelta:
        """The wait at a level; 0 is the first level."""
        doubled_seconds = self.first_seconds * 2 ** max(0, min(level, _HIGHEST_LEVEL))
        return timedelta(seconds=min(doubled_seconds, self.longest_seconds))

    def raised(self, level: int) -> int:
        """The next level; the longest wait has only one, so that a few successes lower it."""
        longest = self.wait(level).total_seconds() >= self.longest_seconds
        return level if longest else level + 1


def with_cool_downs(
    cool_downs: Iterable[CoolDown],
    settled: Iterable[EvictionRecord],
    rules: FollowUpRules,
    now: datetime,
) -> tuple[CoolDown, ...]:
    """Add the cool-downs after these evictions; sorted by the workload's uid.

    A success lowers the level, and begins no cool-down: then only the replica rests. A level is
    removed once its cool-down has been over for the longest cool-down.
    """
    backoff = Backoff(rules.cool_down_first_seconds, rules.cool_down_longest_seconds)
    by_workload = {cool_down.workload_uid: cool_down for cool_down in cool_downs}
    for record in settled:
        earlier = by_workload.get(record.workload_uid)
        if record.result not in SUCCESSES:
            by_workload[record.workload_uid] = _after(record, earlier, backoff, now)
        elif earlier is not None:
            lower = replace(earlier, level=max(0, earlier.level - 1))
            by_workload[record.workload_uid] = lower
    in_order = (by_workload[uid] for uid in sorted(by_workload))
    return tuple(cool_down for cool_down in in_order if not _is_past(cool_down, backoff, now))


def with_refusals(
    cool_downs: Iterable[CoolDown],
    evictions: Iterable[PlannedEviction],
    rules: FollowUpRules,
    now: datetime,
) -> tuple[CoolDown, ...]:
    """Add a cool-down for each workload whose pod the API refuses to evict.

    Otherwise the pod would be planned and refused in every cycle.
    """
    backoff = Backoff(rules.cool_down_first_seconds, rules.cool_down_longest_seconds)
    by_workload = {cool_down.workload_uid: cool_down for cool_down in cool_downs}
    for uid, workload in ((eviction.workload_uid, eviction.workload) for eviction in evictions):
        level = backoff.raised(by_workload[uid].level if uid in by_workload else 0)
        until = now + backoff.wait(level)
        by_workload[uid] = CoolDown(uid, workload, until, level, MoveResult.REFUSED)
    return tuple(by_workload[uid] for uid in sorted(by_workload))


def _after(
    record: EvictionRecord, earlier: CoolDown | None, backoff: Backoff, now: datetime
) -> CoolDown:
    level = earlier.level if earlier else 0
    if record.result in FAILURES:
        level = backoff.raised(level)
    until = now + backoff.wait(level)
    until = max(until, earlier.until) if earlier else until
    return CoolDown(record.workload_uid, record.workload, until, level, record.result)


def _is_past(cool_down: CoolDown, backoff: Backoff, now: datetime) -> bool:
    remembered_seconds = backoff.longest_seconds if cool_down.level else 0
    return (now - cool_down.until).total_seconds() >= remembered_seconds


# Nodes.

PROGRESS_SHARE = 0.1
"""A round made progress if it removed at least this share of the node's excess.

The excess is measured. Expected overload would not do: it takes the moved pods off the past, so it
falls at once, although other pods may take up all that these leave.
"""


def rounds_of_nodes(state: State, load: PresentLoad) -> tuple[NodeRounds, ...]:
    """Count the rounds that the shortest window shows completely; return all nodes by name.

    A round is all evictions from a node until the last of these pods has been gone for the shortest
    window. A relieved node starts again; a node with unknown load waits.
    """
    earlier = {rounds.node: rounds for rounds in state.nodes}
    records = grouped((record.node, record) for record in state.evictions)
    followed = (
        _followed(node, earlier.get(node), records.get(node, ()), load)
        for node in sorted({*earlier, *records})
        if node in load.nodes
    )
    return tuple(rounds for rounds in followed if rounds is not None)


def _followed(
    node: str, rounds: NodeRounds | None, records: Sequence[EvictionRecord], load: PresentLoad
) -> NodeRounds | None:
    if any(record.left_at is None for record in records):
        return rounds
    rounds = _with_departures(node, rounds, records)
    if rounds is None:
        return None
    shortest = timedelta(seconds=load.policy.shortest_window_seconds)
    if rounds.left_at is None:
        rounds = _relieved_by_itself(rounds, load)
    elif load.now - rounds.left_at >= shortest:
        rounds = _counted(rounds, load)
    return rounds if records or not _is_over(rounds, load) else None


def _with_departures(
    node: str, rounds: NodeRounds | None, records: Sequence[EvictionRecord]
) -> NodeRounds | None:
    """Add new evictions to the round that is not counted yet."""
    counted = rounds.last_eviction_at if rounds else None
    new = [r for r in records if counted is None or r.evicted_at > counted]
    if not new:
        return rounds
    newest = max(record.evicted_at for record in new)
    left = [record.left_at for record in new] + [rounds.left_at if rounds else None]
    rounds = rounds or NodeRounds(node, 0, newest)
    return replace(rounds, last_eviction_at=newest, left_at=max(filter(None, left), default=None))


def _counted(rounds: NodeRounds, load: PresentLoad) -> NodeRounds:
    loaded = load.nodes.get(rounds.node)
    if loaded is None:
        return rounds
    if loaded.verdict.node_class is not NodeClass.OVERLOADED:
        return _relieved(rounds)
    excess_ratio = loaded.excess_ratio
    rounds = replace(rounds, left_at=None, cooling_down_until=None)
    if rounds.rounds and excess_ratio <= rounds.excess_ratio * (1 - PROGRESS_SHARE):
        return replace(rounds, rounds=1, excess_ratio=excess_ratio)
    rules = load.policy.follow_up
    backoff = Backoff(rules.node_cool_down_first_seconds, rules.node_cool_down_longest_seconds)
    count = rounds.rounds + 1
    level = count - rules.node_cool_down_rounds
    until = load.now + backoff.wait(level) if level >= 0 else None
    return replace(rounds, rounds=count, cooling_down_until=until, excess_ratio=excess_ratio)


def _relieved_by_itself(rounds: NodeRounds, load: PresentLoad) -> NodeRounds:
    """A node may also be relieved between rounds; a cool-down always lasts until its end."""
    if not rounds.rounds or rounds.is_cooling_down(load.now):
        return rounds
    loaded = load.nodes.get(rounds.node)
    if loaded is None or loaded.verdict.node_class is NodeClass.OVERLOADED:
        return rounds
    return _relieved(rounds)


def _relieved(rounds: NodeRounds) -> NodeRounds:
    return replace(rounds, rounds=0, left_at=None, cooling_down_until=None)


def _is_over(rounds: NodeRounds, load: PresentLoad) -> bool:
    """Whether a node without recorded evictions can be removed."""
    if not rounds.rounds and rounds.left_at is None:
        return True
    last = max(rounds.last_eviction_at, rounds.cooling_down_until or rounds.last_eviction_at)
    longest_seconds = load.policy.follow_up.node_cool_down_longest_seconds
    return (load.now - last).total_seconds() >= longest_seconds
