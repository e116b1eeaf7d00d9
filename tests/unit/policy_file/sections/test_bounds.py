"""Each bounded value is accepted at both ends and refused one step beyond."""

import pytest

from tests.unit.policy_file.published import published, refusal, resolved

WINDOW = {"start": "0 0 * * *"}


def at(path, value):
    """Changes of the published policy that set one key, given as `section.key`."""
    *outer, key = path.split(".")
    inner = {key: value}
    for name in reversed(outer[1:]):
        inner = {name: inner}
    return {outer[0]: inner}


def limits(key, value):
    return at(f"load_aware.evictionLimits.{key}", value)


def follow_up(key, value):
    return at(f"load_aware.followUp.{key}", value)


BOUNDS = {
    "inFlight.total": (limits, 1, 10_000, 0, 10_001),
    "inFlight.workload": (limits, 1, 1000, 0, 1001),
    "inFlight.destination": (limits, 1, 1000, 0, 1001),
    "perMinute": (limits, 1, 1000, 0, 1001),
    "deadline": (limits, "10s", "1h", "9s", "1h1s"),
    "total": (limits, 0, 2**31 - 1, -1, 2**31),
    "node": (limits, 0, 2**31 - 1, -1, 2**31),
    "namespace": (limits, "0.01%", "100%", "0%", "100.01%"),
    "patience": (follow_up, "10s", "168h", "9s", "168h1s"),
    "coolDown.first": (follow_up, "10s", "168h", "9s", "168h1s"),
    "nodeCoolDown.rounds": (follow_up, 1, 100, 0, 101),
    "pause.workloads": (follow_up, 1, 1000, 0, 1001),
    "pause.within": (follow_up, "10s", "168h", "9s", "168h1s"),
}
LOAD_AWARE = {
    "stopMargin": (1, 50, -1, 100.1),
    "ceilingMargin": (1, 80, -1, 100.1),
    "deviationFloor": (0, 100, -0.1, 100.1),
    "maxLandingRisk": (0, 1, -0.01, 1.01),
    "duration": ("1s", "24h", "0s", "24h1s"),
    "priorityThreshold.value": (-(2**31), 2 * 10**9, -(2**31) - 1, 2 * 10**9 + 1),
    "numberOfNodes": (0, 2**31 - 1, -1, 2**31),
    "scheduler.weights.NodeAffinity": (0, 100, -1, 101),
}
BOUNDS |= {
    key: (lambda k, value: at(f"load_aware.{k}", value), *ends) for key, ends in LOAD_AWARE.items()
}


@pytest.mark.parametrize("key", BOUNDS)
def test_both_ends_are_accepted_and_one_step_beyond_is_refused(key):
    changes, least, most, too_little, too_much = BOUNDS[key]
    for value in (least, most):
        resolved(**changes(key, value))
    for value in (too_little, too_much):
        assert f".{key}: found" in refusal(published(**changes(key, value)))


@pytest.mark.parametrize(
    ("duration", "accepted"), [("59s", False), ("1m", True), ("168h", True), ("168h1s", False)]
)
def test_a_window_is_open_for_a_minute_to_a_week(duration, accepted):
    load_aware = {"blackoutWindows": [{**WINDOW, "duration": duration}]}
    if accepted:
        assert resolved(load_aware=load_aware).blackout_windows
    else:
        assert 'allowed is from "1m" to "168h"' in refusal(published(load_aware=load_aware))


def test_the_name_of_a_namespace_has_at_most_63_characters():
    name = "a" * 63
    found = resolved(load_aware={"evictableNamespaces": {"exclude": [name]}})
    assert found.protections.excluded_namespaces == (name,)
    longer = published(load_aware={"evictableNamespaces": {"exclude": [f"{name}a"]}})
    assert "the exact name of a namespace is allowed" in refusal(longer)


def test_thresholds_may_meet():
    found = resolved(load_aware={"thresholds": {"cpu": 80}, "targetThresholds": {"cpu": 80}})
    assert found.rules[0].low_ratio == found.rules[0].target_ratio == 0.8


def test_a_target_of_zero_has_one_problem_whatever_the_margins():
    load_aware = {"thresholds": {"cpu": 0}, "targetThresholds": {"cpu": 0}, "stopMargin": 5}
    (line,) = refusal(published(load_aware=load_aware)).splitlines()
    assert "targetThresholds.cpu: found 0, which makes every node overloaded" in line


def test_the_first_cool_down_may_be_the_longest():
    cool_down = {"first": "1h", "longest": "1h"}
    found = resolved(load_aware={"followUp": {"coolDown": cool_down}}).follow_up
    assert found.cool_down_first_seconds == found.cool_down_longest_seconds == 3600
