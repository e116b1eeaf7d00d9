"""Nodes and pods as the resolution of series needs them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from desched.model.cluster import ClusterState, Node, Pod, SchedulingClass
from desched.model.resources import Amounts
from tests.unit.adapters.prometheus.fake_server import EVALUATED_AT

NOW = datetime.fromtimestamp(EVALUATED_AT, UTC)


def node(name: str, *addresses: str, age_seconds: float = 86_400, **fields: Any) -> Node:
    born = NOW - timedelta(seconds=age_seconds)
    fields = {"labels": {}, **fields}
    return Node(
        name,
        f"uid-{name}",
        born,
        fields.pop("labels"),
        fields.pop("capacity", Amounts()),
        Amounts(),
        addresses=addresses,
        **fields,
    )


def pod(namespace: str, name: str, on: str = "", age_seconds: float = 86_400) -> Pod:
    born = NOW - timedelta(seconds=age_seconds)
    return Pod(namespace, name, f"uid-{name}", SchedulingClass(Amounts()), born, node=on)


def cluster(*nodes: Node, pods: tuple[Pod, ...] = ()) -> ClusterState:
    return ClusterState(nodes=nodes, pods=pods)
