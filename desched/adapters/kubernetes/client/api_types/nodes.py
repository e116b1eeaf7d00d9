"""Nodes."""

import msgspec

from desched.api_objects.metadata import Condition, Int64, Named, Strings, Time, Wire


class Taint(Wire):
    key: str
    effect: str
    value: str | None = None


class NodeSpec(Wire):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeCondition(Condition):
    last_transition_time: Time | None = None


class NodeAddress(Wire):
    type: str
    address: str


class NodeInfo(Wire):
    operating_system: str | None = None


class ContainerImage(Wire):
    names: list[str] | None = None
    size_bytes: Int64 | None = None


class NodeStatus(Wire):
    capacity: Strings = None
    allocatable: Strings = None
    conditions: list[NodeCondition] | None = None
    addresses: list[NodeAddress] | None = None
    node_info: NodeInfo | None = None
    images: list[ContainerImage] | None = None


class Node(Named):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)
