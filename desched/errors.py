"""Errors, by what the caller should do.

DeschedError
├── ConfigurationError     a person must fix something: do not start, exit 2
├── ObservationError       the cluster or Prometheus could not be read: skip this cycle, exit 3
│   ├── AnswerTooSlow      an answer took longer than it may: request less at a time
│   └── UnusableAnswer     something answers, but without data: correct how it is asked
│       └── AnswerTooLarge an answer is larger than allowed: request less at a time
├── LeaseError             the holder of the lease is unknown: try again, act only while certain
│   └── LeaseRefused       the account lacks a right: a run that does not last gives up
└── StopActing             a result is unknown: start no further eviction in this cycle
    ├── StateConflict      somebody else changed the state: load it and decide again
    └── StateRefused       the state cannot be written until a person changes something

Expected answers (a budget refuses, a pod is gone) are values, not exceptions. Every other exception
is a bug (exit 1).
"""

from enum import StrEnum


class DeschedError(Exception):
    """An expected failure; its text is one sentence for a person."""


class ConfigurationError(DeschedError):
    """The settings or the policy are invalid until a person changes them."""


class ObservationSource(StrEnum):
    """What could not be read."""

    CLUSTER = "cluster"
    PROMETHEUS = "prometheus"


class ObservationError(DeschedError):
    """The cluster or its load could not be read, so nothing can be decided."""

    def __init__(self, source: ObservationSource, message: str) -> None:
        super().__init__(message)
        self.source = source


class UnusableAnswer(ObservationError):  # noqa: N818  (named for what the caller reads)
    """Something answers at the address, but not with data that can be used."""


class AnswerTooSlow(ObservationError):  # noqa: N818  (named for what the caller reads)
    """An answer did not end in time; a smaller part may."""


class AnswerTooLarge(UnusableAnswer):
    """An answer is larger than allowed; a smaller part may not be."""


class LeaseError(DeschedError):
    """The lease could not be read or written; a write may have taken effect."""


class LeaseRefused(LeaseError):  # noqa: N818  (named for what happened)
    """The account may not use the lease until a person grants that."""


class StopActing(DeschedError):  # noqa: N818  (named for what the caller does)
    """The result of an eviction or a write is unknown."""


class StateConflict(StopActing):
    """Somebody else changed the state after it was read, so nothing was written."""


class StateRefused(StopActing):
    """The state was not written, and cannot be until a person changes something."""
