"""Measured load of nodes and pods, and what could not be known of it."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from desched.model.resources import Resource


class UnknownReason(StrEnum):
    """Why a node's load cannot be trusted; such a node is neither source nor destination."""

    ABSENT = "absent"
    STALE = "stale"
    WINDOW_NOT_COVERED = "window_not_covered"
    NOT_FINITE = "not_finite"
    IMPLAUSIBLE = "implausible"
    CONTRADICTORY = "contradictory"


class Level(msgspec.Struct, frozen=True, gc=False):
    """Mean load over a window that ends now, as a share of capacity (1.0 is all of it)."""

    window_seconds: int
    ratio: float


class Measured(msgspec.Struct, frozen=True, gc=False):
    """A load that can be trusted, one level for each window of the policy, shortest first."""

    levels: tuple[Level, ...]
    age_seconds: float = 0.0


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """A load that cannot be trusted."""

    reason: UnknownReason
    detail: str = ""


class PodUsage(msgspec.Struct, frozen=True, gc=False):
    """Mean usage of a pod, one value for each window of the resource, shortest first.

    An empty tuple means not measured; never zero instead.
    """

    cpu_millicores: tuple[float, ...] = ()
    memory_bytes: tuple[float, ...] = ()


class LoadHistory(msgspec.Struct, frozen=True, gc=False):
    """Load at regular points of the recent past, oldest first; the last point is now.

    Each is the mean over the shortest window that ends there, as a share of capacity, or None
    where nothing is known of it.
    """

    step_seconds: int
    ratios: tuple[float | None, ...]


class LoadProblem(StrEnum):
    """Why Prometheus' answer as a whole cannot be acted on."""

    PARTIAL_DATA = "partial_data"
    SEVERAL_CLUSTERS = "several_clusters"


class ClusterLoad(msgspec.Struct, frozen=True, gc=False):
    """The load of the whole cluster.

    `nodes` has an entry for each node and each of CPU and memory that the policy watches.
    `pods` is keyed by (namespace, name). `problems` forbid any eviction. `unresolved_series`
    counts series that belong to no known node.

    `history` covers the time for which load must last, and has no node of which nothing is known.
    `destination_ratios` has a value for each of the rule's destination windows, None where it is
    not known. `throttled` pods want more CPU than their limit lets them use. `server_times` are
    the source's clock at its earliest and its latest evaluation, None if it evaluated nothing.
    """

    nodes: Mapping[str, Mapping[Resource, Measured | Unknown]]
    pods: Mapping[tuple[str, str], PodUsage]
    problems: tuple[tuple[LoadProblem, str], ...] = ()
    unresolved_series: int = 0
    history: Mapping[str, Mapping[Resource, LoadHistory]] = {}
    destination_ratios: Mapping[str, Mapping[Resource, tuple[float | None, ...]]] = {}
    throttled: frozenset[tuple[str, str]] = frozenset()
    server_times: tuple[datetime, datetime] | None = None
