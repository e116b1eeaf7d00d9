"""How much is evicted, when, and what follows, as the policy says it."""

import re
from datetime import UTC, datetime

import pytest

from desched.policy.acting_window import ActingWindow
from desched.policy.cron import cron_fields
from desched.policy.policy import EvictionLimits
from desched.policy.share import Share, count_of
from tests.unit.policy_file.published import resolved

NIGHT = {"start": "0 22 * * *", "duration": "4h"}


def limits(own, **top_level):
    return resolved(load_aware={"evictionLimits": own}, **top_level).limits


def test_limits_may_be_percentages():
    found = limits({"total": "2%", "namespace": "12.5%", "workload": "10%"})
    assert (found.total, found.namespace, found.workload) == (Share(0.02), Share(0.125), Share(0.1))
    assert (count_of(found.total, 30), count_of(found.total, 300)) == (1, 6)


def test_a_percentage_and_the_number_of_another_key_hold_both():
    found = limits({"total": "50%"}, maxNoOfPodsToEvictTotal=4)
    assert (count_of(found.total, 4), count_of(found.total, 100)) == (2, 4)
    assert limits({"total": "50%"}, maxNoOfPodsToEvictTotal=0).total == 0


@pytest.mark.parametrize(
    ("own", "top_level", "key", "planned"),
    [
        ({"total": 0}, {}, "evictionLimits.total", EvictionLimits().total),
        ({"total": 0}, {"maxNoOfPodsToEvictTotal": 7}, "evictionLimits.total", 7),
        ({"total": 7}, {"maxNoOfPodsToEvictTotal": 0}, "maxNoOfPodsToEvictTotal", 7),
    ],
)
def test_a_total_of_zero_stands_in_a_line_without_which_plans_are_made(
    own, top_level, key, planned
):
    found = limits(own, **top_level)
    assert found.total == 0
    assert re.fullmatch(rf"\S+:\d+: (\S+\.)?{key}", found.zero_at)
    assert found.planned_total == planned


def test_without_a_total_the_larger_of_twenty_and_five_percent_holds():
    total = limits(None).total
    assert (count_of(total, 30), count_of(total, 5000)) == (20, 250)


def test_of_a_workload_one_replica_in_twenty_moves_at_a_time_and_half_within_an_hour():
    found = limits(None)
    replicas = (1, 2, 3, 5, 39, 40, 256)
    for at_a_time in (found.workload, found.in_flight_workload):
        assert [count_of(at_a_time, n) for n in replicas] == [1, 1, 1, 1, 1, 2, 12]
    assert [count_of(found.workload_hourly, n) for n in replicas] == [1, 1, 2, 3, 20, 20, 128]


def test_pace_and_evictions_in_flight_have_bounds_if_nothing_is_said():
    found = limits(None)
    assert [count_of(found.in_flight_total, nodes) for nodes in (3, 1000)] == [20, 50]
    assert (found.in_flight_destination, found.per_minute) == (2, 20)
    assert found.deadline_seconds == 240
    assert found == EvictionLimits()


def test_windows_are_handed_on():
    policy = resolved(
        load_aware={
            "maintenanceWindows": [{**NIGHT, "timeZone": "Europe/Berlin"}, NIGHT],
            "blackoutWindows": [{"start": "@weekly", "duration": "168h"}],
        }
    )
    berlin, night = policy.maintenance_windows
    assert night == ActingWindow(cron_fields("0 22 * * *"), 4 * 3600, UTC)
    assert berlin.covers(datetime(2026, 3, 4, 21, tzinfo=UTC))
    assert not night.covers(datetime(2026, 3, 4, 21, tzinfo=UTC))
    assert policy.blackout_windows[0].duration_seconds == 7 * 24 * 3600
    assert resolved().maintenance_windows == resolved().blackout_windows == ()
