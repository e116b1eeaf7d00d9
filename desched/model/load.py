"""Measured load of nodes and pods, and reasons why it is unknown."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

import msgspec

from desched.model.bounds import Count, Ratio, Time, Usage
from desched.model.cluster import ControllerKey, Node, Pod
from desched.model.extras import Extra
from desched.model.names import ForPeople, Namespace, NodeName, Plain, PodName
from desched.model.resources import Amounts, Resource


class UnknownReason(StrEnum):
    """Why a node's load is not trusted; such a node is neither source nor destination."""

    ABSENT = "absent"
    STALE = "stale"
    WINDOW_NOT_COVERED = "window_not_covered"
    NOT_FINITE = "not_finite"
    IMPLAUSIBLE = "implausible"
    CONTRADICTORY = "contradictory"
    PODS_ABOVE_NODE = "pods_above_node"


class Level(msgspec.Struct, frozen=True, gc=False):
    """Mean load over a window that ends now, as a share of capacity (1.0 is all of it)."""

    window_seconds: Count
    ratio: Ratio


class Measured(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="measured"):
    """A trusted load: one level for each window of the policy, shortest first.

    `pods_ratios` is, by window, the most that all pods of the node together can use, as a share of
    capacity; empty if it is not known. `kubelet_ratio` is the load over the shortest window by the
    kubelet's own figure, 0 without one; None if the load is not compared with it. `devices` is
    how many devices the load is of, 0 for CPU and memory.
    """

    levels: tuple[Level, ...]
    pods_ratios: tuple[float, ...] = ()
    kubelet_ratio: float | None = None
    devices: Count = 0


class Unknown(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="unknown"):
    """A load that is not trusted."""

    reason: UnknownReason
    detail: ForPeople = ""


class SeenLoad(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What was seen of a load, for people.

    `age_seconds` is that of the newest sample, None if it is not known. `levels` are those of a
    load that is not trusted, of the windows that have a value. `usable_in_seconds` is when its
    windows are covered if samples keep coming, None if that is not the problem.
    """

    age_seconds: Ratio | None = None
    levels: tuple[Level, ...] = ()
    usable_in_seconds: Ratio | None = None


class PodUsage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Mean usage of a pod in each window, shortest first; an empty tuple if not measured."""

    cpu_millicores: tuple[Usage, ...] = ()
    memory_bytes: tuple[Usage, ...] = ()


class DeviceUsage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Mean usage of devices by a pod in each window, shortest first; 1.0 is all of one device.

    `shared` is that of devices that other pods use, too, `alone` that of all others.
    """

    shared: tuple[Usage, ...]
    alone: tuple[Usage, ...]

    @property
    def total(self) -> tuple[float, ...]:
        """The usage of all its devices in each window."""
        return tuple(map(sum, zip(self.shared, self.alone, strict=True)))


class DeviceLoad(Extra, frozen=True):
    """The load of the devices of a resource, which a plugin measures.

    `nodes` has the mean over the devices of each node with some, over the windows of the resource,
    else over the shortest window. `usages` has all pods whose usage is known, if the policy watches
    the resource.
    """

    resource: ClassVar[Resource]
    nodes: Mapping[NodeName, Measured | Unknown] = {}
    usages: Mapping[Namespace, Mapping[PodName, DeviceUsage]] = {}

    @staticmethod
    def uses(amounts: Amounts) -> bool:
        """Whether there are such devices, or parts of them, among the amounts."""
        raise NotImplementedError

    @staticmethod
    def count(amounts: Amounts) -> int:
        """How many of the devices, or shares of one, are among the amounts."""
        raise NotImplementedError

    def of_pod(self, pod: Pod) -> DeviceUsage | None:
        """What was measured of a pod."""
        return self.usages.get(pod.namespace, {}).get(pod.name)

    @property
    def lengths(self) -> set[int]:
        """For how many windows it has the usage of pods."""
        usages = (usage for of in self.usages.values() for usage in of.values())
        return {len(values) for usage in usages for values in (usage.shared, usage.alone)}

    def are_shared_on(self, node: Node) -> bool:
        """Whether a node offers more devices than it has, whose load is known.

        A device that one pod has alone is not overloaded.
        """
        load = self.nodes.get(node.name)
        return isinstance(load, Measured) and 0 < load.devices < self.count(node.allocatable)


class PodPast(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Usage of a pod at the points of the nodes' history, oldest first, None where it is not known.

    Each value is the mean over the shortest window that ends there. An empty tuple if the resource
    was not measured at all. `node` is where the pod is or was, empty if that is not one node.
    """

    cpu_millicores: tuple[Usage | None, ...] = ()
    memory_bytes: tuple[Usage | None, ...] = ()
    node: NodeName = ""


class PodChoice(msgspec.Struct, frozen=True, gc=False):
    """Pods on some nodes, the pods of some controllers, and nodes with the sum of their pods.

    `pasts` are nodes with the past of each pod that is or was on them.
    """

    nodes: frozenset[NodeName] = frozenset()
    controllers: frozenset[ControllerKey] = frozenset()
    sums: frozenset[NodeName] = frozenset()
    pasts: frozenset[NodeName] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.has_pods or self.sums or self.pasts)

    @property
    def has_pods(self) -> bool:
        """Whether it has single pods."""
        return bool(self.nodes or self.controllers)

    def __or__(self, other: "PodChoice") -> "PodChoice":
        controllers = self.controllers | other.controllers
        return PodChoice(
            self.nodes | other.nodes,
            controllers,
            self.sums | other.sums,
            self.pasts | other.pasts,
        )

    def __sub__(self, other: "PodChoice") -> "PodChoice":
        controllers = self.controllers - other.controllers
        return PodChoice(
            self.nodes - other.nodes,
            controllers,
            self.sums - other.sums,
            self.pasts - other.pasts,
        )

    def has(self, pod: Pod) -> bool:
        """Whether it has this pod."""
        if pod.node in self.nodes:
            return True
        owner = pod.owner
        return owner is not None and (pod.namespace, owner.uid) in self.controllers


class LoadHistory(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Load at regular points of the recent past, and now, oldest first.

    Each ratio is the mean over the shortest window that ends there, None if unknown. The point
    before the last is `last_step_seconds` old, by default a step.
    """

    step_seconds: Count
    ratios: tuple[Ratio | None, ...]
    last_step_seconds: Count | None = None

    @property
    def ages_seconds(self) -> list[int]:
        """How old each point is."""
        last = self.step_seconds if self.last_step_seconds is None else self.last_step_seconds
        earlier = range(len(self.ratios) - 2, -1, -1)
        return [*(last + i * self.step_seconds for i in earlier), 0]


class LoadProblem(StrEnum):
    """Why the data as a whole is not trusted."""

    PARTIAL_DATA = "partial_data"
    SEVERAL_CLUSTERS = "several_clusters"


class ClusterLoad(msgspec.Struct, frozen=True, gc=False):
    """The load of the whole cluster.

    `nodes` has an entry for each node and for CPU and memory, if the policy watches them; for
    devices only where pods may share them and their load is known. `pods` has (namespace, name) as
    keys. `problems` forbid all evictions. `unresolved_series` counts series that belong to no known
    node.

    `history` has the points of the policy's `HistoryGrid`; nodes without any data have no entry.
    `destination_ratios` has a value for each of the rule's destination windows, None if unknown.
    `throttled` pods need more CPU than their limit allows. `server_times` is the source's clock at
    its earliest and its latest evaluation, None without any. `seen` and `last_hour` decide nothing;
    the latter is empty unless somebody looks.

    `pods` has the usage of the pods `pods_of`, None for all. For its `sums`, `pod_sums` has the
    usage of all pods of a node together, in millicores and bytes, by window; it is infinite if it
    is not known, and it may include pods that do not exist.

    `pod_pasts` has the pods that are, or were in the time of the history, on the nodes `pasts` of
    `pods_of`, with (namespace, name) as keys.

    `extras` has the loads that plugins measure, by the name of the plugin.
    """

    nodes: Mapping[NodeName, Mapping[Resource, Measured | Unknown]]
    pods: Mapping[tuple[Namespace, PodName], PodUsage]
    problems: tuple[tuple[LoadProblem, ForPeople], ...] = ()
    unresolved_series: Count = 0
    history: Mapping[NodeName, Mapping[Resource, LoadHistory]] = {}
    destination_ratios: Mapping[NodeName, Mapping[Resource, tuple[Ratio | None, ...]]] = {}
    throttled: frozenset[tuple[Namespace, PodName]] = frozenset()
    server_times: tuple[Time, Time] | None = None
    seen: Mapping[NodeName, Mapping[Resource, SeenLoad]] = {}
    last_hour: Mapping[NodeName, Mapping[Resource, LoadHistory]] = {}
    pods_of: PodChoice | None = None
    pod_sums: Mapping[NodeName, Mapping[Resource, tuple[float, ...]]] = {}
    pod_pasts: Mapping[tuple[Namespace, PodName], PodPast] = {}
    extras: Mapping[Plain, DeviceLoad] = {}
