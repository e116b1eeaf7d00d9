from datetime import timedelta, timezone

import pytest

from desched.wording.formatting import clock_time, moment, span
from tests.builders import NOW


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(seconds=-5), "0 s"),
        (timedelta(seconds=0.4), "0 s"),
        (timedelta(seconds=119), "119 s"),
        (timedelta(seconds=120), "2 min"),
        (timedelta(minutes=12), "12 min"),
        (timedelta(minutes=59, seconds=40), "1 h"),
        (timedelta(minutes=90), "1 h 30 min"),
        (timedelta(hours=2), "2 h"),
        (timedelta(hours=47, minutes=1), "47 h 1 min"),
        (timedelta(days=2), "2 d"),
        (timedelta(days=400), "400 d"),
    ],
)
def test_a_length_of_time_has_suitable_units(length, text):
    assert span(length) == text


def test_a_moment_is_relative_and_absolute():
    assert moment(NOW + timedelta(minutes=12), NOW) == "in 12 min (12:12 UTC)"
    assert moment(NOW - timedelta(minutes=19), NOW) == "19 min ago (11:41 UTC)"
    assert moment(NOW, NOW) == "0 s ago (12:00 UTC)"


def test_another_day_has_its_date():
    assert clock_time(NOW + timedelta(hours=12), NOW) == "2026-05-02 00:00 UTC"
    assert moment(NOW - timedelta(days=3), NOW) == "3 d ago (2026-04-28 12:00 UTC)"


def test_all_times_are_in_utc():
    berlin = timezone(timedelta(hours=2))
    assert clock_time(NOW.astimezone(berlin), NOW.astimezone(berlin)) == "12:00 UTC"
