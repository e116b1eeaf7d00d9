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


class DeviceMeasures(NamedTuple):
    """How the load of devices is measured, if nodes have some.

    `queries` are those of a cycle, by names of letters, digits and underscores, and `mean` that for
    the mean load of each node over the shortest window. `measured` makes the load of all answers.
    `check` says whether what the policy asks of the load is measured.
    """

    queries: Callable[[Policy], Mapping[str, str]]
    mean: Callable[[Policy], str]
    measured: Callable[[Policy, ClusterState, Answers], DeviceLoad]
    check: Callable[[Policy, Snapshot], LoadCheck]


class MeasuringPlugin(Plugin, frozen=True):
    """A plugin that measures the load of devices."""

    load: ClassVar[type[DeviceLoad]]
    measures: ClassVar[DeviceMeasures]


def windows_of(policy: Policy, load: type[DeviceLoad]) -> tuple[int, ...]:
    """The windows of the policy for these devices, else the shortest one of all, in seconds."""
    return policy.windows(load.resource) or (policy.shortest_window_seconds,)
