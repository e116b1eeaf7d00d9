"""The load of GPUs of NVIDIA, and what pods use of them."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from desched.model.bounds import Usage
from desched.model.cluster import Node, Pod
from desched.model.devices import has_nvidia_gpu, nvidia_gpus
from desched.model.load import DeviceLoad, Measured
from desched.model.names import Namespace, PodName
from desched.model.resources import Resource


class GpuUsage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Mean usage of GPUs by a pod in each window, shortest first; 1.0 is all of one GPU.

    `shared` is that of GPUs that other pods use, too, `alone` that of all others.
    """

    shared: tuple[Usage, ...]
    alone: tuple[Usage, ...]

    @property
    def total(self) -> tuple[float, ...]:
        """The usage of all its GPUs in each window."""
        return tuple(map(sum, zip(self.shared, self.alone, strict=True)))


class GpuLoad(DeviceLoad, frozen=True):
    """The load of GPUs.

    `usages` has all pods whose usage of GPUs is known, by namespace and name, if the policy watches
    it.
    """

    plugin: ClassVar[str] = "gpus"
    resource: ClassVar[Resource] = Resource.GPU

    usages: Mapping[Namespace, Mapping[PodName, GpuUsage]] = {}

    def uses(self, pod: Pod) -> bool:
        """Whether the pod requests a GPU, or a part of one."""
        return has_nvidia_gpu(pod.scheduling.requests)

    def usage(self, pod: Pod) -> tuple[float, ...]:
        """The mean usage of all its GPUs by window; empty if not measured."""
        usage = self.of_pod(pod)
        return usage.total if usage else ()

    def shared_usage(self, pod: Pod) -> tuple[float, ...]:
        """That of GPUs that other pods use, too: the time of others is of use to no other pod."""
        usage = self.of_pod(pod)
        return usage.shared if usage else ()

    def are_shared_on(self, node: Node) -> bool:
        """Whether a node offers more GPUs than it has, whose load is known.

        A GPU that one pod has alone is not overloaded.
        """
        load = self.nodes.get(node.name)
        return isinstance(load, Measured) and 0 < load.devices < nvidia_gpus(node.allocatable)

    def has_usage_over(self, windows: int) -> bool:
        """Whether the usage of each pod has so many values."""
        usages = (usage for of_pods in self.usages.values() for usage in of_pods.values())
        return all(len(usage.shared) == len(usage.alone) == windows for usage in usages)

    def requested(self, pod: Pod) -> float:
        """The number of GPUs and MIG instances, or shares of one, that the pod requests."""
        return float(nvidia_gpus(pod.scheduling.requests))

    def of_pod(self, pod: Pod) -> GpuUsage | None:
        """What was measured of the pod."""
        return self.usages.get(pod.namespace, {}).get(pod.name)
