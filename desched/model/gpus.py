"""What is idle of the GPUs of a cluster, and what it is good for."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

SIZES = (1, 2, 4, 8)
"""The numbers of GPUs on one node for which places are counted."""


class GpusLeftOut(StrEnum):
    """Why the GPUs of a node are not counted."""

    SHARED = "shared_gpus"  # what is free of each device is not known
    CLOSED = "not_schedulable"  # the node takes no pods


class NodeGpus(msgspec.Struct, frozen=True, gc=False):
    """The whole GPUs of a node.

    `places` has, for each of SIZES, how many pods with so many GPUs would find enough idle ones; it
    counts GPUs only, not CPU or memory. `fragmented` is the fragmentation, in GPUs. Of a node that
    is `left_out`, only `gpus` has a meaning, and only if they are whole.
    """

    node: str
    gpus: int
    idle: int = 0
    places: tuple[int, ...] = ()
    fragmented: float = 0.0
    left_out: GpusLeftOut | None = None


class DomainGpus(msgspec.Struct, frozen=True, gc=False):
    """The GPUs of the nodes of a placement domain that are not left out.

    `level` is the label, or what stands for the HyperNodes of a tier, `domain` the values from the
    widest level to this one.
    """

    level: str
    domain: str
    nodes: int
    gpus: int
    idle: int
    places: tuple[int, ...]
    fragmented: float


class ClusterGpus(msgspec.Struct, frozen=True, gc=False):
    """The GPUs of a cluster; sums are over the nodes that are not left out."""

    nodes: tuple[NodeGpus, ...]
    domains: tuple[DomainGpus, ...] = ()

    @property
    def counted(self) -> tuple[NodeGpus, ...]:
        """The nodes that are not left out."""
        return tuple(each for each in self.nodes if each.left_out is None)

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return sum(each.gpus for each in self.counted)

    @property
    def idle(self) -> int:
        """The number of GPUs that no pod holds."""
        return sum(each.idle for each in self.counted)

    @property
    def fragmented(self) -> float:
        """The fragmentation, in GPUs."""
        return sum(each.fragmented for each in self.counted)

    @property
    def places(self) -> Mapping[int, int]:
        """The number of places by the number of GPUs on one node."""
        of_nodes = [each.places for each in self.counted]
        return {size: sum(each[i] for each in of_nodes) for i, size in enumerate(SIZES)}
