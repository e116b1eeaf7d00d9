"""Which moves are kept, and for how long."""

from desched.eviction.recent_moves import with_recent_moves
from desched.model.state import MoveResult, RecentMove
from desched.policy.follow_up import FollowUpRules
from tests.builders import NOW
from tests.unit.eviction.moves import EVICTED_AT, minutes, record, ref

RULES = FollowUpRules()


def test_a_settled_eviction_is_kept_with_its_replacement():
    settled = [record(result=MoveResult.LANDED_ELSEWHERE, replacement=ref("web-9"), pool="gpu")]
    assert with_recent_moves((), settled, RULES, NOW) == (
        RecentMove(
            "uid-web",
            EVICTED_AT,
            "uid-web-9",
            "Deployment apps/web",
            "gpu",
            settled[0].pod,
            settled[0].node,
            settled[0].left_at,
            settled[0].cpu_millicores,
            settled[0].memory_bytes,
        ),
    )


def test_failures_count_as_well_and_may_have_no_replacement():
    settled = [record(result=MoveResult.NEVER_CAME)]
    (move,) = with_recent_moves((), settled, RULES, NOW)
    assert (move.workload_uid, move.replacement_uid) == ("uid-web", "")


def test_moves_are_kept_for_half_a_day_or_as_long_as_a_rule_needs_them():
    """So long a node counts as relieved."""
    old, older = (RecentMove("uid-web", NOW - minutes(ago)) for ago in (719, 720))
    assert with_recent_moves((older, old), (), RULES, NOW) == (old,)
    long = FollowUpRules(cool_down_first_seconds=86_400)
    assert with_recent_moves((older, old), (), long, NOW) == (older, old)
    pauses = FollowUpRules(pause_within_seconds=86_400)  # by the share of the moves that failed
    assert with_recent_moves((older, old), (), pauses, NOW) == (older, old)
    short = FollowUpRules(cool_down_first_seconds=10, pause_within_seconds=10)
    assert with_recent_moves((older, old), (), short, NOW) == (old,)
