"""What out-of-tree plugins import; docs/plugins/your-own.md is their manual.

What it documents keeps name and meaning for as long as INTERFACE_VERSION stays the same.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

import msgspec

from desched.model.cluster import ClusterState, Node, Owner, Pod, Taint, Workload

__all__ = ["INTERFACE_VERSION", "Node", "Owner", "Plugin", "Pod", "Taint", "View", "Workload"]

INTERFACE_VERSION = 1
"""The version of this interface; desched refuses plugins that state another one."""


class View:
    """What a plugin sees beside the pod that it judges; `now` is the time of the cycle."""

    def __init__(self, cluster: ClusterState, now: datetime) -> None:
        self._cluster = cluster
        self.now = now

    def workload_of(self, pod: Pod) -> Workload | None:
        """The controller that replaces the pod; None if there is none that desched understands."""
        return self._cluster.workload_of(pod)

    def node_of(self, pod: Pod) -> Node | None:
        """The node that the pod runs on; None if it is pending or the node is not known."""
        return self._cluster.node_by_name.get(pod.node)

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        return self._cluster.namespaces.get(namespace, {})


class Plugin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A rule and a limit on places; each may be left out.

    The fields of a subclass are the args in the policy: `quiet_hours` is `quietHours` there. Their
    values must be hashable. `interface` is the INTERFACE_VERSION that the plugin is written for.
    Methods must be pure: the same arguments give the same answer. If one raises an exception, the
    pod stays.
    """

    interface: ClassVar[int]

    def stays(self, pod: Pod, view: View) -> str | None:
        """Why the pod must not be evicted, as people read it; None if it may be."""
        return None

    def avoids(self, pod: Pod, node: Node, view: View) -> str | None:
        """Why the pod must not land on the node, as people read it; None if it may."""
        return None
