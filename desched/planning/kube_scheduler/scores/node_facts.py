"""The parts of scores that depend on nodes only; moves do not change them.

Results are cached; callers must not modify them.
"""

from functools import cached_property

import numpy as np

from desched.model.cache import cached
from desched.model.cluster import Effect, Taint, Toleration
from desched.model.groups import grouped
from desched.model.selectors import NodeSelectorTerm
from desched.planning.arrays import Ints, Mask, Positions
from desched.planning.kube_scheduler.node_arrays import NodeArrays

ARCHITECTURE_LABEL = "kubernetes.io/arch"

WeightedTerms = tuple[tuple[int, NodeSelectorTerm], ...]


class NodeFacts:
    """Sizes, soft taints, preferred labels, images and architectures of all nodes."""

    def __init__(self, arrays: NodeArrays) -> None:
        self._arrays = arrays

    @cached_property
    def allocatable(self) -> tuple[Ints, Ints]:
        """CPU in millicores and memory in bytes, each of shape (nodes,)."""
        amounts = [node.allocatable for node in self._arrays.nodes]
        return (
            np.array([amount.cpu_millicores for amount in amounts], dtype=np.int64),
            np.array([amount.memory_bytes for amount in amounts], dtype=np.int64),
        )

    @cached
    def soft_taints(self, tolerations: tuple[Toleration, ...]) -> Ints:
        """Count the PreferNoSchedule taints of each node that are not tolerated."""
        counts = np.zeros(len(self._arrays), dtype=np.int64)
        for taints, positions in self._by_soft_taints.items():
            counts[positions] = sum(
                not any(toleration.tolerates(taint) for toleration in tolerations)
                for taint in taints
            )
        return counts

    @cached_property
    def steered(self) -> Mask:
        """The nodes with desched's own soft taint."""
        return self._arrays.where(lambda node: node.avoided and node.steered_until is not None)

    @cached_property
    def _by_soft_taints(self) -> dict[tuple[Taint, ...], list[int]]:
        return grouped(
            (soft, i)
            for i, node in enumerate(self._arrays.nodes)
            if (soft := tuple(t for t in node.taints if t.effect == Effect.PREFER_NO_SCHEDULE))
        )

    @cached
    def preferred(self, terms: WeightedTerms) -> Ints:
        """Sum the weights of the preferred terms that each node matches."""
        sums = np.zeros(len(self._arrays), dtype=np.int64)
        for weight, term in terms:
            sums += weight * self._arrays.matching(term)
        return sums

    @cached
    def image_bytes(self, images: tuple[str, ...]) -> Ints:
        """The bytes of these images on each node, each scaled by the share of nodes with it."""
        total = np.zeros(len(self._arrays), dtype=np.int64)
        for where, sizes in (self._images[i] for i in images if i in self._images):
            total[where] += (sizes * (len(where) / len(self._arrays))).astype(np.int64)
        return total

    @cached_property
    def _images(self) -> dict[str, tuple[Positions, Ints]]:
        """The nodes with an image and its size there, by the name of the image."""
        by_image = grouped(
            (name, (i, size))
            for i, node in enumerate(self._arrays.nodes)
            for name, size in node.images.items()
        )
        return {
            name: (
                np.array([i for i, _ in entries], dtype=np.intp),
                np.array([size for _, size in entries], dtype=np.int64),
            )
            for name, entries in by_image.items()
        }

    @cached_property
    def architectures(self) -> tuple[str, ...]:
        """The architecture of each node, empty without its label."""
        return tuple(n.labels.get(ARCHITECTURE_LABEL, "") for n in self._arrays.nodes)

    @cached_property
    def distinct_architectures(self) -> frozenset[str]:
        """All architectures of the cluster."""
        return frozenset(self.architectures)
