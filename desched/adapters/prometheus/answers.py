"""Decoded answers of Prometheus."""

from collections.abc import Mapping
from datetime import datetime

import msgspec


class Series(msgspec.Struct, frozen=True, gc=False):
    """One element of an instant vector, evaluated `at` these Unix seconds."""

    labels: Mapping[str, str]
    value: float
    at: float


class Grid(msgspec.Struct, frozen=True, gc=False):
    """One element of a range vector at regular times, oldest first; None where it has no value."""

    labels: Mapping[str, str]
    values: tuple[float | None, ...]


class Answer(msgspec.Struct, frozen=True):
    """An instant vector, with the warnings about its completeness.

    `evaluated_at` is by the clock of Prometheus, None without any series.
    """

    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()
    evaluated_at: datetime | None = None


class RangeAnswer(msgspec.Struct, frozen=True):
    """A range vector, with the warnings about its completeness."""

    grids: tuple[Grid, ...]
    warnings: tuple[str, ...] = ()
