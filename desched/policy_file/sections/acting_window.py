"""Recurring times at which evictions are allowed, or forbidden."""

import re
from datetime import UTC, tzinfo
from typing import Annotated

from pydantic import Field

from desched.policy.acting_window import ActingWindow
from desched.policy.cron import CronFields, cron_fields, zone_of
from desched.policy_keys.section import Section, optional
from desched.policy_keys.values import WEEK_SECONDS, lasting, text_form


def _start(text: str) -> CronFields:
    if re.match(r"\s*(CRON_)?TZ=", text):
        raise ValueError("names a time zone; write it as timeZone")
    return cron_fields(text)


Start = Annotated[
    CronFields, text_form(_start, 'a cron expression such as "0 22 * * *" is allowed')
]
Zone = Annotated[tzinfo, text_form(zone_of, 'a name such as "Europe/Berlin" is allowed')]


class ActingWindowSection(Section):
    """A recurring time."""

    start: Start = Field(examples=["0 22 * * mon-fri"])
    """Cron expression of the times at which it opens: minute, hour, day of month, month, day of
    week; or a macro such as `@daily`. If a clock change skips a start, the window opens at the end
    of the gap; a start that occurs twice counts once."""
    duration: Annotated[int, lasting(60, WEEK_SECONDS)] = Field(examples=["4h"])
    """For how long it is open, in elapsed time; from 1m to 168h."""
    time_zone: Zone | None = optional("UTC", example="Europe/Berlin")
    """The time zone of `start`."""

    def window(self) -> ActingWindow:
        """The window as the policy has it."""
        return ActingWindow(self.start, self.duration, self.time_zone or UTC)
