"""Cool-downs of workloads after moves: longer after each failure."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from desched.model.plan import PlannedEviction
from desched.model.state import FAILURES, SUCCESSES, CoolDown, EvictionRecord, MoveResult
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
    return tuple(cool_down for cool_down in in_order if not _is_over(cool_down, backoff, now))


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
    for uid, workload in ((each.workload_uid, each.workload) for each in evictions):
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


def _is_over(cool_down: CoolDown, backoff: Backoff, now: datetime) -> bool:
    remembered_seconds = backoff.longest_seconds if cool_down.level else 0
    return (now - cool_down.until).total_seconds() >= remembered_seconds
