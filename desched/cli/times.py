"""Times on the command line: `2026-11-15`, `2026-11-15T08:00`, or `7d` for so long ago."""

from datetime import UTC, datetime, timedelta

from desched.errors import ConfigurationError
from desched.policy.durations import duration_seconds

NOW = "now"


def point_in_time(flag: str, text: str, now: datetime) -> datetime:
    """The time that a flag names; in UTC unless it has an offset.

    Raises:
        ConfigurationError: it names none.
    """
    if text == NOW:
        return now
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return now - _ago(flag, text)
    return at.replace(tzinfo=at.tzinfo or UTC)


def _ago(flag: str, text: str) -> timedelta:
    try:
        return timedelta(seconds=duration_seconds(text))
    except ValueError as error:
        raise ConfigurationError(
            f'{flag}: "{text}" is not a time; write one such as 2026-11-15, 2026-11-15T08:00 or '
            "2026-11-15T08:00+01:00, or 7d for seven days ago."
        ) from error
