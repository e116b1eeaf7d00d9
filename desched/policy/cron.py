"""Cron expressions with their usual meaning: which minutes of which days they name.

As in a Kubernetes CronJob: minute, hour, day of month, month, day of week; names, lists, ranges,
steps, `?`, and macros such as `@hourly`. Sunday is 0 or 7. If both the day of month and the day of
week are restricted, either is enough.
"""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from datetime import UTC, date, tzinfo
from zoneinfo import ZoneInfo

import msgspec

MACROS: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_DAYS_PER_WEEK = 7
_LEAP_YEAR = 2024
_ITEM = re.compile(r"(?:(?P<any>[*?])|(?P<from>\w+)(?:-(?P<to>\w+))?)(?:/(?P<step>[0-9]{1,4}))?")
_FREE = re.compile(r"[*?](/0{0,3}1)?")


class CronField(msgspec.Struct, frozen=True):
    """The values that a field allows; `free` if it was written as any."""

    allowed: frozenset[int]
    free: bool


class CronFields(msgspec.Struct, frozen=True):
    """The five fields of an expression; days of the week count from Sunday, which is 0."""

    minute: CronField
    hour: CronField
    day: CronField
    month: CronField
    weekday: CronField

    @property
    def day_exists(self) -> bool:
        """Whether one of the months has one of the days of month."""
        longest = max(monthrange(_LEAP_YEAR, month)[1] for month in self.month.allowed)
        return min(self.day.allowed) <= longest

    def on(self, day: date) -> bool:
        """Whether this is one of the days."""
        if day.month not in self.month.allowed:
            return False
        by_day = day.day in self.day.allowed
        by_weekday = day.isoweekday() % _DAYS_PER_WEEK in self.weekday.allowed
        if self.day.free or self.weekday.free:
            return by_day and by_weekday
        return by_day or by_weekday


class _Kind(msgspec.Struct, frozen=True):
    """The values of one of the five fields."""

    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    def number(self, text: str) -> int | None:
        if text.lower() in self.names:
            return self.first + self.names.index(text.lower())
        return int(text) if re.fullmatch(r"[0-9]{1,2}", text) else None


_KINDS = (
    _Kind("minute", 0, 59),
    _Kind("hour", 0, 23),
    _Kind("day of month", 1, 31),
    _Kind("month", 1, 12, MONTHS),
    _Kind("day of week", 0, 6, WEEKDAYS),
)


def cron_fields(expression: str) -> CronFields:
    """The fields of an expression or macro.

    Raises:
        ValueError: its text names the problem, as the end of a sentence.
    """
    words = expression.split()
    if len(words) == 1:
        words = MACROS.get(words[0].lower(), words[0]).split()
    if len(words) != len(_KINDS):
        raise ValueError(
            "has to have five fields (minute, hour, day of month, month, day of week) or be one "
            f"of {', '.join(sorted(MACROS))}"
        )
    fields = CronFields(*(_field(kind, word) for kind, word in zip(_KINDS, words, strict=True)))
    if fields.weekday.free and not fields.day_exists:
        raise ValueError("names a day that no month has")
    return fields


def zone_of(name: str) -> tzinfo:
    """The time zone of an IANA name.

    Raises:
        ValueError: its text names the problem, as the end of a sentence.
    """
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError("is no time zone; write UTC or a name such as Europe/Berlin") from error


def _field(kind: _Kind, word: str) -> CronField:
    items = word.split(",")
    allowed = frozenset(value for item in items for value in _values(kind, item))
    return CronField(allowed, any(_FREE.fullmatch(item) for item in items))


def _values(kind: _Kind, item: str) -> Iterator[int]:
    match = _ITEM.fullmatch(item)
    weekly = kind.names is WEEKDAYS
    highest = _DAYS_PER_WEEK if weekly else kind.last
    problem = f'has "{item}" as {kind.name}'
    if match is None:
        raise ValueError(f"{problem}, which is not a cron field")
    step = int(match["step"] or 1)
    if step == 0:
        raise ValueError(f"{problem}: a step must not be 0")
    first = kind.first if match["any"] else kind.number(match["from"])
    last = kind.last if match["any"] or match["step"] else first  # "5/15" counts to the end
    if match["to"]:
        last = kind.number(match["to"])
    if weekly and first and last == 0:
        last = _DAYS_PER_WEEK  # "fri-sun" ends with the Sunday after Friday
    if first is None or last is None or first < kind.first or last > highest:
        names = f" or {kind.names[0]} to {kind.names[-1]}" if kind.names else ""
        raise ValueError(f"{problem}, which goes from {kind.first} to {highest}{names}")
    if first > last:
        raise ValueError(f"{problem}, which ends before it begins")
    for value in range(first, last + 1, step):
        yield value % _DAYS_PER_WEEK if weekly else value
