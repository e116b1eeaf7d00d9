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
        RecentMove("uid-web", EVICTED_AT, "uid-web-9", "Deployment apps/web", "gpu"),
    )


def test_failures_count_as_well_and_may_have_no_replacement():
    settled = [record(result=MoveResult.NEVER_CAME)]
    (move,) = with_recent_moves((), settled, RULES, NOW)
    assert (move.workload_uid, move.replacement_uid) == ("uid-web", "")


def test_moves_are_kept_for_an_hour_or_as_long_as_a_rule_needs_them():
    old, older = (RecentMove("uid-web", NOW - minutes(ago)) for ago in (59, 60))
    assert with_recent_moves((older, old), (), RULES, NOW) == (old,)
    long = FollowUpRules(cool_down_first_seconds=7200)
    assert with_recent_moves((older, old), (), long, NOW) == (older, old)
    pauses = FollowUpRules(pause_within_seconds=7200)  # by the share of the moves that failed
    assert with_recent_moves((older, old), (), pauses, NOW) == (older, old)
    short = FollowUpRules(cool_down_first_seconds=10, pause_within_seconds=10)
    assert with_recent_moves((older, old), (), short, NOW) == (old,)
