"""Which nodes have no GPU time left for a further pod, or none that is known."""

from functools import cached_property

from desched.model.cluster import Node, Pod
from desched.model.devices import has_nvidia_gpu
from desched.model.load import Measured
from desched.planning.arrays import Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays


class GpuLimits:
    """The nodes whose GPUs are above the policy's `gpuCeiling`, for pods that request one."""

    def __init__(self, context: EligibilityContext, arrays: NodeArrays) -> None:
        self._ceiling_ratio = context.policy.gpu_ceiling_ratio
        self._loads = context.book.snapshot.load.gpus
        self._arrays = arrays

    def busy(self, pod: Pod) -> Mask:
        """The nodes that must not take the pod. Do not modify."""
        limited = self._ceiling_ratio is not None and has_nvidia_gpu(pod.scheduling.requests)
        return self._busy if limited else self._none

    @cached_property
    def _none(self) -> Mask:
        return self._arrays.none()

    @cached_property
    def _busy(self) -> Mask:
        return self._arrays.where(self._is_busy)

    def _is_busy(self, node: Node) -> bool:
        load = self._loads.get(node.name)
        if not isinstance(load, Measured) or self._ceiling_ratio is None:
            return True
        return max(level.ratio for level in load.levels) > self._ceiling_ratio
