"""An oracle under desched's limits: it sees the load of this instant and where pods will land.

It evicts a pod only if its replacement will leave the node where it lands at or under its target;
the pod whose move clears its node's excess goes first, the smallest such one, else the biggest. It
does not see the future: from one cycle to the next, loads change for it too. With `steering` a soft
taint keeps each replacement away from nodes that it would make hot, as long as it takes to bind.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from benchmarks.day import CAPACITY, TARGET
from benchmarks.placement import Placement
from desched.model.cluster import ClusterState, Effect, Pod, Taint
from desched.policy.policy import Policy, Share
from desched.ports import Evictor
from desched.simulation.world import Simulation

Floats = NDArray[np.float64]

STEER = (Taint("desched.io/steering", Effect.PREFER_NO_SCHEDULE),)


class Oracle:
    """Knows usage as it is from now on, and asks the scheduler before it acts."""

    def __init__(
        self, simulation: Simulation, evictor: Evictor, policy: Policy, *, steering: bool = False
    ) -> None:
        self._simulation = simulation
        self._steering = steering
        self._evictor = evictor
        self._limits = policy.limits

    def act(self) -> None:
        """Relieve the hottest nodes first, as far as the limits go."""
        cluster = self._simulation.cluster.read_cluster()
        usage = self._usage(cluster)
        load = {node.name: np.zeros(2) for node in cluster.nodes}
        for pod in cluster.pods:
            if pod.node and not pod.deleting:
                load[pod.node] += usage[pod.uid]
        left = self._limits.total_for(len(cluster.nodes))
        touched: Counter[str] = Counter()
        placement = Placement(cluster)
        for name in sorted(load, key=lambda name: -(load[name] - TARGET).max()):
            for _ in range(self._limits.node or left):
                if left == 0 or (load[name] <= TARGET).all():
                    break
                candidates = self._candidates(cluster.pods_by_node[name], usage, touched)
                move = self._best(candidates, placement, usage, load)
                if move is None:
                    break
                pod, landing = move
                self._evict(pod, load, usage[pod.uid])
                cluster = self._simulation.cluster.read_cluster()
                placement = Placement(cluster)
                load[name] -= usage[pod.uid]
                load[landing] += usage[pod.uid]
                assert pod.owner is not None
                touched[pod.owner.uid] += 1
                left -= 1

    def _usage(self, cluster: ClusterState) -> dict[str, Floats]:
        history, now = self._simulation.cluster.history, self._simulation.clock.monotonic()
        return {
            pod.uid: np.array(history.user_mean(pod.uid, now, now + 1)) / CAPACITY
            for pod in cluster.pods
            if pod.node
        }

    def _candidates(
        self, pods: Iterable[Pod], usage: dict[str, Floats], touched: Counter[str]
    ) -> list[Pod]:
        most = self._limits.workload
        assert not isinstance(most, Share), "the limit of these policies is a count"
        return [
            pod
            for pod in pods
            if pod.uid in usage
            and pod.ready
            and not pod.deleting
            and pod.owner is not None
            and (most is None or touched[pod.owner.uid] < most)
        ]

    def _best(
        self,
        pods: list[Pod],
        placement: Placement,
        usage: dict[str, Floats],
        load: dict[str, Floats],
    ) -> tuple[Pod, str] | None:
        if not pods:
            return None
        name = pods[0].node
        hot = load[name] > TARGET

        def rank(pod: Pod) -> tuple[int, float]:
            size = float(usage[pod.uid][hot].sum())
            clears = bool((load[name] - usage[pod.uid] <= TARGET).all())
            return (0, size) if clears else (1, -size)

        for pod in sorted(pods, key=rank):
            landing = placement.of(pod, self._to_avoid(pod, load, usage[pod.uid]))
            if landing is None or landing == name:
                continue
            if (load[landing] + usage[pod.uid] <= TARGET).all():
                return pod, landing
        return None

    def _evict(self, pod: Pod, load: dict[str, Floats], used: Floats) -> None:
        hot = self._to_avoid(pod, load, used)
        for name in hot:
            self._simulation.cluster.change_node(name, taints=STEER)
        self._evictor.evict(pod.ref, "oracle")
        for name in hot:
            self._simulation.cluster.change_node(name, taints=())

    def _to_avoid(self, pod: Pod, load: dict[str, Floats], used: Floats) -> set[str]:
        if not self._steering:
            return set()
        return {pod.node} | {n for n, level in load.items() if (level + used > TARGET).any()}
