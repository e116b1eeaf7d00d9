from datetime import UTC, datetime, timedelta, timezone

import pytest

from desched.commands.backtest import point_in_time
from desched.errors import ConfigurationError

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", NOW),
        ("7d", NOW - timedelta(days=7)),
        ("1h30m", NOW - timedelta(minutes=90)),
        ("2026-04-30", datetime(2026, 4, 30, tzinfo=UTC)),
        ("2026-04-30T08:00", datetime(2026, 4, 30, 8, tzinfo=UTC)),
        ("2026-04-30T08:00Z", datetime(2026, 4, 30, 8, tzinfo=UTC)),
        (
            "2026-04-30T08:00+02:00",
            datetime(2026, 4, 30, 8, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_a_time_is_a_date_or_so_long_ago(text, meant):
    assert point_in_time("--since", text, NOW) == meant


@pytest.mark.parametrize("text", ["", "yesterday", "7", "2026-13-01", "08:00", "11y"])
def test_another_text_is_refused_with_the_forms_that_are_known(text):
    with pytest.raises(ConfigurationError, match=r"--since: .* is not a time; write one such as"):
        point_in_time("--since", text, NOW)
