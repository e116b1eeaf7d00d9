"""kube-scheduler's score plugins on arrays, with its own integer arithmetic.

The last axis of every array is the nodes. Axes before it are alternatives, which are scored at
once. Arrays of CPU and memory have these two in the axis before the nodes. `scored` marks the nodes
that the scheduler compares. Only these matter for normalization; the values of others mean nothing.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins at v1.36, `MaxNodeScore` 100.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from desched.planning.arrays import Floats, Ints, Mask, Positions

BEST = 100
_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

SMALLEST_IMAGE_BYTES = 23 * 2**20
LARGEST_CONTAINER_IMAGE_BYTES = 1000 * 2**20


class Capacity(msgspec.Struct, frozen=True):
    """Allocatable CPU and memory, shape (2, nodes), and derived values for divisions.

    `divisors` are the same amounts, at least 1. `counted`, shape (nodes,), is how many of the two
    resources a node has, at least 1; `compared` is 1 if it has both, else 0. Amounts are floats:
    these hold integers up to 2^53 exactly, and divide several times faster.
    """

    allocatable: Floats
    divisors: Floats
    counted: Floats
    compared: Floats

    @classmethod
    def of_nodes(cls, allocatable: Ints) -> "Capacity":
        """Nodes with these amounts, shape (2, nodes)."""
        counted = np.count_nonzero(allocatable, axis=0)
        return cls(
            allocatable.astype(float),
            np.maximum(allocatable, 1).astype(float),
            np.maximum(counted, 1).astype(float),
            (counted == len(allocatable)).astype(float),
        )

    def at(self, nodes: Positions) -> "Capacity":
        """The capacity of some nodes."""
        return Capacity(
            self.allocatable[:, nodes],
            self.divisors[:, nodes],
            self.counted[nodes],
            self.compared[nodes],
        )


def least_allocated(requested: Floats, capacity: Capacity) -> Ints:
    """The mean free share of both resources with the pod, in percent."""
    taken = np.minimum(requested, capacity.allocatable)
    return _mean_share(capacity.allocatable - taken, capacity)


def most_allocated(requested: Floats, capacity: Capacity) -> Ints:
    """The mean requested share of both resources with the pod, in percent."""
    return _mean_share(np.minimum(requested, capacity.allocatable), capacity)


def _mean_share(parts: Floats, capacity: Capacity) -> Ints:
    shares = np.floor(parts * float(BEST) / capacity.divisors)
    return _percent((shares[..., 0, :] + shares[..., 1, :]) / capacity.counted)


def balance(requested: Floats, capacity: Capacity) -> Ints:
    """How similar the requested shares of CPU and memory are; 100 if they are equal."""
    shares = np.minimum(requested, capacity.divisors) / capacity.divisors
    deviation = np.abs((shares[..., 0, :] - shares[..., 1, :]) / 2) * capacity.compared
    return _percent((1 - deviation) * float(BEST))


def _percent(values: Floats) -> Ints:
    """Round towards zero; processors convert several values at once to 32 bits."""
    return values.astype(np.int32).astype(np.int64)


def balanced_allocation(before: Ints | None, after: Ints) -> Ints:
    """The balance with the pod or, since 1.36, its improvement by the pod.

    `before` is the balance without the pod, None if the improvement does not count.
    """
    return after if before is None else BEST // 2 + (BEST // 2 + after - before) // 2


def share_of_most(counts: Ints, scored: Mask, *, reverse: bool) -> Ints:
    """Counts in percent of the highest scored one; `reverse` prefers the lowest."""
    if not np.count_nonzero(counts):  # several times faster than any() on integers
        return np.full_like(counts, BEST if reverse else 0)
    most = np.where(scored, counts, 0).max(axis=-1, keepdims=True, initial=0)
    share = np.where(most > 0, BEST * counts // np.maximum(most, 1), 0)
    return BEST - share if reverse else share


def between_extremes(sums: Ints, scored: Mask) -> Ints:
    """The position of each sum between the lowest and the highest scored one, in percent."""
    low = np.where(scored, sums, _HIGHEST).min(axis=-1, keepdims=True, initial=_HIGHEST)
    high = np.where(scored, sums, _LOWEST).max(axis=-1, keepdims=True, initial=_LOWEST)
    width = np.where(high > low, high - low, 1)
    share = np.where(high > low, float(BEST) * ((sums - low) / width), 0.0)
    return np.where(scored, share, 0.0).astype(np.int64)


class SpreadTerm(msgspec.Struct, frozen=True):
    """A soft spread constraint; `matching` and `labelled` have a column for each node.

    `matching` counts the matching pods in the node's domain; `domains` is the number of domains,
    which gives the constraint its weight.
    """

    matching: Ints
    labelled: Mask
    domains: int
    max_skew: int


def topology_spread(terms: Sequence[SpreadTerm], scored: Mask, ignored: Mask) -> Ints:
    """100 for the fewest matching pods; `ignored` nodes lack a topology label and get 0."""
    raw: Floats = np.zeros(1)
    for term in terms:
        weighted = term.matching * np.log(float(term.domains + 2)) + float(term.max_skew - 1)
        raw = raw + np.where(term.labelled, weighted, 0.0)
    sums: Ints = np.floor(raw + 0.5).astype(np.int64)
    compared = scored & ~ignored
    low = np.where(compared, sums, _HIGHEST).min(axis=-1, keepdims=True, initial=_HIGHEST)
    high = np.where(compared, sums, 0).max(axis=-1, keepdims=True, initial=0)
    low = np.minimum(low, high)  # if no node is compared, `low` is the initial value
    share = np.where(high > 0, BEST * (high + low - sums) // np.maximum(high, 1), BEST)
    return np.where(compared, share, 0)


def image_locality(image_bytes: Ints, containers: int) -> Ints:
    """The share of image bytes on a node, from 23 MiB to 1,000 MiB for each container."""
    most = LARGEST_CONTAINER_IMAGE_BYTES * containers
    there = np.clip(image_bytes, SMALLEST_IMAGE_BYTES, most)
    return BEST * (there - SMALLEST_IMAGE_BYTES) // (most - SMALLEST_IMAGE_BYTES)
