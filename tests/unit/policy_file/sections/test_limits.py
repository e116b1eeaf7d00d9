"""How much is evicted, when, and what follows, as the policy says it."""

import re
from datetime import UTC, datetime

import pytest

from desched.policy.acting_window import ActingWindow
from desched.policy.cron import cron_fields
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import EvictionLimits
from desched.policy.share import Share, count_of
from tests.unit.policy_file.published import published, refusal, resolved

PATH = "profiles[0].pluginConfig[1].args"
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


def test_slow_start_and_the_limit_by_the_hour_are_handed_on():
    found = limits({"slowStart": False, "workloadHourly": "20%"})
    assert (found.slow_start, found.workload_hourly) == (False, Share(0.2))
    assert limits(None).slow_start
    assert limits({"workloadHourly": 3}).workload_hourly == 3


def test_pace_and_evictions_in_flight_have_bounds_if_nothing_is_said():
    found = limits(None)
    assert [count_of(found.in_flight_total, nodes) for nodes in (3, 1000)] == [20, 50]
    assert (found.in_flight_destination, found.per_minute) == (2, 20)
    assert found.deadline_seconds == 240
    assert found == EvictionLimits()


def test_pace_and_evictions_in_flight_are_handed_on():
    flight = {"total": 7, "workload": 2, "destination": 3}
    found = limits({"inFlight": flight, "perMinute": 4, "deadline": "90s"})
    assert (found.in_flight_total, found.in_flight_workload) == (7, 2)
    assert (found.in_flight_destination, found.per_minute) == (3, 4)
    assert found.deadline_seconds == 90
    assert limits({"inFlight": {"total": 7}, "perMinute": None}).in_flight_destination == 2


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


def test_what_follows_is_handed_on():
    follow_up = {
        "patience": "20m",
        "coolDown": {"first": "10s", "longest": "1m"},
        "nodeCoolDown": {"rounds": 4, "first": "2m", "longest": "3m"},
        "pause": {
            "workloads": 5,
            "within": "4m",
            "ownerLabel": "team",
            "first": "5m",
            "longest": "6m",
        },
    }
    assert resolved(load_aware={"followUp": follow_up}).follow_up == FollowUpRules(
        patience_seconds=1200,
        cool_down_first_seconds=10,
        cool_down_longest_seconds=60,
        node_cool_down_rounds=4,
        node_cool_down_first_seconds=120,
        node_cool_down_longest_seconds=180,
        pause_workloads=5,
        pause_within_seconds=240,
        pause_owner_label="team",
        pause_first_seconds=300,
        pause_longest_seconds=360,
    )


@pytest.mark.parametrize("follow_up", [None, {}, {"coolDown": None, "pause": {"within": None}}])
def test_what_follows_has_defaults(follow_up):
    assert resolved(load_aware={"followUp": follow_up}).follow_up == FollowUpRules()


def test_the_default_of_a_first_or_longest_time_gives_way_to_the_other():
    found = resolved(
        load_aware={"followUp": {"coolDown": {"first": "8h"}, "pause": {"longest": "10m"}}}
    ).follow_up
    assert (found.cool_down_first_seconds, found.cool_down_longest_seconds) == (28_800, 28_800)
    assert (found.pause_first_seconds, found.pause_longest_seconds) == (600, 600)


LIMIT = "allowed is a whole number, or a percentage above 0"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"evictionLimits": {"total": "0%"}}, f'evictionLimits.total: found "0%", {LIMIT}'),
        ({"evictionLimits": {"workload": "101%"}}, f'workload: found "101%", {LIMIT}'),
        ({"evictionLimits": {"namespace": "5"}}, f'namespace: found "5", {LIMIT}'),
        ({"evictionLimits": {"total": True}}, f"total: found true, {LIMIT}"),
        ({"evictionLimits": {"node": "5%"}}, "node: found"),
        ({"maintenanceWindows": []}, "maintenanceWindows: found an empty list, allowed is a list"),
        (
            {"maintenanceWindows": [NIGHT, {**NIGHT, "start": "0 0 31 2 *"}]},
            'maintenanceWindows[1].start: "0 0 31 2 *" names a day that no month has.',
        ),
        ({"blackoutWindows": [{**NIGHT, "start": "@every 2h"}]}, "has to have five fields"),
        ({"blackoutWindows": [{**NIGHT, "start": 5}]}, "start: found 5, a cron expression such"),
        (
            {"blackoutWindows": [{**NIGHT, "start": "TZ=Asia/Tokyo 0 0 * * *"}]},
            'start: "TZ=Asia/Tokyo 0 0 * * *" names a time zone; write it as timeZone.',
        ),
        (
            {"blackoutWindows": [{**NIGHT, "timeZone": "Mars/Base"}]},
            'blackoutWindows[0].timeZone: "Mars/Base" is no time zone; write UTC or a name',
        ),
        ({"blackoutWindows": [{**NIGHT, "timeZone": 1}]}, "timeZone: found 1, a name such as"),
        ({"blackoutWindows": [{"start": "@daily"}]}, "blackoutWindows[0].duration: is missing"),
        (
            {"followUp": {"nodeCoolDown": {"first": "2h", "longest": "1h"}}},
            'followUp.nodeCoolDown.longest: found "1h", which is shorter than first ("2h").',
        ),
    ],
)
def test_a_mistake_gets_its_own_sentence_and_place(changes, sentence):
    found = refusal(published(load_aware=changes))
    assert PATH in found
    assert sentence in found
