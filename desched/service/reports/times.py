"""How times are written for people: how far from now, and by the clock."""

from datetime import UTC, datetime, timedelta

_MINUTE_SECONDS = 60
_HOUR_SECONDS = 60 * _MINUTE_SECONDS
_DAY_SECONDS = 24 * _HOUR_SECONDS


def span(length: timedelta) -> str:
    """A length of time in the units that matter to people, as `45 s`, `12 min` or `1 h 30 min`."""
    seconds = max(0, round(length.total_seconds()))
    if seconds < 2 * _MINUTE_SECONDS:
        return f"{seconds} s"
    if seconds >= 2 * _DAY_SECONDS:
        return f"{round(seconds / _DAY_SECONDS)} d"
    hours, minutes = divmod(round(seconds / _MINUTE_SECONDS), _HOUR_SECONDS // _MINUTE_SECONDS)
    parts = [f"{number} {unit}" for number, unit in ((hours, "h"), (minutes, "min")) if number]
    return " ".join(parts)


def clock_time(at: datetime, now: datetime) -> str:
    """The time of the day, with its date if that is not today's, as `14:05 UTC`."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    return f"{at:%H:%M} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M} UTC"


def moment(at: datetime, now: datetime) -> str:
    """A time as `in 12 min (14:05 UTC)` or `12 min ago (13:41 UTC)`."""
    distance = f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"
    return f"{distance} ({clock_time(at, now)})"
