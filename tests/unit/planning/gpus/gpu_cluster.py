"""Nodes with GPUs and pods that hold them, in one line each."""

from collections.abc import Iterable
from typing import Any

import msgspec

from desched.model.cluster import ClusterState, Node, Pod
from desched.model.gpus import ClusterGpus
from desched.planning.gpus.survey import survey
from tests.builders import amounts, context_of, node, pod

GPU = "nvidia.com/gpu"


def gpu_node(name: str, gpus: int = 8, cpu: float = 64, **fields: Any) -> Node:
    size = msgspec.structs.replace(amounts(cpu, 256, **{GPU: gpus}), pods=110)
    return node(name, **({"capacity": size, "allocatable": size} | fields))


def gpu_pod(name: str, on: str = "", gpus: int = 1, cpu: float = 1, **fields: Any) -> Pod:
    wanted = {GPU: gpus} if gpus else {}
    return pod(name, on=on, request=amounts(cpu, 1, **wanted), **fields)


def surveyed(nodes: Iterable[Node], pods: Iterable[Pod] = (), **cluster: Any) -> ClusterGpus:
    found = survey(context_of(ClusterState(tuple(nodes), tuple(pods), **cluster)))
    assert found is not None
    return found
