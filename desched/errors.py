"""What can go wrong, split by what the caller should do about it.

DeschedError
├── ConfigurationError     a person must fix something: refuse to start, exit 2
├── ObservationError       the cluster or Prometheus could not be seen: skip this cycle, exit 3
├── LeaseError             who holds the lease is not known: try again, act only while it is certain
└── StopActing             an answer was not understood: begin no further eviction in this cycle
    ├── StateConflict     somebody else changed the state: load it, and judge again
    └── StateRefused      the state cannot be written until a person grants or creates something

Expected answers (a budget refuses, a pod is gone) are values, not exceptions; anything that is not
a DeschedError is a bug (exit 1).
"""

from enum import StrEnum


class DeschedError(Exception):
    """A failure that desched understands; its text is one sentence for a person."""


class ConfigurationError(DeschedError):
    """Settings or policy cannot be used until a person changes them."""


class ObservationSource(StrEnum):
    """Who could not be observed."""

    CLUSTER = "cluster"
    PROMETHEUS = "prometheus"


class ObservationError(DeschedError):
    """The state of the cluster or its load could not be read, so nothing may be decided."""

    def __init__(self, source: ObservationSource, message: str) -> None:
        super().__init__(message)
        self.source = source


class LeaseError(DeschedError):
    """The lease could not be read or written; if it was being written, it may have been."""


class StopActing(DeschedError):  # noqa: N818  (named for what the caller does)
    """An eviction's answer was not understood; the state of the pod is unknown."""


class StateConflict(StopActing):
    """Somebody else changed the state since it was read, so nothing was written."""


class StateRefused(StopActing):
    """The state was not written, and will not be until a person changes something."""
