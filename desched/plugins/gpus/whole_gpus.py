"""The whole GPUs of nodes: how many each has, how many are idle, and where that is not known."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np

from desched.model.cluster import ClusterState, Node, Pod
from desched.model.load import Measured, Unknown
from desched.planning.arrays import Ints, Mask
from desched.planning.kube_scheduler.filters.resources import FreeRequests
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.plugins.devices import (
    SHARING_STRATEGY,
    is_whole_gpu,
    nvidia_gpus,
    summed_devices_of,
    whole_gpus,
)
from desched.plugins.gpus.facts import SIZES, GpusLeftOut

"""A label by which NVIDIA's GPU feature discovery says how pods share a GPU."""

_STRATEGIES = frozenset({"time-slicing", "mps"})

FRACTIONS = ("gpu-fraction", "gpu-memory", "runai-gpu-group")
"""Annotations and labels of a pod that has a part of a GPU from KAI."""


def nodes_with_gpus(cluster: ClusterState) -> Iterator[Node]:
    """The nodes that offer whole GPUs or parts of such."""
    for node in cluster.nodes:
        if whole_gpus(node.allocatable) or summed_devices_of(node.allocatable):
            yield node


class WholeGpus:
    """The whole GPUs of the nodes of `arrays`; the pods on them may change, these not.

    `total`, shape (nodes,), is what each node offers. `counted` are the nodes whose idle GPUs are
    known and may be used.
    """

    def __init__(
        self, cluster: ClusterState, arrays: NodeArrays, loads: Mapping[str, Measured | Unknown]
    ) -> None:
        """`loads` are the loads of GPUs by node, as far as they are known."""
        self._arrays = arrays
        nodes = arrays.nodes
        self.left_out = [
            _left_out(node, cluster.pods_by_node.get(node.name, ()), loads.get(node.name))
            for node in nodes
        ]
        self.total: Ints = np.array(
            [whole_gpus(node.allocatable) for node in nodes], dtype=np.int64
        )
        self.counted: Mask = np.array([each is None for each in self.left_out], dtype=bool)

    @cached_property
    def _resources(self) -> tuple[str, ...]:
        """The names of the resources that are whole GPUs."""
        offered = {node.allocatable.extended for node in self._arrays.nodes}
        return tuple(sorted({name for each in offered for name, _ in each if is_whole_gpu(name)}))

    def idle(self, requests: FreeRequests) -> Ints:
        """The idle GPUs by resource, shape (resources, nodes); 0 where they are not counted."""
        free = [np.maximum(requests.free_of(name), 0) * self.counted for name in self._resources]
        return np.array(free, dtype=np.int64).reshape(len(free), len(self._arrays))


def places(idle: Ints) -> Ints:
    """How many pods of each of SIZES find room on each node, shape (sizes, nodes).

    It counts GPUs only: a pod may find no CPU or memory beside them. `idle` has shape (resources,
    nodes); a pod has GPUs of one resource.
    """
    return np.array([(idle // size).sum(axis=0) for size in SIZES], dtype=np.int64)


def _left_out(
    node: Node, pods: Iterable[Pod], load: Measured | Unknown | None
) -> GpusLeftOut | None:
    if not node.ready or node.unschedulable or node.deleting:
        return GpusLeftOut.CLOSED
    return GpusLeftOut.SHARED if _is_shared(node, pods, load) else None


def _is_shared(node: Node, pods: Iterable[Pod], load: Measured | Unknown | None) -> bool:
    """Whether pods have parts of its GPUs, so that a count does not show what is free of each."""
    if node.labels.get(SHARING_STRATEGY) in _STRATEGIES or summed_devices_of(node.allocatable):
        return True
    if isinstance(load, Measured) and 0 < load.devices < nvidia_gpus(node.allocatable):
        return True  # it offers more than it has
    return any(
        summed_devices_of(pod.scheduling.requests)
        or any(key in pod.annotations or key in pod.labels for key in FRACTIONS)
        for pod in pods
    )
