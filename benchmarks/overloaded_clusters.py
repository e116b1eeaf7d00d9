"""Random clusters with overloaded nodes, drawn from the trace, to choose pods on."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
from numpy.typing import NDArray

from desched.model.cluster import (
    ClusterState,
    Node,
    Owner,
    Pod,
    PodDisruptionBudget,
    SchedulingClass,
    Workload,
)
from desched.model.load import ClusterLoad, Level, Measured, PodUsage
from desched.model.plan import NodeClass
from desched.model.resources import Amounts, Resource
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.reservations import room_left
from desched.planning.selection.candidates import Candidate, OverloadedNode
from desched.planning.selection.eviction_cost import cost
from desched.planning.selection.limits import EvictionQuota
from desched.policy.policy import EvictionLimits, MetricsSource, Policy, ResourceRule

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
NODE_CPU_MILLICORES = 32_000
NODE_MEMORY_BYTES = 128 * 2**30
WINDOWS_SECONDS = (300, 900)
ALL_AT_ONCE = EvictionLimits(
    in_flight_total=None, in_flight_workload=None, in_flight_destination=None, per_minute=None
)
UNLIMITED = msgspec.structs.replace(ALL_AT_ONCE, total=1_000_000, node=None, workload=None)
PER_CYCLE = msgspec.structs.replace(ALL_AT_ONCE, total=1_000_000, node=2, workload=1)

Floats = NDArray[np.float64]
RESOURCES = (Resource.CPU, Resource.MEMORY)
CAPACITY = np.array([NODE_CPU_MILLICORES, NODE_MEMORY_BYTES], dtype=float)


@dataclass(frozen=True)
class Shape:
    """The size of a cluster, and what it is short of.

    `request_factor` is the range of requests as multiples of the median usage; the loads are
    ranges, too. `replicas` is the number of pods of each workload; 0 draws a size for each.
    `most_risk` is the maximum landing risk; with 1 every pod may go.
    """

    nodes: int = 100
    overloaded: int = 12
    pods: int = 16
    request_factor: tuple[float, float] = (0.5, 2.0)
    overloaded_load: tuple[float, float] = (0.82, 0.97)
    other_load: tuple[float, float] = (0.25, 0.6)
    replicas: int = 0
    limits: EvictionLimits = UNLIMITED
    equal_pods: bool = False
    budgets: bool = True
    most_risk: float = 0.15


@dataclass(frozen=True)
class Instance:
    """One choice to make: the arguments of `select_moves`, and the further input of a solver.

    `free` has the allocatable amounts that are not requested, and `load` the highest load, by node
    and resource; `ceilings` is by resource.
    """

    nodes: tuple[OverloadedNode, ...]
    destinations: Destinations
    quota: EvictionQuota
    cluster: ClusterState
    free: Floats
    load: Floats
    ceilings: Floats


def instance(shape: Shape, trace: Floats, chance: np.random.Generator) -> Instance:
    """A random cluster of this shape."""
    policy = Policy(
        "benchmark",
        "benchmark",
        tuple(
            ResourceRule(resource, 0.3, target, 0.05, 0.1, WINDOWS_SECONDS)
            for resource, target in ((Resource.CPU, 0.8), (Resource.MEMORY, 0.85))
        ),
        MetricsSource(""),
        limits=shape.limits,
        eviction_price_minutes=0.0,
    )
    snapshot = _snapshot(shape, trace, chance)
    cluster = snapshot.cluster
    book, state = UsageBook(snapshot, policy, NOW), State()
    context = EligibilityContext.of(book, state)
    pressure = classify(book, state)
    overloaded = sorted(
        pressure.of_class(NodeClass.OVERLOADED), key=lambda n: (-n.excess_ratio, n.node.name)
    )
    room = room_left(context, pressure)
    view = SchedulerView(cluster, policy.scheduler, room.index)
    return Instance(
        nodes=tuple(
            OverloadedNode(loaded, _candidates(loaded.node, book)) for loaded in overloaded
        ),
        destinations=Destinations(room, view, shape.most_risk),
        quota=EvictionQuota(Eligibility(context)),
        cluster=cluster,
        free=np.array([CAPACITY - _requested(node, cluster) for node in cluster.nodes]),
        load=np.array(
            [[pressure.known[n.name].highest[r] for r in RESOURCES] for n in cluster.nodes]
        ),
        ceilings=np.array([0.7, 0.75]),
    )


def _candidates(node: Node, book: UsageBook) -> tuple[Candidate, ...]:
    cluster = book.snapshot.cluster
    return tuple(
        Candidate(
            pod,
            {resource: book.measured(pod, resource) for resource in RESOURCES},
            book.charge(pod),
            cost(pod, cluster.workload_of(pod), NOW),
        )
        for pod in sorted(cluster.pods_by_node[node.name], key=lambda pod: pod.ref)
    )


def _requested(node: Node, cluster: ClusterState) -> Floats:
    requests = [pod.scheduling.requests for pod in cluster.pods_by_node[node.name]]
    total: Floats = np.sum([(each.cpu_millicores, each.memory_bytes) for each in requests], axis=0)
    return total


def _snapshot(shape: Shape, trace: Floats, chance: np.random.Generator) -> Snapshot:
    size = Amounts(NODE_CPU_MILLICORES, NODE_MEMORY_BYTES, 500 * 2**30, 250)
    created = NOW - timedelta(days=30)
    nodes = tuple(
        Node(f"node-{i:05}", f"node-{i}", created, {}, size, size) for i in range(shape.nodes)
    )
    now, half = _usage(shape, trace, chance)
    workload_of = _workload_numbers(shape, chance)
    pods, usage, loads = [], {}, {}
    drawn = _Draws(shape, chance)
    for n, node in enumerate(nodes):
        for p in range(shape.pods):
            i = n * shape.pods + p
            request = np.rint(half[n, p] * CAPACITY * drawn.request_factor[i]).astype(int)
            pods.append(drawn.pod(i, int(workload_of[i]), node.name, request))
            cpu, memory = (now[n, p] * CAPACITY[None, :]).T
            usage[pods[-1].namespace, pods[-1].name] = PodUsage(tuple(cpu), tuple(memory))
        total = now[n].sum(axis=0)
        loads[node.name] = {
            resource: Measured(
                tuple(
                    Level(seconds, float(total[w, r])) for w, seconds in enumerate(WINDOWS_SECONDS)
                )
            )
            for r, resource in enumerate(RESOURCES)
        }
    counts = np.bincount(workload_of)
    workloads = {
        ("apps", f"w{w}"): Workload("Deployment", "apps", f"w{w}", f"w{w}", int(counts[w]))
        for w in range(len(counts))
    }
    budgets = tuple(
        PodDisruptionBudget("apps", f"w{w}", _label(w), int(chance.integers(1, 3)))
        for w in range(0, len(counts), 5)
        if shape.budgets
    )
    cluster = ClusterState(nodes, tuple(pods), workloads, budgets=budgets)
    return Snapshot(cluster, ClusterLoad(loads, usage), NOW)


def _usage(shape: Shape, trace: Floats, chance: np.random.Generator) -> tuple[Floats, Floats]:
    """Usage as shares of a node: node x pod x window x resource, and the median of the day."""
    at = int(chance.integers(2, trace.shape[1]))
    machine = chance.integers(0, len(trace), (shape.nodes, shape.pods))
    last = trace[:, at].copy()
    longer = trace[:, at - 2 : at + 1].mean(axis=1)
    median = np.median(trace, axis=1)
    if shape.equal_pods:
        last, longer, median = (np.ones_like(a) for a in (last, longer, median))
    now = np.stack([last[machine], longer[machine]], axis=2)
    overloaded = np.zeros(shape.nodes, dtype=bool)
    overloaded[chance.choice(shape.nodes, shape.overloaded, replace=False)] = True
    higher = np.array([0.0, 0.05])
    total = np.where(
        overloaded[:, None],
        # The target of memory is higher by 0.05.
        np.minimum(chance.uniform(*shape.overloaded_load, (shape.nodes, 2)) + higher, 1.0),
        chance.uniform(*shape.other_load, (shape.nodes, 2)),
    )
    # A third of the overloaded nodes is overloaded in both resources, the others in one.
    kind = chance.integers(0, 3, shape.nodes)
    for resource in (0, 1):
        mild = overloaded & (kind == resource)
        total[mild, resource] = chance.uniform(0.3, 0.6, int(mild.sum()))
    scale = total / now.min(axis=2).sum(axis=1)
    return now * scale[:, None, None, :], median[machine] * scale[:, None, :]


def _workload_numbers(shape: Shape, chance: np.random.Generator) -> NDArray[np.int64]:
    count = shape.nodes * shape.pods
    if shape.replicas:
        numbers = np.arange(count) // shape.replicas
    else:
        sizes = chance.integers(2, 21, count)
        numbers = np.repeat(np.arange(count), sizes)[:count]
    return chance.permutation(numbers)


class _Draws:
    """The random properties of each pod."""

    def __init__(self, shape: Shape, chance: np.random.Generator) -> None:
        count = shape.nodes * shape.pods
        self.request_factor = chance.uniform(*shape.request_factor, count)
        self._priority = chance.choice([0, 0, 0, 100, 1000, 100_000], count).tolist()
        self._qos = chance.choice(["BestEffort", "Burstable", "Burstable", "Guaranteed"], count)
        self._hours = chance.uniform(1, 100, count).tolist()
        self._deletion_cost = chance.choice([0] * 9 + [100], count).tolist()

    def pod(self, i: int, workload: int, node: str, request: NDArray[np.int64]) -> Pod:
        """The i-th pod."""
        started = NOW - timedelta(hours=self._hours[i])
        deletion_cost = self._deletion_cost[i]
        return Pod(
            namespace="apps",
            name=f"p{i:06}",
            uid=f"p{i}",
            scheduling=SchedulingClass(Amounts(int(request[0]), int(request[1]), pods=1)),
            created_at=started,
            started_at=started,
            labels={"app": f"w{workload}"},
            annotations={"controller.kubernetes.io/pod-deletion-cost": str(deletion_cost)}
            if deletion_cost
            else {},
            owner=Owner("ReplicaSet", f"w{workload}", f"w{workload}", "apps/v1"),
            node=node,
            priority=self._priority[i],
            qos=str(self._qos[i]),
        )


def _label(workload: int) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, (f"w{workload}",)),))


SMALL: dict[str, Shape] = {
    "trace": Shape(other_load=(0.4, 0.66)),
    "trace, at any risk": Shape(other_load=(0.4, 0.66), most_risk=1.0),
    "trace, low requests": Shape(other_load=(0.4, 0.66), request_factor=(0.1, 0.3)),
    "trace, 2 per node, 1 per workload": Shape(overloaded_load=(0.82, 0.88), limits=PER_CYCLE),
    "pods of equal use": Shape(equal_pods=True),
    "few workloads, 1 of each": Shape(
        replicas=40, overloaded_load=(0.82, 0.88), limits=PER_CYCLE, budgets=False
    ),
    "extremely overloaded": Shape(overloaded_load=(0.97, 1.0)),
    "hardly any room": Shape(other_load=(0.55, 0.69)),
    "hardly any room, at any risk": Shape(other_load=(0.55, 0.69), most_risk=1.0),
    "fragmented room, at any risk": Shape(other_load=(0.6, 0.69), most_risk=1.0),
    "16 workloads, 1 eviction of each": Shape(
        replicas=100, overloaded_load=(0.82, 0.88), limits=PER_CYCLE, budgets=False
    ),
}
"""Twelve overloaded nodes among a hundred, by the difficulty of the choice."""
