"""Loads that plugins measure with Prometheus."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from desched.model.cluster import ClusterState
from desched.model.load import DeviceLoad
from desched.model.snapshot import Snapshot
from desched.planning.plugins import Plugin
from desched.policy.policy import Policy

Labels = Mapping[str, str]


class Answers(NamedTuple):
    """The labels and values of the series that answer each query, evaluated `at` this time.

    `at` is None if there are no series. `node_of` finds the node of a series by its labels.
    """

    series: Mapping[str, Sequence[tuple[Labels, float]]]
    at: datetime | None
    node_of: Callable[[Labels], str | None]


class Measurement(ABC):
    """What a plugin asks Prometheus in one cycle, and what the answers mean.

    `queries` have names of letters, digits and underscores. `history` is the query for the mean
    load of each node over `window_seconds`, the shortest window; empty if nothing needs the past.
    """

    queries: Mapping[str, str]
    history: str
    window_seconds: int

    @abstractmethod
    def load(self, answers: Answers) -> DeviceLoad:
        """The load by the answers, which are complete."""

    @abstractmethod
    def unknown(self, doubt: str) -> DeviceLoad:
        """The load if there is no complete answer."""


class LoadCheck(NamedTuple):
    """What `desched doctor` says of a load; `fix` is empty if all is well."""

    result: str
    fix: str = ""
    details: tuple[str, ...] = ()


class MeasuringPlugin(Plugin, frozen=True):
    """A plugin that measures a load of its own."""

    def measurement(self, policy: Policy, cluster: ClusterState) -> Measurement | None:
        """How it measures its load; None if there is nothing to measure."""
        raise NotImplementedError

    def load_check(self, policy: Policy, snapshot: Snapshot) -> LoadCheck:
        """Whether what the policy asks of the load is measured."""
        raise NotImplementedError
