"""Where the scheduler puts a plain pod: the simulated scheduler's arithmetic over arrays.

For pods without constraints in a cluster without hard taints and zones, which is what the closed
loop has; a test holds it to `desched.simulation.scheduler`. It is fast enough for an oracle to ask.
"""

import math
from collections import Counter
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from desched.model.cluster import ClusterState, Effect, Pod

HOSTNAME_SKEW = 3
TAINT_WEIGHT = 3
SPREAD_WEIGHT = 2

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


def place(pod: Pod, cluster: ClusterState) -> str | None:
    """The node that a pending pod is bound to, None if it has room nowhere."""
    return Placement(cluster).of(pod)


class Placement:
    """One state of the cluster, to be asked about many pods."""

    def __init__(self, cluster: ClusterState) -> None:
        self._names = sorted(node.name for node in cluster.nodes)
        self._index = {name: i for i, name in enumerate(self._names)}
        nodes = [cluster.node_by_name[name] for name in self._names]
        self._allocatable = np.array(
            [(n.allocatable.cpu_millicores, n.allocatable.memory_bytes) for n in nodes]
        )
        self._soft_taints = np.array(
            [sum(taint.effect == Effect.PREFER_NO_SCHEDULE for taint in n.taints) for n in nodes]
        )
        self._requested = np.zeros_like(self._allocatable)
        self._siblings: dict[str, Counter[int]] = {}
        placed = [pod for pod in cluster.pods if pod.node and not pod.finished]
        if placed:
            requests = [pod.scheduling.requests for pod in placed]
            where = [self._index[pod.node] for pod in placed]
            np.add.at(self._requested[:, 0], where, [r.cpu_millicores for r in requests])
            np.add.at(self._requested[:, 1], where, [r.memory_bytes for r in requests])
        for pod in placed:
            if pod.owner and not pod.deleting:
                self._siblings.setdefault(pod.owner.uid, Counter())[self._index[pod.node]] += 1

    def of(self, pod: Pod, steer_off: Collection[str] = ()) -> str | None:
        """The node of a pending pod, or of the replacement of one that is about to terminate.

        `steer_off` are nodes with a further soft taint.
        """
        wanted = pod.scheduling.requests
        asked = np.array([wanted.cpu_millicores, wanted.memory_bytes])
        after = self._requested + asked
        fits = np.all(after <= self._allocatable, axis=1)
        if not fits.any():
            return None
        total = (
            TAINT_WEIGHT * self._taints(fits, steer_off)
            + SPREAD_WEIGHT * self._spread(pod, fits)
            + (np.maximum(0, self._allocatable - after) * 100 // self._allocatable).sum(axis=1) // 2
            + 50
            + ((50 + self._balance(after) - self._balance(self._requested)) / 2).astype(int)
        )
        # Names are sorted, and the first of the best is taken.
        return self._names[int(np.argmax(np.where(fits, total, -1)))]

    def _taints(self, fits: Mask, steer_off: Collection[str]) -> Integers:
        """Fewer soft taints are better."""
        disliked = self._soft_taints.copy()
        disliked[[self._index[name] for name in steer_off]] += 1
        most = int(disliked[fits].max())
        return 100 - 100 * disliked // max(most, 1)

    def _spread(self, pod: Pod, fits: Mask) -> Integers:
        """Fewer siblings on a node are better (the default constraint of each host)."""
        siblings = np.zeros(len(self._names))
        for i, count in self._siblings.get(pod.owner.uid if pod.owner else "", {}).items():
            siblings[i] = count
        if pod.node and not pod.deleting:
            siblings[self._index[pod.node]] -= 1
        weighted = siblings * math.log(int(fits.sum()) + 2) + HOSTNAME_SKEW - 1
        crowding = np.floor(weighted + 0.5).astype(np.int64)
        most, least = int(crowding[fits].max()), int(crowding[fits].min())
        return 100 * (most + least - crowding) // most

    def _balance(self, requested: Integers) -> Integers:
        share = np.minimum(1.0, requested / self._allocatable)
        balance: Integers = ((1 - np.abs(share[:, 0] - share[:, 1]) / 2) * 100).astype(np.int64)
        return balance
