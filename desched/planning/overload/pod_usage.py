"""Pod usage, measured and expected."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from desched.model.cache import cached
from desched.model.cluster import ControllerKey, Pod
from desched.model.groups import grouped
from desched.model.load import DeviceLoad, DeviceUsage, Measured, PodUsage
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.policy.policy import Policy

SATURATED_RATIO = 0.95
"""If a node uses this share of its CPU, its pods get less than they need."""

HIDDEN_DEMAND_FACTOR = 1.5
"""The assumed demand of a pod that is short of CPU, as a multiple of its usage."""

TRUSTED_SHARE = 0.2
"""A young pod's rate is scaled up to the whole window if it has run for this share of it."""


def seen_share(pod: Pod, window_seconds: int, now: datetime) -> float:
    """The share of a window that ends now, 0 to 1, in which the pod has been running."""
    if window_seconds <= 0:
        return 1.0
    age_seconds = (now - (pod.started_at or pod.created_at)).total_seconds()
    return min(1.0, max(0.0, age_seconds / window_seconds))


class UsageBook(msgspec.Struct, frozen=True, dict=True):
    """Usage of every pod by resource and window, in millicores, bytes, devices, and 1 for a pod.

    The usage of some pods is not read, because it decides nothing (see `needed_pods`).
    """

    snapshot: Snapshot
    policy: Policy
    now: datetime

    def has_read(self, node: str) -> bool:
        """Whether the usage of the pods on this node has been read."""
        read = self.snapshot.load.pods_of
        return read is None or node in read.nodes

    def has_read_of(self, pod: Pod) -> bool:
        """Whether the usage of this pod has been read; it may be absent all the same."""
        read = self.snapshot.load.pods_of
        return read is None or read.has(pod)

    @cached_property
    def windows(self) -> Mapping[Resource, tuple[int, ...]]:
        """The windows of each watched resource in seconds; 0 means now, for the number of pods."""
        return {rule.resource: rule.windows_seconds or (0,) for rule in self.policy.rules}

    @cached_property
    def longest_window_seconds(self) -> int:
        """The longest window of sources."""
        return self.policy.longest_window_seconds

    def measured(self, pod: Pod, resource: Resource) -> tuple[float, ...]:
        """Mean usage in each window; empty if it was not measured."""
        if resource is Resource.PODS:
            return (1.0,)
        if resource is not Resource.CPU and resource is not Resource.MEMORY:
            used = self._device_usage(pod, resource)
            return used.total if used else ()
        usage = self.snapshot.load.pods.get((pod.namespace, pod.name))
        if usage is None:
            return ()
        return usage.cpu_millicores if resource is Resource.CPU else usage.memory_bytes

    def _device_usage(self, pod: Pod, resource: Resource) -> DeviceUsage | None:
        """Return the usage of devices, which is read of all pods, or None if not measured."""
        load = self.device_loads.get(resource)
        if load is None or load.uses(pod.scheduling.requests):
            return load.of_pod(pod) if load is not None else None
        nothing = (0.0,) * len(self.windows.get(resource, ()))
        return DeviceUsage(nothing, nothing)

    def relief(self, pod: Pod, resource: Resource) -> tuple[float, ...]:
        """The usage in each window that other pods gain if the pod leaves; empty if not measured.

        The time of a device that the pod has alone is of use to no other pod.
        """
        used = self._device_usage(pod, resource) if resource in self.device_loads else None
        return used.shared if used else self.measured(pod, resource)

    @cached_property
    def device_loads(self) -> Mapping[Resource, DeviceLoad]:
        """What plugins have measured, which is read of all pods."""
        types = (plugin.load for plugin in self.policy.plugins if plugin.load is not None)
        return {each.resource: each.of(self.snapshot.load.extras) for each in types}

    def usages(self, pods: Iterable[Pod]) -> list[PodUsage]:
        """Return the measured usage of these pods, whose nodes must be read; fast for many."""
        load = self.snapshot.load.pods
        usages_found = [load.get((pod.namespace, pod.name)) for pod in pods]
        return [usage for usage in usages_found if usage is not None]

    def demand(self, pod: Pod, resource: Resource) -> float:
        """The usage that a destination is charged: the highest over the windows.

        If the pod is short of CPU, on its node or because of its limit, it needs more than it uses.
        Then the usage of siblings with enough CPU counts if it is higher; without such siblings,
        half of the usage is added.
        """
        used = max(self.measured(pod, resource), default=0.0)
        if resource is not Resource.CPU or not self.is_short_of_cpu(pod):
            return used
        siblings = self._sibling_mean(pod, resource)
        return used * HIDDEN_DEMAND_FACTOR if siblings is None else max(used, siblings)

    def charge(self, pod: Pod) -> dict[Resource, float]:
        """The usage that a destination is charged for a pod, for each watched resource."""
        return {rule.resource: self.demand(pod, rule.resource) for rule in self.policy.rules}

    def is_short_of_cpu(self, pod: Pod) -> bool:
        """Whether its node or its limit keeps it from the CPU that it needs."""
        if pod.node in self._saturated_nodes:
            return True
        throttled = self.snapshot.load.throttled
        return bool(throttled) and (pod.namespace, pod.name) in throttled

    @cached_property
    def _saturated_nodes(self) -> frozenset[str]:
        return frozenset(
            name
            for name, loads in self.snapshot.load.nodes.items()
            if isinstance(cpu := loads.get(Resource.CPU), Measured)
            and max(level.ratio for level in cpu.levels) >= SATURATED_RATIO
        )

    def seen_share(self, pod: Pod, window_seconds: int) -> float:
        """The share of the window, 0 to 1, in which the pod has been running."""
        return seen_share(pod, window_seconds, self.now)

    def expected(self, pod: Pod, resource: Resource) -> float:
        """The usage of a pod that the windows do not fully show.

        The usage of its siblings, else its own usage scaled up, else its request; always the last
        where the usage of the siblings is not read.
        """
        if resource is Resource.PODS:
            return 1.0
        devices = self.device_loads.get(resource)
        if devices is not None and not devices.uses(pod.scheduling.requests):
            return 0.0
        siblings = self._sibling_mean(pod, resource)
        if siblings is not None:
            return siblings
        measured = self.measured(pod, resource) if self._has_read_siblings(pod) else ()
        share = self.seen_share(pod, self.windows[resource][0])
        if measured and share >= TRUSTED_SHARE:
            # The mean of memory is over existing samples only; the CPU rate is over the window.
            return measured[0] / share if resource is Resource.CPU else measured[0]
        requests = pod.scheduling.requests
        if devices is not None:
            return float(devices.count(requests))
        is_cpu = resource is Resource.CPU
        return float(requests.cpu_millicores if is_cpu else requests.memory_bytes)

    def unseen_on(self, node: str, resource: Resource, window_seconds: int) -> float:
        """The usage of pods that have arrived on a node, as far as the window does not show it."""
        young = self.young_by_node.get(node)
        if young is None:
            return 0.0
        return math.fsum(
            self.expected(pod, resource) * (1.0 - share)
            for pod in young
            if not pod.deleting and (share := self.seen_share(pod, window_seconds)) < 1.0
        )

    @cached_property
    def young_by_node(self) -> Mapping[str, Sequence[Pod]]:
        """The pods that are younger than the longest window, also of destinations, by node."""
        further = (w.window_seconds for r in self.policy.rules for w in r.destination_windows)
        longest_seconds = max((self.policy.longest_window_seconds, *further))
        since = self.now - timedelta(seconds=longest_seconds)
        return grouped(
            (pod.node, pod)
            for pods in self.snapshot.cluster.pods_by_node.values()
            for pod in pods
            if (pod.started_at or pod.created_at) > since
        )

    def _sibling_mean(self, pod: Pod, resource: Resource) -> float | None:
        """Return the mean usage of siblings with usable measurements; None if they are unread."""
        controller = pod.controller
        if controller is None or not self._has_read_siblings(pod):
            return None
        total, count = self._known_usage(controller, resource)
        own = self._usable(pod, resource)
        if own is not None and pod.node and not pod.finished:
            total, count = total - own, count - 1
        return total / count if count else None

    def _has_read_siblings(self, pod: Pod) -> bool:
        controller = pod.controller
        return self.has_read_of(pod) if controller is None else self._has_read_all(controller)

    @cached
    def _has_read_all(self, controller: ControllerKey) -> bool:
        """Whether the usage of all its pods has been read."""
        return all(map(self.has_read_of, self._pods_of(controller)))

    @cached
    def _known_usage(self, controller: ControllerKey, resource: Resource) -> tuple[float, int]:
        """Sum and count of usable measurements of its pods; cached, as pods may be many."""
        values = [self._usable(pod, resource) for pod in self._pods_of(controller)]
        amounts = [used for used in values if used is not None]
        return math.fsum(amounts), len(amounts)

    def _pods_of(self, controller: ControllerKey) -> Sequence[Pod]:
        return self.snapshot.cluster.pods_by_controller.get(controller, ())

    def _usable(self, pod: Pod, resource: Resource) -> float | None:
        """The usage of a pod if all windows fully show it, and it is not short of CPU."""
        if resource is Resource.CPU and self.is_short_of_cpu(pod):
            return None
        if self.seen_share(pod, self.windows[resource][-1]) < 1.0:
            return None
        return max(self.measured(pod, resource), default=None)
