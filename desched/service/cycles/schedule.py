"""When cycles run: at an interval, or by a cron expression with its usual meaning."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from desched.errors import ConfigurationError
from desched.policy.cron import CronFields, cron_fields, zone_of
from desched.policy.durations import duration_seconds, duration_text

SHORTEST_INTERVAL_SECONDS = 1


@dataclass(frozen=True)
class Schedule:
    """The trigger of cycles, and its description for people."""

    trigger: BaseTrigger
    text: str


class RegularTimes(IntervalTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Ticks at multiples of the interval in Unix time.

    The past of nodes and pods is kept at such times, so a cycle at one of them has measured its
    newest point. The first tick after one at another time, such as that of the start, is half an
    interval to one and a half later.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds=seconds, start_date=datetime.fromtimestamp(0, UTC), timezone=UTC)

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        """The tick after another one, else the first from `now` on."""
        if previous_fire_time is not None:
            now = previous_fire_time + self.interval / 2
        tick: datetime | None = super().get_next_fire_time(None, now)
        return tick


def every(seconds: int) -> Schedule:
    """A tick at each interval.

    Raises:
        ConfigurationError: the interval is shorter than a second.
    """
    if seconds < SHORTEST_INTERVAL_SECONDS:
        raise ConfigurationError("The interval between cycles must be at least 1s.")
    return Schedule(RegularTimes(seconds), f"every {duration_text(seconds)}")


def cron(expression: str, timezone: str = "UTC") -> Schedule:
    """Ticks by a cron expression as in a Kubernetes CronJob.

    Also accepts `@every 10m`, and a leading `CRON_TZ=`, which overrides `timezone`.

    Raises:
        ConfigurationError: the expression or the time zone is invalid.
    """
    words = expression.split()
    if words and (prefix := re.fullmatch(r"(?:CRON_)?TZ=(.+)", words[0])):
        timezone, words = prefix[1], words[1:]
    try:
        if words[:1] == ["@every"]:
            return every(duration_seconds(" ".join(words[1:])))
        fields = cron_fields(" ".join(words))
    except ValueError as error:
        raise ConfigurationError(f'The cron expression "{expression}" {error}.') from error
    return Schedule(_trigger(fields, time_zone(timezone)), f'cron "{expression}" in {timezone}')


def time_zone(name: str) -> tzinfo:
    """The time zone with an IANA name.

    Raises:
        ConfigurationError: the name is unknown.
    """
    try:
        return zone_of(name)
    except ValueError as error:
        raise ConfigurationError(f'"{name}" {error}.') from error


def _trigger(fields: CronFields, zone: tzinfo) -> BaseTrigger:
    def on(*, day: str = "*", day_of_week: str = "*") -> BaseTrigger:
        return CronTrigger(
            minute=_listed(fields.minute.allowed),
            hour=_listed(fields.hour.allowed),
            month=_listed(fields.month.allowed),
            day=day,
            day_of_week=day_of_week,
            timezone=zone,
        )

    by_day = _listed(fields.day.allowed)
    by_weekday = _listed((day - 1) % 7 for day in fields.weekday.allowed)  # here Monday is 0
    if fields.day.free or fields.weekday.free:
        return on(
            day="*" if fields.day.free else by_day,
            day_of_week="*" if fields.weekday.free else by_weekday,
        )
    alternatives = [on(day=by_day)] if fields.day_exists else []
    return OrTrigger([*alternatives, on(day_of_week=by_weekday)])


def _listed(values: Iterable[int]) -> str:
    return ",".join(map(str, sorted(values)))
