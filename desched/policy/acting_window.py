"""Recurring times in which evictions are allowed, or forbidden."""

from bisect import bisect, bisect_left
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo

import msgspec

from desched.policy.cron import CronFields

LOOK_AHEAD = timedelta(days=31)
"""How far a sentence about the next change looks."""

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


class ActingWindow(msgspec.Struct, frozen=True):
    """Opens at each time that `start` names in `zone`, for so many elapsed seconds.

    Where a change of the clock skips a start, the window opens at the end of the gap; where an hour
    comes twice, it opens in the first. Starts in *every* hour are hours that pass: none is made up
    for a skipped hour, and both of a doubled hour count.
    """

    start: CronFields
    duration_seconds: int
    zone: tzinfo = UTC

    def covers(self, now: datetime) -> bool:
        """Whether the window is open at this time, which has a time zone."""
        now = now.astimezone(UTC)  # elsewhere a difference is one of clocks on the wall
        return any(self._starts(now - self._duration, now))

    def next_change(self, now: datetime) -> datetime | None:
        """When the window closes, or opens, next, in its own zone; None if not in 31 days.

        The end of a window in which the next one begins is no change.
        """
        now = now.astimezone(UTC)
        horizon = now + LOOK_AHEAD
        end = now if self.covers(now) else None
        for start in self._starts(now - self._duration, horizon):
            if end is None:
                return start.astimezone(self.zone)
            if start > end:
                break
            end = max(end, start + self._duration)
        return end.astimezone(self.zone) if end is not None and end < horizon else None

    def describe(self, now: datetime) -> str:
        """Until or from when, for people: `until 06:00 Europe/Berlin`."""
        word = "until" if self.covers(now) else "from"
        change = self.next_change(now)
        if change is None:
            return f"{word} more than {LOOK_AHEAD.days} days ahead"
        today = change.date() == now.astimezone(self.zone).date()
        return f"{word} {change:{'%H:%M' if today else '%Y-%m-%d %H:%M'}} {self.zone}"

    @property
    def _duration(self) -> timedelta:
        return timedelta(seconds=self.duration_seconds)

    def _starts(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """When it opens, later than the one and not later than the other, all of them in UTC."""
        # A change of the clock moves a start by a day at most.
        day = after.astimezone(self.zone).date() - _DAY
        last = until.astimezone(self.zone).date() + _DAY
        starts: list[datetime] = []
        while day <= last:
            if self.start.on(day):
                starts += (s for s in self._starts_on(day) if after < s <= until)
            day += _DAY
            # Where clocks go back at midnight, a day's last hour comes again after the next day
            # has begun.
            begins = datetime.combine(day, time(), self.zone).astimezone(UTC)
            starts.sort()
            ended = bisect_left(starts, begins)
            yield from starts[:ended]
            del starts[:ended]
        yield from starts

    def _starts_on(self, day: date) -> Iterator[datetime]:
        midnight = datetime.combine(day, time(), self.zone)
        steady = midnight.utcoffset() == (midnight + _DAY).replace(fold=1).utcoffset()
        begin = midnight.astimezone(UTC)
        for hour in sorted(self.start.hour.allowed):
            for minute in sorted(self.start.minute.allowed):
                if steady:  # much quicker
                    yield begin + timedelta(hours=hour, minutes=minute)
                else:
                    yield from self._instants(datetime.combine(day, time(hour, minute)))

    def _instants(self, local: datetime) -> Iterator[datetime]:
        """When clocks of the zone show this time, or the instant that replaces it."""
        first = local.replace(tzinfo=self.zone).astimezone(UTC)
        second = local.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
        every_hour = self.start.hour.free
        if first > second:  # skipped: read by the offset before the gap, and by the one after it
            if not every_hour:
                yield _end_of_gap(second, first, self.zone)
            return
        yield first
        if first < second and every_hour:
            yield second


def why_closed(
    maintenance: Sequence[ActingWindow], blackout: Sequence[ActingWindow], now: datetime
) -> str:
    """Why nothing may be evicted at this time, for people; empty if something may.

    Args:
        maintenance: evictions only while one of these is open; none: at any time.
        blackout: no evictions while one of these is open.
        now: a time with a time zone.
    """

    def change(window: ActingWindow) -> datetime:
        return window.next_change(now) or now + LOOK_AHEAD

    closing = max((w for w in blackout if w.covers(now)), key=change, default=None)
    if closing is not None:
        return f"a blackout window is open {closing.describe(now)}"
    if not maintenance or any(window.covers(now) for window in maintenance):
        return ""
    opening = min(maintenance, key=change)
    return f"no maintenance window is open; the next one is {opening.describe(now)}"


def _end_of_gap(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The second at which the offset of the zone changes between two times."""
    offset = after.astimezone(zone).utcoffset()

    def is_over(second: int) -> bool:
        return (before + _SECOND * second).astimezone(zone).utcoffset() == offset

    return before + _SECOND * bisect(range((after - before) // _SECOND), x=False, key=is_over)
