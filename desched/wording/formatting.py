"""How names, counts, shares and times are written for people."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from desched.model.resources import Resource
from desched.model.text import on_one_line

RESOURCE_NAMES: Mapping[Resource, str] = {
    Resource.CPU: "CPU",
    Resource.MEMORY: "memory",
    Resource.GPU: "GPU",
    Resource.PODS: "pods",
}
"""In the order of tables."""

MODE_NAMES: Mapping[str, str] = {
    "dry_run": "dry run",
    "evict": "evicting",
    "partial_dry_run": "partly a dry run",
}

_MINUTE_SECONDS = 60
_HOUR_SECONDS = 60 * _MINUTE_SECONDS
_DAY_SECONDS = 24 * _HOUR_SECONDS


def plain(text: str) -> str:
    """The text on one line, without characters that move a cursor or change the direction."""
    return on_one_line(text)


def words(value: StrEnum) -> str:
    """The value without underscores."""
    return value.value.replace("_", " ")


def resource_title(resource: Resource) -> str:
    """The name of a resource at the top of a column."""
    name = RESOURCE_NAMES[resource]
    return f"{name[0].upper()}{name[1:]}"


def count(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun, as `1 pod` or `2 pods`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def first_names(names: Sequence[str], most: int = 10) -> str:
    """The names as `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def and_more(number: int, rest: str) -> Sequence[str]:
    """The line for so many further ones, if any; `rest` is a hint at where they are."""
    return [f"… and {number} more; {rest}"] if number > 0 else []


def first_lines(lines: Sequence[str], most: int, rest: str) -> Sequence[str]:
    """The first lines, and how many others there are."""
    return [*lines[:most], *and_more(len(lines) - most, rest)]


def percent(ratio: float) -> str:
    """A share as percent without the sign, as `87.5`."""
    return f"{ratio * 100:.1f}"


def span(length: timedelta) -> str:
    """A length of time in units that suit it, as `45 s`, `12 min` or `1 h 30 min`."""
    seconds = max(0, round(length.total_seconds()))
    if seconds < 2 * _MINUTE_SECONDS:
        return f"{seconds} s"
    if seconds >= 2 * _DAY_SECONDS:
        return f"{round(seconds / _DAY_SECONDS)} d"
    hours, minutes = divmod(round(seconds / _MINUTE_SECONDS), _HOUR_SECONDS // _MINUTE_SECONDS)
    parts = [f"{number} {unit}" for number, unit in ((hours, "h"), (minutes, "min")) if number]
    return " ".join(parts)


def clock_time(at: datetime, now: datetime) -> str:
    """The time of day as `14:05 UTC`, with the date unless it is today."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    return f"{at:%H:%M} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M} UTC"


def moment(at: datetime, now: datetime) -> str:
    """A time as `in 12 min (14:05 UTC)` or `12 min ago (13:41 UTC)`."""
    distance = f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"
    return f"{distance} ({clock_time(at, now)})"
