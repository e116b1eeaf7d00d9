"""kube-scheduler's score plugins over nodes as arrays, in its own integers.

Every array's last axis is the nodes; axes before it are alternatives that are scored at once. What
is about CPU and memory has the two in the axis before the nodes. `scored` marks the nodes that the
scheduler compares: normalisation looks at these alone, and the values of others mean nothing.

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
    """Allocatable CPU and memory of nodes, shape (2, nodes), and what dividing by them takes.

    `divisors` are the same without zeros, `counted` is how many of both a node has, at least 1, and
    `compared` is 1 where it has both, else 0. Amounts are whole, but floating-point numbers, which
    hold them exactly (up to 2^53) and divide several times faster.
    """

    allocatable: Floats
    divisors: Floats
    counted: Floats
    compared: Floats

    @classmethod
    def of_nodes(cls, allocatable: Ints) -> "Capacity":
        """Nodes that have this much, shape (2, nodes)."""
        counted = np.count_nonzero(allocatable, axis=0)
        return cls(
            allocatable.astype(float),
            np.maximum(allocatable, 1).astype(float),
            np.maximum(counted, 1).astype(float),
            (counted == len(allocatable)).astype(float),
        )

    def at(self, nodes: Positions) -> "Capacity":
        """Some of the nodes."""
        return Capacity(
            self.allocatable[:, nodes],
            self.divisors[:, nodes],
            self.counted[nodes],
            self.compared[nodes],
        )


def least_allocated(requested: Floats, capacity: Capacity) -> Ints:
    """The mean free share in percent of the resources, once the pod is there."""
    taken = np.minimum(requested, capacity.allocatable)
    return _mean_share(capacity.allocatable - taken, capacity)


def most_allocated(requested: Floats, capacity: Capacity) -> Ints:
    """The mean requested share in percent of the resources, once the pod is there."""
    return _mean_share(np.minimum(requested, capacity.allocatable), capacity)


def _mean_share(parts: Floats, capacity: Capacity) -> Ints:
    shares = np.floor(parts * float(BEST) / capacity.divisors)
    return _percent((shares[..., 0, :] + shares[..., 1, :]) / capacity.counted)


def balance(requested: Floats, capacity: Capacity) -> Ints:
    """How alike the requested shares of CPU and memory are: 100 when they are the same."""
    shares = np.minimum(requested, capacity.divisors) / capacity.divisors
    deviation = np.abs((shares[..., 0, :] - shares[..., 1, :]) / 2) * capacity.compared
    return _percent((1 - deviation) * float(BEST))


def _percent(values: Floats) -> Ints:
    """Rounded towards zero; by way of 32 bits, to which processors convert several at once."""
    return values.astype(np.int32).astype(np.int64)


def balanced_allocation(before: Ints | None, after: Ints) -> Ints:
    """How balanced a node is with the pod or, since 1.36, how much the pod improves it.

    Args:
        before: the balance without the pod; None if the improvement does not count.
        after: the balance with the pod.
    """
    return after if before is None else BEST // 2 + (BEST // 2 + after - before) // 2


def share_of_most(counts: Ints, scored: Mask, *, reverse: bool) -> Ints:
    """Counts in percent of the highest among the scored nodes; `reverse` prefers the lowest."""
    if not np.count_nonzero(counts):  # several times faster than any() of numbers
        return np.full_like(counts, BEST if reverse else 0)
    most = np.where(scored, counts, 0).max(axis=-1, keepdims=True, initial=0)
    share = np.where(most > 0, BEST * counts // np.maximum(most, 1), 0)
    return BEST - share if reverse else share


def between_extremes(sums: Ints, scored: Mask) -> Ints:
    """Where a sum lies between the lowest and the highest of the scored nodes, in percent."""
    low = np.where(scored, sums, _HIGHEST).min(axis=-1, keepdims=True, initial=_HIGHEST)
    high = np.where(scored, sums, _LOWEST).max(axis=-1, keepdims=True, initial=_LOWEST)
    width = np.where(high > low, high - low, 1)
    share = np.where(high > low, float(BEST) * ((sums - low) / width), 0.0)
    return np.where(scored, share, 0.0).astype(np.int64)


class SpreadTerm(msgspec.Struct, frozen=True):
    """A soft spread constraint: matching pods of each node's domain, and the domain's weight."""

    matching: Ints
    labelled: Mask
    domains: int
    max_skew: int


def topology_spread(terms: Sequence[SpreadTerm], scored: Mask, ignored: Mask) -> Ints:
    """100 for the fewest matching pods; `ignored` nodes (without a topology label) get nothing."""
    raw: Floats = np.zeros(1)
    for term in terms:
        weighted = term.matching * np.log(float(term.domains + 2)) + float(term.max_skew - 1)
        raw = raw + np.where(term.labelled, weighted, 0.0)
    sums: Ints = np.floor(raw + 0.5).astype(np.int64)
    compared = scored & ~ignored
    low = np.where(compared, sums, _HIGHEST).min(axis=-1, keepdims=True, initial=_HIGHEST)
    high = np.where(compared, sums, 0).max(axis=-1, keepdims=True, initial=0)
    low = np.minimum(low, high)  # without a compared node there is no lowest
    share = np.where(high > 0, BEST * (high + low - sums) // np.maximum(high, 1), BEST)
    return np.where(compared, share, 0)


def image_locality(image_bytes: Ints, containers: int) -> Ints:
    """How much of a pod's images a node has, between 23 MiB and 1,000 MiB for each container."""
    most = LARGEST_CONTAINER_IMAGE_BYTES * containers
    there = np.clip(image_bytes, SMALLEST_IMAGE_BYTES, most)
    return BEST * (there - SMALLEST_IMAGE_BYTES) // (most - SMALLEST_IMAGE_BYTES)
