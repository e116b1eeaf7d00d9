"""Where a pod must not land, though the scheduler would place it there."""

import copy
from functools import cached_property

from desched.model.cluster import Pod
from desched.model.devices import has_nvidia_gpu
from desched.model.load import Unknown
from desched.model.resources import Resource
from desched.planning.arrays import Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.placement.domains import DomainLimits
from desched.planning.placement.model_caches import ModelLimits


class GpuLimits:
    """The nodes with GPUs of unknown load, if the policy has a threshold for it."""

    def __init__(self, context: EligibilityContext, arrays: NodeArrays) -> None:
        self._is_watched = Resource.GPU in context.book.windows
        self._loads = context.book.snapshot.load.gpus
        self._arrays = arrays

    def unknown(self, pod: Pod) -> Mask:
        """The nodes that must not take the pod. Do not modify."""
        limited = self._is_watched and has_nvidia_gpu(pod.scheduling.requests)
        return self._unknown if limited else self._none

    @cached_property
    def _none(self) -> Mask:
        return self._arrays.none()

    @cached_property
    def _unknown(self) -> Mask:
        return self._arrays.where(lambda node: isinstance(self._loads.get(node.name), Unknown))


class PlacementLimits:
    """The limits by placement domains, by caches of models, and by unknown load of GPUs.

    All pods are on a node. No mask may be modified.
    """

    def __init__(self, domains: DomainLimits, models: ModelLimits, gpus: GpuLimits) -> None:
        self.domains, self.models, self.gpus = domains, models, gpus
        self._may_download, self._loosened = False, 0

    @classmethod
    def of(cls, context: EligibilityContext, arrays: NodeArrays) -> "PlacementLimits":
        """The limits of one plan."""
        domains = DomainLimits(context, arrays)
        return cls(domains, ModelLimits(context, arrays), GpuLimits(context, arrays))

    def loosened(self, steps: int) -> "PlacementLimits":
        """The same, but pods may leave domains that they only prefer, see `preferred_steps`."""
        relaxed: PlacementLimits = copy.copy(self)
        relaxed._loosened = steps
        return relaxed

    def with_downloads(self) -> "PlacementLimits":
        """The same, but pods may download their models again where that is possible."""
        relaxed: PlacementLimits = copy.copy(self)
        relaxed._may_download = True
        return relaxed

    def outside(self, pod: Pod) -> Mask:
        """The nodes where the pod must not land."""
        return self.outside_domains(pod) | self.without_model(pod) | self.gpus.unknown(pod)

    def outside_domains(self, pod: Pod) -> Mask:
        """The nodes outside the placement domains of the pod."""
        return self.domains.outside(pod, loosened=self._loosened)

    def without_model(self, pod: Pod) -> Mask:
        """The nodes that lack a model of the pod."""
        return self.models.lacking(pod, may_download=self._may_download)

    def preferred_steps(self, pod: Pod) -> int:
        """In how many steps the pod may leave domains, see `DomainLimits.preferred_steps`."""
        return self.domains.preferred_steps(pod)

    def never_chosen(self, pod: Pod) -> Mask:
        """The nodes where the pod's own scheduler never puts its replacement."""
        return self.domains.never_chosen(pod)

    def domains_of(self, pod: Pod) -> str:
        """The placement domains of the pod; empty without any."""
        return self.domains.describe(pod)
