"""How long a workload is left alone after a move."""

import pytest

from desched.eviction.cool_downs import Backoff, with_cool_downs
from desched.model.state import CoolDown, MoveResult
from desched.policy.follow_up import FollowUpRules
from tests.builders import NOW
from tests.unit.eviction.moves import minutes, record

GOOD, BAD, NEUTRAL = (
    MoveResult.LANDED_AS_FORECAST,
    MoveResult.NEVER_CAME,
    MoveResult.NOT_WANTED,
)
RULES = FollowUpRules(cool_down_first_seconds=900, cool_down_longest_seconds=7200)


def after(*results, level=0, until=NOW):
    """The cool-down once these results became known, from one of this level."""
    before = CoolDown("uid-web", "Deployment apps/web", until, level)
    settled = [record(f"web-{i}", result=result) for i, result in enumerate(results)]
    (cool_down,) = with_cool_downs([before], settled, RULES, NOW)
    return cool_down.level, cool_down.until - NOW


@pytest.mark.parametrize(
    ("level", "result", "expected"),
    [
        (0, NEUTRAL, (0, minutes(15))),
        (0, BAD, (1, minutes(30))),
        (1, BAD, (2, minutes(60))),
        (2, BAD, (3, minutes(120))),
        (3, BAD, (3, minutes(120))),
        (2, NEUTRAL, (2, minutes(60))),
        (2, GOOD, (1, minutes(0))),
    ],
)
def test_a_failure_doubles_the_rest_and_a_success_lowers_its_level(level, result, expected):
    assert after(result, level=level) == expected


def test_a_success_does_not_shorten_a_rest_that_lasts():
    assert after(GOOD, level=3, until=NOW + minutes(90)) == (2, minutes(90))


def test_a_success_begins_no_cool_down():
    assert with_cool_downs([], [record(result=GOOD)], RULES, NOW) == ()


def test_a_workload_without_a_cool_down_gets_one_that_says_why():
    (cool_down,) = with_cool_downs([], [record(result=BAD)], RULES, NOW)
    assert cool_down == CoolDown("uid-web", "Deployment apps/web", NOW + minutes(30), 1, BAD)


def test_cool_downs_are_forgotten_once_they_have_been_over_for_long():
    def kept(level, ago):
        cool_down = CoolDown("uid-web", "Deployment apps/web", NOW - ago, level)
        return bool(with_cool_downs([cool_down], [], RULES, NOW))

    assert kept(0, minutes(-1))
    assert not kept(0, minutes(0))
    assert kept(1, minutes(119))
    assert not kept(1, minutes(120))


def test_a_backoff_stays_within_its_bounds_at_any_level():
    backoff = Backoff(900, 7000)
    assert backoff.wait(-5) == minutes(15)
    assert backoff.wait(10**9).total_seconds() == 7000
    assert backoff.raised(2) == 3
    assert backoff.raised(3) == 3
