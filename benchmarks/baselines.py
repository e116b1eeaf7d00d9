"""Other deschedulers, simplified: they choose by pooled room, without a forecast and without state.

As in the originals, the most loaded nodes come first; a node is done when it is no longer above its
target, or when the pooled room of all low nodes, in millicores and bytes, is used up. Nothing
limits the number of evictions, as by default. The low threshold is that of the policy, or as a
favor the ceiling of desched for destinations: below the policy's 30 %, there is no node on any of
these days.

`Baseline` is generous: it gets the same measurements as desched, the real usage of nodes and pods
over five minutes, and evicts only pods whose requests fit on another node (`nodeFit`).
`OneMetric` is kubernetes-sigs LowNodeUtilization with Prometheus as it is by default.
`VolcanoDefaults` is Volcano's LoadAware by its defaults, with Prometheus. (As shipped, its metrics
have no type, and it does nothing.)
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from desched.model.cluster import ClusterState, Node, Pod
from desched.model.load import ClusterLoad, Measured
from desched.model.report import EvictionVerdict
from desched.model.resources import Amounts, Resource
from desched.policy.policy import Policy
from desched.ports import World

CPU, MEMORY = Resource.CPU, Resource.MEMORY
RESOURCES = (CPU, MEMORY)
VOLCANO_SECONDS = 120
"""The window of LoadAware (`duration: 2m`)."""

Order = Callable[[Sequence[Pod], "Measurements", set[Resource]], list[Pod]]
Ratios = dict[Resource, float]
Quantities = dict[Resource, float]


@dataclass
class Measurements:
    """The load of nodes as ratios, and the usage of pods in millicores and bytes.

    `capacity` has the same units: of each node, what the machine has.
    """

    nodes: Mapping[str, Ratios]
    pods: Mapping[str, Quantities]
    capacity: Mapping[str, Quantities]


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
        target, low = _target(self.policy), _low(self.policy, generous=self.generous)
        loads, capacity = measured.nodes, measured.capacity
        lows = [name for name, load in loads.items() if all(load[r] <= low[r] for r in RESOURCES)]
        overloaded = [
            name for name, load in loads.items() if any(load[r] > target[r] for r in RESOURCES)
        ]
        pool = {
            r: sum((target[r] - loads[name][r]) * capacity[name][r] for name in lows)
            for r in RESOURCES
        }
        free = {
            node.name: _free(node, cluster) for node in cluster.nodes if node.name not in overloaded
        }
        for name in sorted(overloaded, key=lambda name: self.node_rank(name, measured)):
            load = loads[name]
            over = {r for r in RESOURCES if load[r] > target[r]}
            pods = _shuffled(name, cluster, self.chance)
            for pod in self.pods_in_order(pods, measured, over):
                if all(load[r] <= target[r] for r in RESOURCES) or min(pool.values()) <= 0:
                    break
                if not any(_fits(pod.scheduling.requests, free) for free in free.values()):
                    continue
                world.evictor.evict(pod.ref, "baseline")
                for resource, used in measured.pods[pod.uid].items():
                    load[resource] -= used / capacity[name][resource]
                    pool[resource] -= used

    def pods_in_order(
        self, pods: list[Pod], measured: Measurements, over: set[Resource]
    ) -> list[Pod]:
        """The pods of a node, in the order in which they are evicted."""
        return self.order(pods, measured, over)

    def node_rank(self, node: str, measured: Measurements) -> float:
        """The node with the lowest rank is relieved first."""
        return -sum(measured.nodes[node].values())


class VolcanoDefaults(Baseline):
    """Over two minutes; the nodes with most memory in use first; one resource found too high."""

    def __init__(self, policy: Policy) -> None:
        rules = tuple(replace(r, windows_seconds=(VOLCANO_SECONDS,)) for r in policy.rules)
        super().__init__(replace(policy, rules=rules), biggest_first)

    def pods_in_order(
        self, pods: list[Pod], measured: Measurements, over: set[Resource]
    ) -> list[Pod]:
        """Of several resources above their targets, one counts, by chance."""
        return super().pods_in_order(pods, measured, {self.chance.choice(sorted(over))})

    def node_rank(self, node: str, measured: Measurements) -> float:
        """Bytes and millicores are added, so memory decides."""
        return -measured.nodes[node][MEMORY] * measured.capacity[node][MEMORY]


@dataclass
class OneMetric:
    """One number for each node, in whole percent, and one pod from each overloaded node.

    With Prometheus it does not know what pods use. The number is the larger of CPU and memory,
    memory scaled so that both have the same target. `nodeFit` is off, as by default.
    """

    policy: Policy
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def act(self, world: World) -> None:
        """Measure, choose and evict."""
        assert world.evictor is not None
        cluster = world.cluster.read_cluster()
        measured = _measurements(cluster, world.load.read_load(cluster, self.policy))
        target, low = _target(self.policy), _low(self.policy, generous=True)
        percent = {
            name: int(100 * max(load[r] * target[CPU] / target[r] for r in RESOURCES))
            for name, load in measured.nodes.items()
        }
        if all(value > 100 * low[CPU] for value in percent.values()):
            return
        overloaded = [name for name, value in percent.items() if value > 100 * target[CPU]]
        for name in sorted(overloaded, key=lambda name: -percent[name]):
            pods = _shuffled(name, cluster, self.chance)
            for pod in by_priority(pods, measured, set()):
                answer = world.evictor.evict(pod.ref, "baseline")
                if answer.verdict is EvictionVerdict.EVICTED:
                    break


def by_priority(pods: Sequence[Pod], measured: Measurements, over: set[Resource]) -> list[Pod]:  # noqa: ARG001 (an Order)
    """As kubernetes-sigs LowNodeUtilization: lowest priority first, then by QoS class."""
    classes = ("BestEffort", "Burstable", "Guaranteed")
    return sorted(pods, key=lambda pod: (pod.priority, classes.index(pod.qos)))


def biggest_first(pods: Sequence[Pod], measured: Measurements, over: set[Resource]) -> list[Pod]:
    """As Volcano LoadAware: highest usage first, of CPU if that is too high, else of memory."""
    key = CPU if CPU in over else MEMORY
    return sorted(pods, key=lambda pod: -measured.pods[pod.uid][key])


def _target(policy: Policy) -> Ratios:
    return {rule.resource: rule.target_ratio for rule in policy.rules}


def _low(policy: Policy, *, generous: bool) -> Ratios:
    return {
        r.resource: r.target_ratio - r.ceiling_margin_ratio if generous else r.low_ratio
        for r in policy.rules
    }


def _shuffled(node: str, cluster: ClusterState, chance: random.Random) -> list[Pod]:
    pods = [p for p in cluster.pods_by_node[node] if p.ready and not p.deleting]
    chance.shuffle(pods)
    return pods


def _measurements(cluster: ClusterState, load: ClusterLoad) -> Measurements:
    nodes: dict[str, Ratios] = {}
    for name, found in load.nodes.items():
        cpu, memory = found[CPU], found[MEMORY]
        if isinstance(cpu, Measured) and isinstance(memory, Measured):
            nodes[name] = {CPU: cpu.levels[0].ratio, MEMORY: memory.levels[0].ratio}
    pods = {}
    for pod in cluster.pods:
        usage = load.pods.get((pod.namespace, pod.name))
        pods[pod.uid] = {
            CPU: usage.cpu_millicores[0] if usage and usage.cpu_millicores else 0.0,
            MEMORY: usage.memory_bytes[0] if usage and usage.memory_bytes else 0.0,
        }
    capacity: dict[str, Quantities] = {
        node.name: {CPU: node.capacity.cpu_millicores, MEMORY: node.capacity.memory_bytes}
        for node in cluster.nodes
    }
    return Measurements(nodes, pods, capacity)


def _free(node: Node, cluster: ClusterState) -> tuple[int, int]:
    requests = [pod.scheduling.requests for pod in cluster.pods_by_node[node.name]]
    return (
        node.allocatable.cpu_millicores - sum(r.cpu_millicores for r in requests),
        node.allocatable.memory_bytes - sum(r.memory_bytes for r in requests),
    )


def _fits(requests: Amounts, free: tuple[int, int]) -> bool:
    return requests.cpu_millicores <= free[0] and requests.memory_bytes <= free[1]
