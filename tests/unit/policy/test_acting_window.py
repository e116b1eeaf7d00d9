"""Windows that open again and again, also where clocks change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from desched.policy.acting_window import ActingWindow, why_closed
from desched.policy.cron import cron_fields
from tests.unit.policy.cron_reading import is_free, matches

BERLIN = ZoneInfo("Europe/Berlin")  # 2026: skips 02:00 on 29 March, doubles it on 25 October
HOUR = 3600
MINUTE = timedelta(minutes=1)
ST_JOHNS = ZoneInfo("America/St_Johns")  # changed its clocks at a minute after midnight until 2011


def window(start, hours=4.0, zone=UTC):
    return ActingWindow(cron_fields(start), round(hours * HOUR), zone)


def utc(month, day, hour=0, minute=0, second=0):
    return datetime(2026, month, day, hour, minute, second, tzinfo=UTC)


def open_minutes(one, first, last):
    """The first and last minute of each time for which the window is open."""
    spells: list[tuple[datetime, datetime]] = []
    moment = first
    while moment < last:
        if one.covers(moment):
            if spells and spells[-1][1] == moment - MINUTE:
                spells[-1] = (spells[-1][0], moment)
            else:
                spells.append((moment, moment))
        moment += MINUTE
    return [(begin, end + MINUTE) for begin, end in spells]


def test_it_is_open_from_its_start_for_its_duration_and_not_a_second_longer():
    night = window("0 22 * * *")
    assert not night.covers(utc(3, 4, 21, 59, 59))
    assert night.covers(utc(3, 4, 22))
    assert night.covers(utc(3, 5, 1, 59, 59))
    assert not night.covers(utc(3, 5, 2))


def test_the_start_is_in_its_own_time_zone_and_now_may_be_in_any():
    night = window("0 22 * * *", zone=BERLIN)
    assert night.covers(utc(3, 4, 21))
    assert night.covers(utc(3, 4, 21).astimezone(ZoneInfo("Asia/Tokyo")))
    assert not night.covers(utc(3, 4, 20, 59))


def test_it_stays_open_over_days_and_months():
    weekend = window("0 20 * * fri", hours=60)
    assert weekend.covers(utc(2, 28, 12))
    assert weekend.covers(utc(3, 2, 7, 59))
    assert not weekend.covers(utc(3, 2, 8))


def test_a_start_in_the_skipped_hour_is_at_the_end_of_the_gap():
    night = window("30 2 * * *", hours=1, zone=BERLIN)
    assert open_minutes(night, utc(3, 29), utc(3, 30)) == [(utc(3, 29, 1), utc(3, 29, 2))]


def test_a_doubled_hour_opens_it_once_and_for_no_longer():
    night = window("30 2 * * *", hours=0.5, zone=BERLIN)
    opened = utc(10, 25, 0, 30)
    assert open_minutes(night, utc(10, 24, 12), utc(10, 25, 12)) == [
        (opened, opened + timedelta(minutes=30))
    ]


@pytest.mark.parametrize(("month", "day"), [(3, 29), (10, 25)])
def test_a_duration_over_a_change_of_the_clock_is_elapsed_time(month, day):
    night = window("0 1 * * *", zone=BERLIN)
    ((opened, closed),) = open_minutes(night, utc(month, day - 1, 12), utc(month, day, 12))
    assert closed - opened == timedelta(hours=4)


def test_starts_in_every_hour_are_neither_made_up_nor_left_out():
    hourly = window("30 * * * *", hours=0.25, zone=BERLIN)
    for month, day in ((3, 29), (10, 25)):
        spells = open_minutes(hourly, utc(month, day), utc(month, day, 4))
        assert [opened for opened, _ in spells] == [utc(month, day, h, 30) for h in range(4)]


def test_an_hour_that_comes_twice_around_midnight_counts_twice():
    hourly = window("30 * * * *", hours=0.25, zone=ST_JOHNS)
    first = datetime(2010, 11, 7, 2, tzinfo=UTC)  # 23:30; the second is an hour later
    spells = open_minutes(hourly, first, first + timedelta(hours=2))
    assert [opened for opened, _ in spells] == [first, first + timedelta(hours=1)]


def test_where_a_whole_day_is_skipped_its_start_is_at_the_beginning_of_the_next():
    apia = ZoneInfo("Pacific/Apia")  # had no 30 December 2011
    noon = ActingWindow(cron_fields("0 12 30 12 *"), HOUR, apia)
    begin = datetime(2011, 12, 31, tzinfo=apia)
    assert noon.covers(begin)
    assert not noon.covers(begin.astimezone(UTC) - timedelta(seconds=1))


def is_start(expression, moment, zone):
    """Whether a window opens in this minute, by looking at the clock on the wall."""
    local = moment.astimezone(zone)
    every_hour = is_free(expression.split()[1])
    if matches(expression, local) and (every_hour or local.fold == 0):
        return True
    before = (moment - MINUTE).astimezone(zone).replace(tzinfo=None)
    skipped = local.replace(tzinfo=None) - before - MINUTE
    if every_hour or skipped <= timedelta(0):
        return False
    return any(matches(expression, before + MINUTE * (i + 1)) for i in range(int(skipped / MINUTE)))


CHANGES = {
    BERLIN: (utc(3, 29, 1), utc(10, 25, 1)),
    ZoneInfo("America/Santiago"): (utc(4, 5, 3), utc(9, 6, 4)),  # changes at midnight
    ST_JOHNS: (
        datetime(2010, 3, 14, 3, 31, tzinfo=UTC),
        datetime(2010, 11, 7, 2, 31, tzinfo=UTC),
    ),
    ZoneInfo("Australia/Lord_Howe"): (utc(4, 4, 15), utc(10, 3, 15, 30)),  # by half an hour
}
NEAR_A_CHANGE = st.sampled_from(sorted(CHANGES, key=str)).flatmap(
    lambda zone: st.tuples(
        st.just(zone),
        st.sampled_from(CHANGES[zone]).flatmap(
            lambda change: st.integers(-300, 300).map(lambda m: change + MINUTE * m)
        ),
    )
)
STARTS = st.tuples(
    st.sampled_from(["0", "15", "*/20", "59", "*"]),
    st.sampled_from(["*", "0", "1", "2", "23", "1-3", "*/2"]),
).map(lambda pair: f"{pair[0]} {pair[1]} * * *")


@given(NEAR_A_CHANGE, STARTS, st.sampled_from([1, 7, 60, 150]))
def test_it_is_open_when_the_clock_on_the_wall_has_shown_a_start_not_long_ago(
    near, expression, minutes
):
    zone, now = near
    one = ActingWindow(cron_fields(expression), minutes * 60, zone)
    expected = any(is_start(expression, now - MINUTE * i, zone) for i in range(minutes))
    assert one.covers(now) == expected
    assert one.covers(now.astimezone(zone)) == expected


@settings(deadline=None, max_examples=40)
@example((ST_JOHNS, datetime(2010, 11, 7, 2, 29, tzinfo=UTC)), "* * * * *", 1)
@example((ST_JOHNS, datetime(2010, 11, 7, 2, 30, tzinfo=UTC)), "*/20 * * * *", 1)
@given(NEAR_A_CHANGE, STARTS, st.sampled_from([1, 60, 150]))
def test_it_stays_as_it_is_until_the_next_change(near, expression, minutes):
    zone, now = near
    one = ActingWindow(cron_fields(expression), minutes * 60, zone)
    change = one.next_change(now)
    if change is None:
        assert one.covers(now)
        return
    change = change.astimezone(UTC)
    assert change > now
    assert one.covers(change) != one.covers(now)
    assert one.covers(change - timedelta(seconds=1)) == one.covers(now)
    assert one.covers(now + (change - now) / 2) == one.covers(now)


@pytest.mark.parametrize(
    ("one", "now", "text"),
    [
        (window("0 22 * * *"), utc(3, 5, 1), "until 02:00 UTC"),
        (window("0 22 * * *"), utc(3, 4, 23), "until 2026-03-05 02:00 UTC"),
        (window("0 22 * * *", zone=BERLIN), utc(3, 4, 12), "from 22:00 Europe/Berlin"),
        (window("0 22 * * fri"), utc(3, 4, 12), "from 2026-03-06 22:00 UTC"),
        (window("0 */4 * * *"), utc(3, 4, 12), "until more than 31 days ahead"),
        (window("0 0 1 12 *"), utc(3, 4, 12), "from more than 31 days ahead"),
        (window("0 0,3 * * *"), utc(3, 4, 1), "until 07:00 UTC"),
    ],
)
def test_people_are_told_until_or_from_when(one, now, text):
    assert one.describe(now) == text


NIGHT, LATER_NIGHT = window("0 22 * * *"), window("30 22 * * *")
CLOSED = "no maintenance window is open; the next one is from 22:00 UTC"


@pytest.mark.parametrize(
    ("maintenance", "blackout", "hour", "why"),
    [
        ([], [], 12, ""),
        ([LATER_NIGHT, NIGHT], [], 23, ""),
        ([LATER_NIGHT, NIGHT], [], 12, CLOSED),
        ([], [NIGHT, LATER_NIGHT], 1, "a blackout window is open until 02:30 UTC"),
        ([], [NIGHT], 12, ""),
        ([window("@hourly", hours=1)], [NIGHT], 1, "a blackout window is open until 02:00 UTC"),
    ],
)
def test_nothing_is_evicted_outside_maintenance_nor_in_a_blackout(maintenance, blackout, hour, why):
    assert why_closed(maintenance, blackout, utc(3, 4, hour)) == why
