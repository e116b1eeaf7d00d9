"""The times over which load is measured, and the longer ones that judge destinations."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from desched.model.resources import Resource
from desched.policy.durations import duration_text
from desched.policy.policy import DestinationWindow
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import Section, optional
from desched.policy_keys.values import DURATION_SCHEMA, Seconds, matching, one_or_many

LONGEST_WINDOW_SECONDS = 24 * 3600
"""Nodes younger than the longest window are left alone; a day of that is enough."""

WindowList = Annotated[
    tuple[Seconds, ...],
    BeforeValidator(one_or_many),
    Field(min_length=1),
    WithJsonSchema(
        {"anyOf": [DURATION_SCHEMA, {"type": "array", "items": DURATION_SCHEMA, "minItems": 1}]}
    ),
]


class Windows(Section):
    """The times over which load is measured; a node is overloaded only if it is in all of them."""

    cpu: WindowList | None = optional(example=["5m", "15m"])
    """Windows for CPU, one or several. Default: `duration`."""
    memory: WindowList | None = optional(example="10m")
    """Windows for memory, one or several. Default: `duration`."""
    gpu: WindowList | None = optional(example="10m")
    """Windows for GPUs, one or several. Default: `duration`."""


Statistic = Annotated[
    str,
    matching(
        "^(max|avg|p[1-9][0-9]?)$",
        'allowed are "max", "avg" and percentiles from "p1" to "p99"',
    ),
]


class DestinationWindowSection(Section):
    """A further time over which a destination is judged."""

    window: Seconds = Field(examples=["1h"])
    """How far it looks back."""
    statistic: Statistic = Field("p95", examples=["max"])
    """How the means over the shortest window within that time are combined: `max`, `avg` or a
    percentile such as `p95`."""


_Several = tuple[DestinationWindowSection, ...]


class DestinationWindows(Section):
    """Longer times by which destinations, never sources, are judged beside `windows`."""

    absent: ClassVar[Mapping[str, str]] = {
        "gpu": "GPUs have no such windows; remove it, destinations are judged by windows.gpu."
    }

    cpu: _Several | None = optional(example=[{"window": "1h", "statistic": "p95"}])
    """For CPU."""
    memory: _Several | None = optional(example=[{"window": "24h", "statistic": "max"}])
    """For memory."""


def windows_of(
    resource: Resource, section: Windows | None, usual_seconds: int, notes: Notes
) -> tuple[int, ...]:
    """The windows of a resource in seconds, shortest first; what is wrong with them is noted."""
    if resource is Resource.PODS:
        return ()
    given: tuple[int, ...] | None = getattr(section, resource.value, None)
    at = notes.below("windows", resource.value) if given else notes.below("duration")
    given = (usual_seconds,) if given is None else given
    for seconds in given:
        _check_window(seconds, at)
    return tuple(sorted(set(given)))


def destination_windows_of(
    resource: Resource, section: DestinationWindows | None, notes: Notes
) -> tuple[DestinationWindow, ...]:
    """The further windows for destinations; what is wrong with them is noted."""
    given: _Several = getattr(section, resource.value, None) or ()
    for index, given_window in enumerate(given):
        at = notes.below("destinationWindows", resource.value, index, "window")
        _check_window(given_window.window, at)
    return tuple(DestinationWindow(s.window, _quantile(s.statistic)) for s in given)


def _check_window(seconds: int, notes: Notes) -> None:
    if not 0 < seconds <= LONGEST_WINDOW_SECONDS:
        notes.refuse(
            f'found a window of "{duration_text(seconds)}", allowed is more than 0 and at most '
            f'"{duration_text(LONGEST_WINDOW_SECONDS)}".'
        )


def _quantile(statistic: str) -> float | None:
    """`avg` is no quantile, `max` is the last and `p95` that below which 95 % lie."""
    if statistic == "avg":
        return None
    return 1.0 if statistic == "max" else int(statistic.removeprefix("p")) / 100
