"""Pods with GPUs do not land where the load of GPUs is unknown."""

from functools import cached_property

from desched.model.cluster import Pod
from desched.model.load import Unknown
from desched.model.resources import Resource
from desched.planning.arrays import Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.plugins import PlacementLimit
from desched.plugins.devices import has_nvidia_gpu
from desched.plugins.gpus.load import GpuLoad


class UnknownGpus(PlacementLimit):
    """The nodes with GPUs of unknown load, if the policy has a threshold for it."""

    words = "node(s) have GPUs of unknown load"

    def __init__(self, context: EligibilityContext, arrays: NodeArrays) -> None:
        self._is_watched = Resource.GPU in context.book.windows
        self._loads = GpuLoad.of(context.book.snapshot.load.extras).nodes
        self._arrays = arrays

    def outside(self, pod: Pod) -> Mask:
        """The nodes that must not take the pod. Do not modify."""
        limited = self._is_watched and has_nvidia_gpu(pod.scheduling.requests)
        return self._unknown if limited else self._none

    @cached_property
    def _none(self) -> Mask:
        return self._arrays.none()

    @cached_property
    def _unknown(self) -> Mask:
        return self._arrays.where(lambda node: isinstance(self._loads.get(node.name), Unknown))
