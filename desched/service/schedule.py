"""When cycles run: every so often, or by a cron expression with its usual meaning."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from desched.errors import ConfigurationError
from desched.policy.durations import duration_seconds, duration_text

SHORTEST_INTERVAL_SECONDS = 1


@dataclass(frozen=True)
class Schedule:
    """When ticks fall; `text` says it to people."""

    trigger: BaseTrigger
    text: str


def every(seconds: int) -> Schedule:
    """A tick each so many seconds.

    Raises:
        ConfigurationError: fewer than one.
    """
    if seconds < SHORTEST_INTERVAL_SECONDS:
        raise ConfigurationError("The interval between cycles must be at least 1s.")
    return Schedule(
        IntervalTrigger(seconds=seconds, timezone=UTC), f"every {duration_text(seconds)}"
    )


def cron(expression: str, timezone: str = "UTC") -> Schedule:
    """Ticks by a cron expression: minute, hour, day of month, month, day of week.

    As in a Kubernetes CronJob: names, lists, ranges, steps and `?`, the macros such as `@hourly`
    and `@every 10m`, and a leading `CRON_TZ=`, which wins over `timezone`. Sunday is 0 or 7. If
    both the day of month and the day of week are restricted, either is enough.

    Raises:
        ConfigurationError: the expression or the time zone cannot be understood.
    """
    words = expression.split()
    if words and (prefix := re.fullmatch(r"(?:CRON_)?TZ=(.+)", words[0])):
        timezone, words = prefix[1], words[1:]
    if words[:1] == ["@every"]:
        return _every_so_often(expression, words[1:])
    if len(words) == 1 and words[0].startswith("@"):
        words = _MACROS.get(words[0].lower(), "").split()
    if len(words) != len(_FIELDS):
        raise _refused(
            expression,
            "has to have five fields (minute, hour, day of month, month, day of week) or be one of "
            f"{', '.join(sorted(_MACROS))} or @every with a duration",
        )
    zone = time_zone(timezone)
    fields = {
        field.name: _parse(expression, field, word)
        for field, word in zip(_FIELDS, words, strict=True)
    }
    return Schedule(_trigger(expression, fields, zone), f'cron "{expression}" in {timezone}')


def time_zone(name: str) -> tzinfo:
    """The time zone of an IANA name.

    Raises:
        ConfigurationError: there is none of this name.
    """
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigurationError(
            f'There is no time zone "{name}"; write UTC or a name such as Europe/Berlin.'
        ) from error


# --- fields ---------------------------------------------------------------------------------

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True)
class _Field:
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    def number(self, text: str) -> int | None:
        if text.lower() in self.names:
            return self.first + self.names.index(text.lower())
        return int(text) if re.fullmatch(r"[0-9]{1,2}", text) else None


@dataclass(frozen=True)
class _Values:
    """The values that a field allows; `free` if it was written as any, whatever the month."""

    allowed: frozenset[int]
    free: bool


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _WEEKDAYS),
)
_DAY_OF_WEEK = _FIELDS[4]
_DAYS_PER_WEEK = 7
_ITEM = re.compile(r"(?:(?P<any>[*?])|(?P<from>\w+)(?:-(?P<to>\w+))?)(?:/(?P<step>[0-9]{1,4}))?")


def _parse(expression: str, field: _Field, word: str) -> _Values:
    allowed: set[int] = set()
    free = False
    for item in word.split(","):
        values, item_is_free = _parse_item(expression, field, item)
        allowed |= values
        free |= item_is_free
    return _Values(frozenset(allowed), free)


def _parse_item(expression: str, field: _Field, item: str) -> tuple[set[int], bool]:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _refused(expression, f'has "{item}" as {field.name}, which is not a cron field')
    step = int(match["step"] or 1)
    if step == 0:
        raise _refused(expression, f'has "{item}" as {field.name}: a step must not be 0')
    if match["any"]:
        return set(range(field.first, field.last + 1, step)), step == 1
    first, last = _bounds(expression, field, match, item)
    values = range(first, last + 1, step)
    if field is _DAY_OF_WEEK:
        return {value % _DAYS_PER_WEEK for value in values}, False
    return set(values), False


def _bounds(expression: str, field: _Field, match: re.Match[str], item: str) -> tuple[int, int]:
    first = field.number(match["from"])
    last = field.number(match["to"]) if match["to"] else first
    highest = _DAYS_PER_WEEK if field is _DAY_OF_WEEK else field.last
    if first is not None and match["step"] and not match["to"]:
        last = field.last  # "5/15" counts from 5 to the end
    if field is _DAY_OF_WEEK and first and last == 0:
        last = _DAYS_PER_WEEK  # "fri-sun" ends with the Sunday after Friday
    if first is None or last is None or first < field.first or last > highest:
        raise _refused(
            expression,
            f'has "{item}" as {field.name}, which goes from {field.first} to {highest}'
            + (f" or {field.names[0]} to {field.names[-1]}" if field.names else ""),
        )
    if first > last:
        raise _refused(expression, f'has "{item}" as {field.name}, which ends before it begins')
    return first, last


def _trigger(expression: str, fields: dict[str, _Values], zone: tzinfo) -> BaseTrigger:
    days, months, weekdays = fields["day of month"], fields["month"], fields["day of week"]
    exists = any(min(days.allowed) <= _LONGEST_MONTHS[month - 1] for month in months.allowed)
    if not exists and weekdays.free:
        raise _refused(expression, "names a day that no month has, so no cycle would ever run")

    def on(*, day: str = "*", day_of_week: str = "*") -> BaseTrigger:
        return CronTrigger(
            minute=_listed(fields["minute"], str),
            hour=_listed(fields["hour"], str),
            month=_listed(months, str),
            day=day,
            day_of_week=day_of_week,
            timezone=zone,
        )

    # APScheduler's own numbers begin the week on Monday; names mean the same to everyone.
    by_weekday = _listed(weekdays, _WEEKDAYS.__getitem__)
    by_day = _listed(days, str)
    if days.free or weekdays.free:
        return on(
            day="*" if days.free else by_day, day_of_week="*" if weekdays.free else by_weekday
        )
    alternatives = [on(day=by_day)] if exists else []
    return OrTrigger([*alternatives, on(day_of_week=by_weekday)])


def _listed(values: _Values, spell: Callable[[int], str]) -> str:
    return ",".join(spell(value) for value in sorted(values.allowed))


def _every_so_often(expression: str, words: list[str]) -> Schedule:
    try:
        return every(duration_seconds(" ".join(words)))
    except ValueError as error:
        raise _refused(expression, str(error)) from error


def _refused(expression: str, why: str) -> ConfigurationError:
    return ConfigurationError(f'The cron expression "{expression}" {why}.')
