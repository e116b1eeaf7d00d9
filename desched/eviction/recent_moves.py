"""Recent moves: replicas that rest, and how many of a workload moved within the hour."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from desched.model.state import EvictionRecord, RecentMove
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import HISTORY_SECONDS

PAST_KEPT = timedelta(seconds=HISTORY_SECONDS)
"""The past of a node includes a pod for this long after it left."""


def with_recent_moves(
    moves: Iterable[RecentMove],
    settled: Iterable[EvictionRecord],
    rules: FollowUpRules,
    now: datetime,
) -> tuple[RecentMove, ...]:
    """Add these evictions, and remove moves that no rule needs any more; oldest first."""
    longest_seconds = max(rules.cool_down_first_seconds, rules.pause_within_seconds)
    kept = max(PAST_KEPT, timedelta(seconds=longest_seconds))
    new = (
        RecentMove(
            r.workload_uid,
            r.evicted_at,
            r.replacement.uid if r.replacement else "",
            r.workload,
            r.pool,
            r.pod,
            r.node,
            r.left_at,
            r.cpu_millicores,
            r.memory_bytes,
        )
        for r in settled
    )
    kept_moves = [move for move in (*moves, *new) if now - move.at < kept]
    return tuple(sorted(kept_moves, key=lambda move: (move.at, move.workload_uid)))
