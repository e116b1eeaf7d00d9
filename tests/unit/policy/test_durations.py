import pytest
from hypothesis import given
from hypothesis import strategies as st

from desched.policy.durations import LONGEST_SECONDS, duration_seconds, duration_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5m", 30),
        ("1m1000ms", 61),
        ("0s", 0),
        ("2000000us", 2),
        ("2000000µs", 2),
        ("3000000000ns", 3),
        ("7d", 604_800),
        ("1w1d", 691_200),
    ],
)
def test_a_go_duration_is_read_in_whole_seconds(text, seconds):
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("300", "has no unit"),
        ("", "is not a duration"),
        ("5", "has no unit"),
        ("5 m", "is not a duration"),
        ("1y", "is not a duration; write for example"),
        ("5 Minutes", 'is not a duration; write "5m"'),
        ("2hrs", 'is not a duration; write "2h"'),
        ("7days", 'is not a duration; write "7d"'),
        ("-5m", "is not a duration"),
        ("five", "is not a duration"),
        ("5mx", "is not a duration"),
        ("1500ms", "is not a whole number of seconds"),
        ("99999999h", "is longer than ten years"),
        ("9" * 5000 + "h", "is not a duration"),
    ],
)
def test_what_is_no_duration_is_refused_with_its_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        duration_seconds(text)


@given(st.integers(min_value=0, max_value=LONGEST_SECONDS))
def test_a_duration_that_is_written_reads_the_same(seconds):
    assert duration_seconds(duration_text(seconds)) == seconds
