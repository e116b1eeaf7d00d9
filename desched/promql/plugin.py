"""Loads of devices that plugins measure with Prometheus."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, NamedTuple

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


class LoadCheck(NamedTuple):
    """What `desched doctor` says of a load; `fix` is empty if all is well."""

    result: str
    fix: str = ""
    details: tuple[str, ...] = ()


class MeasuringPlugin(Plugin, frozen=True):
    """A plugin that measures the load of devices, if nodes have some; `load` is its type."""

    load: ClassVar[type[DeviceLoad]]

    def queries(self, policy: Policy) -> Mapping[str, str]:
        """The queries of a cycle, by names of letters, digits and underscores."""
        raise NotImplementedError

    def mean(self, policy: Policy) -> str:
        """The query for the mean load of each node over the shortest window."""
        raise NotImplementedError

    def measured(self, policy: Policy, cluster: ClusterState, answers: Answers) -> DeviceLoad:
        """The load by the answers, which are complete."""
        raise NotImplementedError

    def load_check(self, policy: Policy, snapshot: Snapshot) -> LoadCheck:
        """Whether what the policy asks of the load is measured."""
        raise NotImplementedError


def windows_of(policy: Policy, load: type[DeviceLoad]) -> tuple[int, ...]:
    """The windows of the policy for these devices, else the shortest one of all, in seconds."""
    return policy.windows(load.resource) or (policy.shortest_window_seconds,)
