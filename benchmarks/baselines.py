"""Other deschedulers, simplified: they choose by pooled room, without a forecast and without state.

Both get the same measurements as desched: the real usage of nodes and pods over five minutes. Their
low threshold is that of the policy, or as a favor the ceiling of desched for destinations. As in
the originals, the most loaded nodes
come first; a node is done when it is no longer above its target, or when the pooled room of all low
nodes is used up; `nodeFit` requires that the requests fit on another node. Nothing limits the
number of evictions, as by default.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from desched.model.cluster import ClusterState, Node, Pod
from desched.model.load import ClusterLoad, Measured
from desched.model.resources import Amounts, Resource
from desched.policy.policy import Policy
from desched.ports import World

CPU, MEMORY = Resource.CPU, Resource.MEMORY
RESOURCES = (CPU, MEMORY)
Order = Callable[[Sequence[Pod], "Measurements", set[Resource]], list[Pod]]


@dataclass
class Measurements:
    """The load of nodes as ratios, and the usage of pods as shares of the (equal) nodes."""

    nodes: Mapping[str, dict[Resource, float]]
    pods: Mapping[str, dict[Resource, float]]


@dataclass
class Baseline:
    """A descheduler without state; `order` sorts the pods of a node.

    With `generous`, destinations may be as loaded as those of desched.
    """

    policy: Policy
    order: Order
    generous: bool = True
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def act(self, world: World) -> None:
        """Measure, choose and evict."""
        assert world.evictor is not None
        cluster = world.cluster.read_cluster()
        measured = _measurements(cluster, world.load.read_load(cluster, self.policy))
        target = {rule.resource: rule.target_ratio for rule in self.policy.rules}
        low = {
            r.resource: r.target_ratio - r.ceiling_margin_ratio if self.generous else r.low_ratio
            for r in self.policy.rules
        }
        loads = measured.nodes
        lows = [name for name, load in loads.items() if all(load[r] <= low[r] for r in RESOURCES)]
        overloaded = [
            name for name, load in loads.items() if any(load[r] > target[r] for r in RESOURCES)
        ]
        pool = {r: sum(target[r] - loads[name][r] for name in lows) for r in RESOURCES}
        free = {
            node.name: _free(node, cluster) for node in cluster.nodes if node.name not in overloaded
        }
        for name in sorted(overloaded, key=lambda name: -sum(loads[name].values())):
            load = loads[name]
            over = {r for r in RESOURCES if load[r] > target[r]}
            pods = [p for p in cluster.pods_by_node[name] if p.ready and not p.deleting]
            self.chance.shuffle(pods)
            for pod in self.order(pods, measured, over):
                if all(load[r] <= target[r] for r in RESOURCES) or min(pool.values()) <= 0:
                    break
                if not any(_fits(pod.scheduling.requests, free) for free in free.values()):
                    continue
                world.evictor.evict(pod.ref, "baseline")
                for resource, used in measured.pods[pod.uid].items():
                    load[resource] -= used
                    pool[resource] -= used


def by_priority(pods: Sequence[Pod], measured: Measurements, over: set[Resource]) -> list[Pod]:  # noqa: ARG001 (an Order)
    """As kubernetes-sigs LowNodeUtilization: lowest priority first, then by QoS class."""
    classes = ("BestEffort", "Burstable", "Guaranteed")
    return sorted(pods, key=lambda pod: (pod.priority, classes.index(pod.qos)))


def biggest_first(pods: Sequence[Pod], measured: Measurements, over: set[Resource]) -> list[Pod]:
    """As Volcano LoadAware: highest usage first, of CPU if that is too high, else of memory."""
    key = CPU if CPU in over else MEMORY
    return sorted(pods, key=lambda pod: -measured.pods[pod.uid][key])


def _measurements(cluster: ClusterState, load: ClusterLoad) -> Measurements:
    nodes: dict[str, dict[Resource, float]] = {}
    for name, found in load.nodes.items():
        cpu, memory = found[CPU], found[MEMORY]
        if isinstance(cpu, Measured) and isinstance(memory, Measured):
            nodes[name] = {CPU: cpu.levels[0].ratio, MEMORY: memory.levels[0].ratio}
    capacity = cluster.nodes[0].capacity
    pods = {}
    for pod in cluster.pods:
        usage = load.pods.get((pod.namespace, pod.name))
        pods[pod.uid] = {
            CPU: (usage.cpu_millicores[0] if usage and usage.cpu_millicores else 0.0)
            / capacity.cpu_millicores,
            MEMORY: (usage.memory_bytes[0] if usage and usage.memory_bytes else 0.0)
            / capacity.memory_bytes,
        }
    return Measurements(nodes, pods)


def _free(node: Node, cluster: ClusterState) -> tuple[int, int]:
    requests = [pod.scheduling.requests for pod in cluster.pods_by_node[node.name]]
    return (
        node.allocatable.cpu_millicores - sum(r.cpu_millicores for r in requests),
        node.allocatable.memory_bytes - sum(r.memory_bytes for r in requests),
    )


def _fits(requests: Amounts, free: tuple[int, int]) -> bool:
    return requests.cpu_millicores <= free[0] and requests.memory_bytes <= free[1]
