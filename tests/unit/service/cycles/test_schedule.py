from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desched.adapters.kept_history import Span
from desched.errors import ConfigurationError
from desched.policy.policy import HistoryGrid
from desched.service.cycles.schedule import cron, every
from tests.unit.policy.cron_reading import EXPRESSIONS, matches

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday


def next_after(expression, moment, zone="UTC"):
    return cron(expression, zone).trigger.get_next_fire_time(None, moment)


MOMENTS = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)).map(  # noqa: DTZ001  (made UTC)
    lambda moment: moment.replace(second=0, microsecond=0, tzinfo=UTC)
)


@given(EXPRESSIONS, MOMENTS)
def test_the_next_tick_matches_by_an_independent_reading(expression, moment):
    tick = next_after(expression, moment)
    assert tick >= moment
    assert matches(expression, tick)


@given(EXPRESSIONS, MOMENTS)
def test_no_matching_moment_is_left_out(expression, moment):
    tick = next_after(expression, moment)
    for minutes in range(180):
        candidate = moment + timedelta(minutes=minutes)
        if candidate >= tick:
            break
        assert not matches(expression, candidate)


@given(st.text(alphabet="*/-,0123456789 @abcdehimnorstuy?=TZ", max_size=30))
def test_any_text_is_a_schedule_that_ticks_or_is_refused(text):
    try:
        trigger = cron(text).trigger
    except ConfigurationError:
        return
    assert trigger.get_next_fire_time(None, NOON) is not None


# --- the traps, one by one -------------------------------------------------------------------


@pytest.mark.parametrize("sunday", ["0", "7", "sun", "SUN", "7-7"])
def test_zero_and_seven_are_sunday(sunday):
    assert next_after(f"0 2 * * {sunday}", NOON) == datetime(2026, 3, 8, 2, tzinfo=UTC)


@pytest.mark.parametrize("weekend", ["5-7", "fri-sun", "5,6,0", "5-0"])
def test_a_range_may_end_with_the_sunday_after_it(weekend):
    trigger = cron(f"0 0 * * {weekend}").trigger
    ticks = [trigger.get_next_fire_time(None, NOON)]
    while len(ticks) < 4:
        ticks.append(trigger.get_next_fire_time(ticks[-1], ticks[-1]))
    assert [tick.strftime("%a") for tick in ticks] == ["Fri", "Sat", "Sun", "Fri"]


def test_one_to_five_are_the_working_days():
    saturday = datetime(2026, 3, 7, 0, 0, tzinfo=UTC)
    assert next_after("0 9 * * 1-5", saturday) == datetime(2026, 3, 9, 9, tzinfo=UTC)


def test_day_of_month_or_day_of_week_is_enough_if_both_are_restricted():
    assert next_after("0 0 13 * fri", NOON) == datetime(2026, 3, 6, tzinfo=UTC)
    saturday = datetime(2026, 3, 7, tzinfo=UTC)
    assert next_after("0 0 10 * fri", saturday) == datetime(2026, 3, 10, tzinfo=UTC)


def test_both_days_have_to_fit_if_one_is_free():
    assert next_after("0 0 13 * *", NOON) == datetime(2026, 3, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("macro", "tick"),
    [
        ("@hourly", datetime(2026, 3, 4, 13, tzinfo=UTC)),
        ("@daily", datetime(2026, 3, 5, tzinfo=UTC)),
        ("@midnight", datetime(2026, 3, 5, tzinfo=UTC)),
        ("@weekly", datetime(2026, 3, 8, tzinfo=UTC)),
        ("@monthly", datetime(2026, 4, 1, tzinfo=UTC)),
        ("@yearly", datetime(2027, 1, 1, tzinfo=UTC)),
        ("@annually", datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_macros_mean_what_they_say(macro, tick):
    assert next_after(macro, NOON + timedelta(minutes=1)) == tick


def test_every_is_an_interval():
    assert cron("@every 1h30m").trigger.interval == timedelta(minutes=90)
    assert cron("@every 10m").text == "every 10m"


def test_the_time_zone_is_that_of_the_setting_unless_the_expression_names_one():
    berlin = datetime(2026, 3, 5, 2, tzinfo=UTC)  # 3 o'clock there
    assert next_after("0 3 * * *", NOON, "Europe/Berlin") == berlin
    assert next_after("CRON_TZ=Europe/Berlin 0 3 * * *", NOON) == berlin
    assert next_after("TZ=Europe/Berlin 0 3 * * *", NOON, "Asia/Tokyo") == berlin


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("", "has to have five fields"),
        ("* * * *", "has to have five fields"),
        ("0 0 0 * * *", "has to have five fields"),
        ("@sometimes", "has to have five fields"),
        ("60 * * * *", 'has "60" as minute, which goes from 0 to 59'),
        ("* 24 * * *", 'has "24" as hour'),
        ("* * 0 * *", 'has "0" as day of month'),
        ("* * * 13 *", 'has "13" as month, which goes from 1 to 12 or jan to dec'),
        ("* * * * 8", 'has "8" as day of week'),
        ("* * * * L", 'has "L" as day of week'),
        ("*/0 * * * *", "a step must not be 0"),
        ("30-10 * * * *", "ends before it begins"),
        ("a,,b * * * *", 'has "a" as minute'),
        ("0 0 31 2 *", "names a day that no month has"),
        ("0 0 31 4,6,9,11 *", "names a day that no month has"),
        ("@every", "is not a duration"),
        ("@every 5", "has no unit"),
        ("CRON_TZ=Mars/Base 0 * * * *", '"Mars/Base" is no time zone'),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_reason(expression, sentence):
    with pytest.raises(ConfigurationError) as caught:
        cron(expression)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../etc/passwd", "/etc/passwd", "\0"])
def test_no_other_text_is_a_time_zone(zone):
    with pytest.raises(ConfigurationError, match="is no time zone; write UTC"):
        cron("0 0 * * *", zone)


def test_a_leap_day_is_a_day():
    assert next_after("0 0 29 2 *", NOON) == datetime(2028, 2, 29, tzinfo=UTC)


def test_an_interval_has_to_be_at_least_a_second():
    assert every(90).text == "every 1m30s"
    with pytest.raises(ConfigurationError, match="at least 1s"):
        every(0)


@given(st.integers(1, 86_400), st.floats(0, 1e9))
def test_ticks_of_an_interval_are_at_its_multiples_whenever_it_begins(seconds, began):
    trigger, first = every(seconds).trigger, datetime.fromtimestamp(began, UTC)
    second = trigger.get_next_fire_time(first, first)
    third = trigger.get_next_fire_time(second, second + timedelta(milliseconds=3))

    assert second.timestamp() % seconds == 0
    assert 0.5 <= (second - first).total_seconds() / seconds <= 1.5
    assert third - second == timedelta(seconds=seconds)


def test_a_service_with_an_interval_of_the_step_measures_each_point_of_the_past():
    grid = HistoryGrid(steps=36, step_seconds=300)
    began = NOON + timedelta(seconds=77)
    tick = every(grid.step_seconds).trigger.get_next_fire_time(began, began)
    read_at = tick.timestamp() + 5
    span = Span.before(read_at, grid)

    assert span.near(read_at, window_seconds=300) == span.last
