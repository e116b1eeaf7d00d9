"""Gangs that broke: some pods left together, and others stayed. Their workloads are paused."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from desched.model.state import EvictionRecord, MoveResult, Pause, PauseScope, State
from desched.policy.follow_up import FollowUpRules


def with_broken_gangs(
    state: State, settled: Iterable[EvictionRecord], rules: FollowUpRules, now: datetime
) -> State:
    """Pause the workloads of gangs that are broken: some pods left and others stayed.

    That also happens if a process ends between the evictions.
    """
    records = list({r.pod: r for r in (*state.evictions, *settled) if r.gang}.values())
    stayed = Counter(r.batch for r in records if r.result is MoveResult.STAYED)
    left = Counter(r.batch for r in records if r.result is not MoveResult.STAYED)
    until = now + timedelta(seconds=rules.pause_first_seconds)
    pauses: dict[str, Pause] = {}
    for record in records:
        gone, remaining = left[record.batch], stayed[record.batch]
        if gone and remaining:
            cause = f"{record.gang} was to move whole: {gone} of its pods left, {remaining} stayed"
            pause = Pause(PauseScope.WORKLOAD, now, until, record.workload, cause)
            pauses[record.workload] = pause
    others = (p for p in state.pauses if p.by or str(p) not in {str(q) for q in pauses.values()})
    return replace(state, pauses=(*others, *pauses.values())) if pauses else state
