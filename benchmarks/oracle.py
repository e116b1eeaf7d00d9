"""An oracle with desched's limits: it reads the current load and the scheduler's decisions.

It evicts a pod only if the replacement makes no node overloaded. The smallest pod whose move
removes the excess of its node goes first, otherwise the biggest. The oracle does not read the
future: loads change from one cycle to the next. With `steering`, soft taints keep each replacement
away from nodes that it would make overloaded, until it is bound.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from desched.lab.closed_loop import targets_of
from desched.lab.history import Floats
from desched.lab.load import size_of
from desched.lab.scheduler.choice import choose_node
from desched.lab.scheduler.view import ClusterView
from desched.lab.world import Simulation
from desched.model.cluster import ClusterState, Effect, Pod, Taint
from desched.policy.policy import Policy
from desched.policy.share import count_of
from desched.ports import Evictor, World

STEER = (Taint("desched.io/steering", Effect.PREFER_NO_SCHEDULE),)


class Oracle:
    """A descheduler with the load and the scheduler of the simulation itself."""

    def __init__(self, simulation: Simulation, policy: Policy, *, steering: bool = False) -> None:
        self._cluster = simulation.cluster
        self._steering = steering
        self._limits = policy.limits
        self._targets = targets_of(policy)
        self._sizes: dict[str, Floats] = {}

    def act(self, world: World) -> None:
        """Relieve the most overloaded nodes first, within the limits."""
        assert world.evictor is not None
        cluster = self._cluster.read_cluster()
        usage = self._usage(cluster)
        load = {node.name: np.zeros(2) for node in cluster.nodes}
        self._sizes = {node.name: np.array(size_of(node)) for node in cluster.nodes}
        for pod in cluster.pods:
            if pod.node and not pod.deleting:
                load[pod.node] += usage[pod.uid] / self._sizes[pod.node]
        left = count_of(self._limits.total, len(cluster.nodes)) or 0
        touched: Counter[str] = Counter()
        view = ClusterView(cluster)
        for name in sorted(load, key=lambda name: -(load[name] - self._targets).max()):
            for _ in range(self._limits.node or left):
                if left == 0 or not self._is_over(load[name]):
                    break
                here = view.cluster.pods_by_node[name]
                pods = [pod for pod in here if self._may_go(pod, cluster, touched)]
                move = self._best(pods, usage, load, view)
                if move is None:
                    break
                pod, landing = move
                self._evict(pod, world.evictor, self._to_avoid(pod, load, usage[pod.uid]))
                view = ClusterView(self._cluster.read_cluster())
                load[name] -= usage[pod.uid] / self._sizes[name]
                load[landing] += usage[pod.uid] / self._sizes[landing]
                touched[pod.owner.uid if pod.owner else ""] += 1
                left -= 1

    def _is_over(self, load: Floats) -> bool:
        return bool((load > self._targets).any())

    def _usage(self, cluster: ClusterState) -> dict[str, Floats]:
        """What each pod uses, in millicores and bytes."""
        now = self._cluster.clock.monotonic()
        means = self._cluster.history.user_means(now, now + 1)
        return {pod.uid: np.array(means[pod.uid]) for pod in cluster.pods if pod.node}

    def _may_go(self, pod: Pod, cluster: ClusterState, touched: Counter[str]) -> bool:
        workload = cluster.workload_of(pod)
        if workload is None or pod.owner is None or not pod.ready or pod.deleting:
            return False
        most = count_of(self._limits.workload, workload.desired_replicas)
        return most is None or touched[pod.owner.uid] < most

    def _best(
        self,
        pods: list[Pod],
        usage: Mapping[str, Floats],
        load: Mapping[str, Floats],
        view: ClusterView,
    ) -> tuple[Pod, str] | None:
        """The pod of a node that should go first, and the node of its replacement."""

        def rank(pod: Pod) -> tuple[int, float]:
            share = usage[pod.uid] / self._sizes[pod.node]
            size = float(share[load[pod.node] > self._targets].sum())
            clears = not self._is_over(load[pod.node] - share)
            return (0, size) if clears else (1, -size)

        for pod in sorted(pods, key=rank):
            landing = choose_node(pod, view, self._to_avoid(pod, load, usage[pod.uid]))
            if landing is None or landing == pod.node:
                continue
            if not self._is_over(load[landing] + usage[pod.uid] / self._sizes[landing]):
                return pod, landing
        return None

    def _evict(self, pod: Pod, evictor: Evictor, avoided: set[str]) -> None:
        for name in avoided:
            self._cluster.change_node(name, taints=STEER)
        evictor.evict(pod.ref, "oracle")
        for name in avoided:
            self._cluster.change_node(name, taints=())

    def _to_avoid(self, pod: Pod, load: Mapping[str, Floats], used: Floats) -> set[str]:
        if not self._steering:
            return set()
        shares = ((name, level + used / self._sizes[name]) for name, level in load.items())
        return {pod.node} | {name for name, level in shares if self._is_over(level)}
