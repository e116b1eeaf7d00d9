"""Small objects with which a plugin is tested."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from desched.model.cluster import (
    ClusterState,
    Node,
    Owner,
    Pod,
    SchedulingClass,
    Workload,
)
from desched.model.resources import Amounts
from desched.plugin_api import View

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""The time of views, a Monday."""

_LONG_AGO = NOW - timedelta(days=30)


def a_node(name: str = "node-1", **fields: Any) -> Node:
    """A Ready node of 4 cores and 16 GiB; `fields` are those of `Node`."""
    size = Amounts(cpu_millicores=4000, memory_bytes=16 << 30, pods=110)
    given = {"labels": {}, "created_at": _LONG_AGO, "capacity": size, "allocatable": size}
    return Node(**{"name": name, "uid": name, **given, **fields})


def a_pod(name: str = "web-1", **fields: Any) -> Pod:
    """A Ready pod of the Deployment `web` on node-1; `fields` are those of `Pod`."""
    given = {
        "namespace": "default",
        "uid": name,
        "node": "node-1",
        "scheduling": SchedulingClass(Amounts(cpu_millicores=100, memory_bytes=128 << 20)),
        "owner": Owner("ReplicaSet", "web", "web"),
        "created_at": _LONG_AGO,
        "started_at": _LONG_AGO,
    }
    return Pod(**{"name": name, **given, **fields})


def a_workload(name: str = "web", **fields: Any) -> Workload:
    """The Deployment of each `a_pod()`, with three replicas; `fields` are those of `Workload`."""
    given = {"kind": "Deployment", "namespace": "default", "uid": name, "desired_replicas": 3}
    return Workload(**{"name": name, **given, **fields})


def a_view(
    nodes: Iterable[Node] = (),
    workloads: Iterable[Workload] = (),
    namespaces: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    now: datetime = NOW,
) -> View:
    """A cluster with these objects, or else `a_node()` and `a_workload()`; namespaces by labels."""
    by_controller = {
        (each.namespace, each.uid): each for each in tuple(workloads) or (a_workload(),)
    }
    cluster = ClusterState(tuple(nodes) or (a_node(),), (), by_controller, namespaces=namespaces)
    return View(cluster, now)
