"""The fragmentation of GPUs after moves that are only planned."""

from functools import cached_property

from desched.planning.arrays import Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.filters.node_constraints import NodeFilter
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.placement.free_capacity import FreeCapacity
from desched.plugins.gpus.fragmentation import PodClasses
from desched.plugins.gpus.load import GpuLoad
from desched.plugins.gpus.whole_gpus import WholeGpus


class Fragmented:
    """Measures what is idle of GPUs and of no use, in GPUs, on all nodes of a plan."""

    def __init__(self, context: EligibilityContext, arrays: NodeArrays) -> None:
        self._context = context
        self._arrays = arrays

    def gpus(self, free: FreeCapacity) -> float:
        """The fragmentation in this state."""
        idle = self._gpus.idle(free.requests).sum(axis=0)
        per_node = self._classes.fragmentation(idle, free.requests, self._nodes)
        return float(per_node[self._counted].sum())

    @cached_property
    def _gpus(self) -> WholeGpus:
        loads = GpuLoad.of(self._context.book.snapshot.load.extras).nodes
        return WholeGpus(self._context.cluster, self._arrays, loads)

    @cached_property
    def _counted(self) -> Mask:
        return self._gpus.counted & (self._gpus.total > 0)

    @cached_property
    def _classes(self) -> PodClasses:
        names = (n for n, counts in zip(self._arrays.names, self._counted, strict=True) if counts)
        return PodClasses.of(self._context.cluster, names)

    @cached_property
    def _nodes(self) -> NodeFilter:
        return NodeFilter(self._arrays)
