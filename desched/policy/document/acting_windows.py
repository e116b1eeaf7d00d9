"""When evictions happen: windows in which they are allowed, and windows in which they are not."""

import re
from datetime import UTC, tzinfo
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from desched.policy.acting_window import ActingWindow
from desched.policy.cron import CronFields, cron_fields, zone_of
from desched.policy.document.values import (
    DURATION_SCHEMA,
    Section,
    default_is,
    refusal,
    seconds_between,
)
from desched.policy.wording import quoted

_DURATION_SECONDS = (60, 7 * 24 * 3600)


def _start(value: object) -> CronFields:
    if not isinstance(value, str):
        raise refusal(f'found {quoted(value)}, a cron expression such as "0 22 * * *" is allowed')
    if re.match(r"\s*(CRON_)?TZ=", value):
        raise refusal(f"{quoted(value)} names a time zone; write it as timeZone")
    try:
        return cron_fields(value)
    except ValueError as error:
        raise refusal(f"{quoted(value)} {error}") from error


def _zone(value: object) -> tzinfo:
    if not isinstance(value, str):
        raise refusal(f'found {quoted(value)}, a name such as "Europe/Berlin" is allowed')
    try:
        return zone_of(value)
    except ValueError as error:
        raise refusal(str(error).removesuffix(".")) from error


class ActingWindowSection(Section):
    """A time that comes again and again."""

    start: Annotated[
        CronFields,
        PlainValidator(_start),
        WithJsonSchema({"type": "string", "examples": ["0 22 * * mon-fri"]}),
    ] = Field(
        description="Cron expression of the times at which it opens: minute, hour, day of month, "
        "month, day of week; or a macro such as `@daily`. A start that a change of the clock skips "
        "is at the end of the gap, one that comes twice counts once.",
        examples=["0 22 * * mon-fri"],
    )
    duration: Annotated[
        int,
        BeforeValidator(seconds_between(*_DURATION_SECONDS)),
        WithJsonSchema(DURATION_SCHEMA),
    ] = Field(
        description="For how long it is open, in elapsed time; from 1m to 168h.", examples=["4h"]
    )
    time_zone: (
        Annotated[
            tzinfo,
            PlainValidator(_zone),
            WithJsonSchema({"type": "string", "examples": ["Europe/Berlin"]}),
        ]
        | None
    ) = Field(
        default=None,
        description="The time zone of `start`.",
        json_schema_extra=default_is("UTC"),
        examples=["Europe/Berlin"],
    )

    def window(self) -> ActingWindow:
        """The window as the policy has it."""
        return ActingWindow(self.start, self.duration, self.time_zone or UTC)
