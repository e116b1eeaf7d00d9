"""How long a workload is left alone after a move: longer after each that did not go well."""

from collections.abc import Iterable
from datetime import datetime

from desched.eviction.backoff import Backoff
from desched.model.plan import PlannedEviction
from desched.model.state import FAILURES, SUCCESSES, CoolDown, EvictionRecord, MoveResult
from desched.policy.follow_up import FollowUpRules


def cooled_down(
    cool_downs: Iterable[CoolDown],
    settled: Iterable[EvictionRecord],
    rules: FollowUpRules,
    now: datetime,
) -> tuple[CoolDown, ...]:
    """The cool-downs with those of the workloads of these evictions, by the workload's uid.

    A level is forgotten once its cool-down has been over for the longest one.
    """
    backoff = Backoff(rules.cool_down_first_seconds, rules.cool_down_longest_seconds)
    resting = {rest.workload_uid: rest for rest in cool_downs}
    for record in settled:
        earlier = resting.get(record.workload_uid)
        resting[record.workload_uid] = _after(record, earlier, backoff, now)
    kept = (rest for rest in resting.values() if not _is_over(rest, backoff, now))
    return tuple(sorted(kept, key=lambda rest: rest.workload_uid))


def refused(
    cool_downs: Iterable[CoolDown],
    evictions: Iterable[PlannedEviction],
    rules: FollowUpRules,
    now: datetime,
) -> tuple[CoolDown, ...]:
    """The cool-downs with those of the workloads of which a pod may not be evicted at all.

    Else the same pod would be planned, and refused, in each cycle, in the place of others.
    """
    backoff = Backoff(rules.cool_down_first_seconds, rules.cool_down_longest_seconds)
    resting = {rest.workload_uid: rest for rest in cool_downs}
    for eviction in evictions:
        earlier = resting.get(eviction.workload_uid)
        level = backoff.raised(earlier.level if earlier else 0)
        resting[eviction.workload_uid] = CoolDown(
            eviction.workload_uid,
            eviction.workload,
            now + backoff.wait(level),
            level,
            MoveResult.REFUSED,
        )
    return tuple(sorted(resting.values(), key=lambda rest: rest.workload_uid))


def _after(
    record: EvictionRecord, earlier: CoolDown | None, backoff: Backoff, now: datetime
) -> CoolDown:
    level = earlier.level if earlier else 0
    if record.result in FAILURES:
        level = backoff.raised(level)
    elif record.result in SUCCESSES:
        level = max(0, level - 1)
    until = now + backoff.wait(level)
    # What went well does not shorten a rest that another move has earned.
    until = max(until, earlier.until) if earlier else until
    return CoolDown(record.workload_uid, record.workload, until, level, record.result)


def _is_over(rest: CoolDown, backoff: Backoff, now: datetime) -> bool:
    remembered_seconds = backoff.longest_seconds if rest.level else 0
    return (now - rest.until).total_seconds() >= remembered_seconds
