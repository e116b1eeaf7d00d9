import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desched.model.load import Level, Measured, SeenLoad, Unknown, UnknownReason
from desched.promql.data_quality import (
    Key,
    NodeEvidence,
    Sighting,
    WindowEvidence,
    judge,
    seen,
)

A: Key = frozenset({("instance", "a")})
B: Key = frozenset({("instance", "b")})
DAY = 86_400.0
USUAL: dict[str, Any] = {"ages": {A: 30.0}, "node_age_seconds": DAY}


def window(
    *values: Sighting,
    covered: Mapping[Key, float] | None = None,
    seconds: int = 300,
    remark: str = "",
) -> WindowEvidence:
    return WindowEvidence(seconds, values, {A: 10, B: 10} if covered is None else covered, remark)


def reason(*windows: WindowEvidence, **known: Any) -> UnknownReason:
    found = judge(NodeEvidence(windows, **(USUAL | known)))
    assert isinstance(found, Unknown), found
    return found.reason


def levels(*windows: WindowEvidence, **known: Any) -> list[float]:
    found = judge(NodeEvidence(windows, **(USUAL | known)))
    assert isinstance(found, Measured), found
    return [level.ratio for level in found.levels]


def test_a_node_with_good_data_is_measured_over_each_window() -> None:
    windows = [window(Sighting(A, 0.4), seconds=s) for s in (300, 900)]

    assert judge(NodeEvidence(windows, {A: 30.0}, DAY)) == Measured(
        (Level(300, 0.4), Level(900, 0.4))
    )


@pytest.mark.parametrize(
    ("age", "future"), [(0.0, False), (-60.0, False), (-60.1, True), (-61.0, True)]
)
def test_samples_from_the_future_are_implausible(age: float, future: bool) -> None:  # noqa: FBT001  a table
    found = judge(NodeEvidence([window(Sighting(A, 0.4))], {A: age}, DAY))
    assert isinstance(found, Unknown) == future
    assert not future or found == Unknown(
        UnknownReason.IMPLAUSIBLE, f"the newest sample is from {-age:.0f}s in the future"
    )


def test_no_series_is_absent() -> None:
    assert reason(window(), ages={}) is UnknownReason.ABSENT


def test_series_that_have_ended_are_stale_however_good_they_look() -> None:
    assert reason(window(Sighting(A, 0.4)), ages={}) is UnknownReason.STALE


@pytest.mark.parametrize(
    ("age", "stale"), [(-2.0, False), (90.0, False), (180.0, False), (181.0, True)]
)
def test_samples_of_more_than_three_minutes_are_stale(age: float, stale: bool) -> None:  # noqa: FBT001  a table
    found = judge(NodeEvidence([window(Sighting(A, 0.4))], {A: age}, DAY))

    assert isinstance(found, Unknown) == stale


@pytest.mark.parametrize("ages", [{A: 30.0, B: 400.0}, {A: 400.0, B: 30.0}])
def test_the_newest_series_of_a_node_decides_on_its_age(ages: Mapping[Key, float]) -> None:
    both = window(Sighting(A, 0.4), Sighting(B, 0.4))

    assert judge(NodeEvidence([both], ages, DAY)) == Measured((Level(300, 0.4),))


def test_a_node_as_old_as_the_window_is_measured() -> None:
    assert levels(window(Sighting(A, 0.4)), node_age_seconds=300.0) == [0.4]


@pytest.mark.parametrize(("age", "text"), [(299.0, "299s"), (-5.0, "0s")])
def test_how_long_ago_a_young_node_joined_is_in_the_detail(age: float, text: str) -> None:
    found = judge(NodeEvidence([window(Sighting(A, 0.4))], {A: 30.0}, age))

    detail = f"the node joined {text} ago, within the last 5m"
    assert found == Unknown(UnknownReason.WINDOW_NOT_COVERED, detail)


@pytest.mark.parametrize("checkpoints", [0.0, 7.0, 7.95])
def test_samples_must_cover_four_fifths_of_the_window(checkpoints: float) -> None:
    short = window(Sighting(A, 0.4), covered={A: checkpoints})

    assert reason(short) is UnknownReason.WINDOW_NOT_COVERED
    assert levels(window(Sighting(A, 0.4), covered={A: 8.0})) == [0.4]


def test_one_window_that_is_not_covered_makes_the_node_unknown() -> None:
    long = window(Sighting(A, 0.4), covered={A: 3.0}, seconds=900)

    assert reason(window(Sighting(A, 0.4)), long) is UnknownReason.WINDOW_NOT_COVERED


def test_a_single_sample_so_far_is_a_window_not_covered() -> None:
    assert reason(window(covered={A: 2.0})) is UnknownReason.WINDOW_NOT_COVERED


def test_covered_but_without_a_value_is_absent() -> None:
    assert reason(window()) is UnknownReason.ABSENT


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_unknown(value: float) -> None:
    assert reason(window(Sighting(A, value))) is UnknownReason.NOT_FINITE
    two = window(Sighting(A, 0.5), Sighting(B, value))
    assert reason(two, ages={A: 1.0, B: 1.0}) is UnknownReason.NOT_FINITE


@pytest.mark.parametrize(
    ("value", "ratio"), [(-0.0005, 0.0), (-0.01, 0.0), (1.0004, 1.0), (1.05, 1.0)]
)
def test_a_little_beyond_the_ends_is_clamped(value: float, ratio: float) -> None:
    assert levels(window(Sighting(A, value))) == [ratio]


@pytest.mark.parametrize("value", [-0.02, -0.0101, 1.0501, 1.06, 87.5])
def test_far_beyond_the_ends_is_implausible(value: float) -> None:
    assert reason(window(Sighting(A, value))) is UnknownReason.IMPLAUSIBLE


@pytest.mark.parametrize("other", [0.029, 0.03])
def test_exporters_agree_up_to_three_points(other: float) -> None:
    both = window(Sighting(A, 0.0), Sighting(B, other))

    assert levels(both, ages={A: 1.0, B: 1.0}) == [other]


def test_exporters_that_differ_by_more_contradict_each_other() -> None:
    both = window(Sighting(A, 0.0), Sighting(B, 0.0301))

    assert reason(both, ages={A: 1.0, B: 1.0}) is UnknownReason.CONTRADICTORY


def test_a_series_that_has_ended_does_not_contradict_the_one_that_goes_on() -> None:
    assert levels(window(Sighting(A, 0.5), Sighting(B, 0.9))) == [0.5]


@pytest.mark.parametrize(
    "both",
    [
        window(Sighting(A, 0.5), Sighting(B, 0.9, exporter_gone=True)),
        window(Sighting(A, 0.5), Sighting(B, 0.9), covered={A: 10}),
        window(Sighting(A, 0.5), Sighting(B, 0.9), covered={A: 10, B: 3}),
    ],
    ids=["of a gone exporter", "without coverage", "that does not cover the window"],
)
def test_a_series_without_worth_does_not_contradict_one_that_covers_the_window(
    both: WindowEvidence,
) -> None:
    assert levels(both, ages={A: 1.0, B: 1.0}) == [0.5]


def test_the_coverage_of_the_old_exporter_does_not_help_the_new_one() -> None:
    both = window(Sighting(A, 0.5), Sighting(B, 0.9, exporter_gone=True), covered={A: 3, B: 9})

    assert reason(both, ages={A: 1.0, B: 1.0}) is UnknownReason.WINDOW_NOT_COVERED


def test_an_own_query_is_checked_by_the_raw_series_of_the_node() -> None:
    own: Key = frozenset({("node", "a")})

    assert levels(window(Sighting(own, 0.5)), own_query=True) == [0.5]
    assert reason(window(Sighting(own, 0.5)), own_query=True, ages={}) is UnknownReason.STALE
    short = window(Sighting(own, 0.5), covered={A: 2})
    assert reason(short, own_query=True) is UnknownReason.WINDOW_NOT_COVERED


def test_an_own_query_without_any_raw_series_is_taken_at_its_word() -> None:
    own = window(Sighting(frozenset({("node", "a")}), 0.5), covered={})

    assert levels(own, own_query=True, checkable=False, ages={}) == [0.5]


def test_the_reason_why_a_window_cannot_be_covered_is_the_detail() -> None:
    found = judge(NodeEvidence([window(covered={}, remark="too short")], {A: 1.0}, DAY))

    assert found == Unknown(UnknownReason.WINDOW_NOT_COVERED, "too short")


SIGHTINGS = st.lists(
    st.builds(Sighting, st.sampled_from([A, B]), st.floats(), st.booleans()), max_size=4
)


@given(
    SIGHTINGS,
    st.dictionaries(st.sampled_from([A, B]), st.floats(0, 11)),
    st.dictionaries(st.sampled_from([A, B]), st.floats(-5, 400)),
    st.booleans(),
)
def test_every_measured_level_is_the_share_of_some_series(
    values: list[Sighting],
    covered: dict[Key, float],
    ages: dict[Key, float],
    own: bool,  # noqa: FBT001  drawn
) -> None:
    evidence = NodeEvidence([WindowEvidence(300, values, covered)], ages, DAY, own_query=own)
    found = judge(evidence)

    if isinstance(found, Measured):
        (level,) = found.levels
        assert level.ratio in {min(max(s.value, 0.0), 1.0) for s in values}
        assert min(ages.values(), default=0.0) <= 180


def what_was_seen(*windows: WindowEvidence, **known: Any) -> SeenLoad:
    evidence = NodeEvidence(windows, **(USUAL | known))
    return seen(evidence, judge(evidence))


def test_of_a_trusted_load_the_age_of_its_newest_sample_is_shown() -> None:
    both = window(Sighting(A, 0.4), Sighting(B, 0.4))

    assert what_was_seen(both, ages={A: 40.0, B: 12.0}) == SeenLoad(12.0)
    assert what_was_seen(both, ages={A: -3.0, B: 12.0}) == SeenLoad(0.0)


def test_of_a_fresh_node_the_load_so_far_is_shown_and_when_it_can_be_judged() -> None:
    short = window(Sighting(A, 0.4), covered={A: 6.0})
    long = window(Sighting(A, 0.3), covered={A: 2.0}, seconds=900)

    found = what_was_seen(short, long, node_age_seconds=200.0)

    # The node is as old as the long window in 700 s; by then samples cover four fifths of it.
    assert found == SeenLoad(30.0, (Level(300, 0.4), Level(900, 0.3)), 700.0)


@pytest.mark.parametrize(("covered", "seconds"), [(2.0, 180.0), (7.9, 3.0)])
def test_samples_must_go_on_until_they_cover_the_window(covered: float, seconds: float) -> None:
    short = window(Sighting(A, 0.4), covered={A: covered})

    assert what_was_seen(short).usable_in_seconds == pytest.approx(seconds)


def test_a_window_that_no_scrape_interval_can_cover_is_never_usable() -> None:
    never = window(Sighting(A, 0.4), covered={A: 2.0}, remark="window too short")

    assert what_was_seen(never).usable_in_seconds is None


def test_of_a_load_with_another_problem_it_is_not_known_when_it_is_usable() -> None:
    stale = what_was_seen(window(Sighting(A, 0.4)), ages={A: 999.0})

    assert stale == SeenLoad(999.0, (Level(300, 0.4),))
    assert what_was_seen(window(), ages={}) == SeenLoad()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.5])
def test_what_is_no_load_is_not_shown(value: float) -> None:
    assert what_was_seen(window(Sighting(A, value))).levels == ()
