"""Decoded answers of Prometheus."""

from collections.abc import Mapping
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

S = TypeVar("S")


class Series(msgspec.Struct, frozen=True, gc=False):
    """One element of an instant vector, evaluated `at` these Unix seconds."""

    labels: Mapping[str, str]
    value: float
    at: float


class Grid(msgspec.Struct, frozen=True, gc=False):
    """One element of a range vector at regular times, oldest first; None where it has no value."""

    labels: Mapping[str, str]
    values: tuple[float | None, ...]


class Answer(msgspec.Struct, Generic[S], frozen=True):
    """A vector, with the warnings about its completeness.

    `evaluated_at` is by the clock of Prometheus, None for a range and without any series.
    """

    series: tuple[S, ...]
    warnings: tuple[str, ...] = ()
    evaluated_at: datetime | None = None
