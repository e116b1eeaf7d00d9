"""Small worlds for tests: nodes, pods and their load in one line each."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from desched.eviction.follow_up import FollowUp, follow_up
from desched.gangs.objects import GangObjects
from desched.model.cluster import (
    ClusterState,
    ControllerKey,
    Node,
    Owner,
    Pod,
    PodDisruptionBudget,
    PodRef,
    SchedulingClass,
    Workload,
)
from desched.model.landing import LandingChance
from desched.model.load import (
    ClusterLoad,
    Level,
    LoadProblem,
    Measured,
    PodUsage,
    Unknown,
    UnknownReason,
)
from desched.model.plan import Plan, PlannedEviction, ResourcePressure
from desched.model.resources import Amounts, Resource
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import classify
from desched.planning.overload.outlook import Outlook, Pasts
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.free_capacity import FreeCapacity
from desched.planning.planner import plan_moves
from desched.planning.plugins import Plugin
from desched.plugins import HOUSE
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import (
    EvictionLimits,
    MetricsSource,
    Policy,
    Protections,
    ResourceRule,
    SteeringRules,
)

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
GIB = 2**30
WINDOW_SECONDS = 300


def amounts(cpu: float = 0, memory_gib: float = 0, **extended: int) -> Amounts:
    return Amounts(
        cpu_millicores=round(cpu * 1000),
        memory_bytes=round(memory_gib * GIB),
        pods=1,
        extended=tuple(sorted(extended.items())),
    )


def node(name: str, cpu: float = 4, memory_gib: float = 16, **fields: Any) -> Node:
    size = msgspec.structs.replace(amounts(cpu, memory_gib), pods=110)
    defaults: dict[str, Any] = {
        "uid": f"uid-{name}",
        "created_at": NOW - timedelta(days=30),
        "labels": {"kubernetes.io/hostname": name},
        "capacity": size,
        "allocatable": size,
    }
    return Node(name=name, **(defaults | fields))


def workload(name: str, replicas: int = 3, namespace: str = "apps", **fields: Any) -> Workload:
    defaults = {"ready_replicas": replicas}
    return Workload("Deployment", namespace, name, f"uid-{name}", replicas, **(defaults | fields))


def pod(name: str, on: str = "", of: str | None = "web", **fields: Any) -> Pod:
    """A running pod of the workload `of` (None: bare) that requests 0.1 cores and 0.1 GiB."""
    request = fields.pop("request", amounts(0.1, 0.1))
    is_pending = not on or fields.get("phase") == "Pending"
    age = timedelta(minutes=1) if is_pending else timedelta(days=1)
    defaults: dict[str, Any] = {
        "namespace": "apps",
        "uid": f"uid-{name}",
        "scheduling": SchedulingClass(request, **fields.pop("scheduling", {})),
        "created_at": NOW - age,
        "started_at": NOW - timedelta(days=1),
        "labels": {"app": of or name},
        "owner": Owner("ReplicaSet", f"{of}-1", f"uid-{of}", "apps/v1") if of else None,
        "node": on,
    }
    return Pod(name=name, **(defaults | fields))


def selector(**labels: str) -> LabelSelector:
    return LabelSelector(
        tuple(Requirement(key, Operator.IN, (value,)) for key, value in labels.items())
    )


def budget(name: str, allowed: int, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget("apps", name, selector(**labels), allowed)


def planned_eviction(pod: PodRef, node: str, to: str, **fields: Any) -> PlannedEviction:
    """A move of a pod of the Deployment shop/web that certainly lands on the node `to`."""
    defaults: dict[str, Any] = {
        "workload": "Deployment shop/web",
        "workload_uid": "uid-web",
        "priority": 0,
        "cpu_millicores": 500.0,
        "memory_bytes": 0.0,
        "relief": (),
        "landing": certain(to),
        "destinations": 1,
        "reason": f"node {node} is hot",
    }
    return PlannedEviction(pod=pod, node=node, **(defaults | fields))


def pressure(ratio: float, **fields: Any) -> ResourcePressure:
    """The CPU of a node whose target is 80 %."""
    defaults: dict[str, Any] = {
        "resource": Resource.CPU,
        "measured": ((300, ratio),),
        "lowest_ratio": ratio,
        "highest_ratio": ratio,
        "low_ratio": 0.3,
        "target_ratio": 0.8,
        "stop_ratio": 0.75,
        "ceiling_ratio": 0.7,
        "overloaded": ratio > 0.8,
    }
    return ResourcePressure(**(defaults | fields))


def certain(node: str) -> tuple[LandingChance, ...]:
    """The forecast of a landing on this node."""
    return (LandingChance(node, 1.0),)


def rule(resource: Resource = Resource.CPU, **fields: Any) -> ResourceRule:
    defaults = {
        "low_ratio": 0.3,
        "target_ratio": 0.8,
        "stop_margin_ratio": 0.05,
        "ceiling_margin_ratio": 0.1,
        "windows_seconds": () if resource is Resource.PODS else (WINDOW_SECONDS,),
    }
    return ResourceRule(resource=resource, **(defaults | fields))


UNLIMITED = EvictionLimits(
    total=100,
    node=100,
    namespace=None,
    workload=None,
    in_flight_total=None,
    in_flight_workload=None,
    in_flight_destination=None,
    per_minute=None,
    workload_hourly=None,
    slow_start=False,
)


def no_limits_but(**fields: Any) -> EvictionLimits:
    """Limits of a policy that names only these."""
    return msgspec.structs.replace(UNLIMITED, **fields)


STEERED: Mapping[str, Any] = {
    "max_landing_risk": 0.15,
    "steering": SteeringRules(SteeringMode.WHEN_NEEDED, 100),
}
"""Fields of a policy whose soft taints keep replacements where they do no harm."""


def policy(*rules: ResourceRule, **fields: Any) -> Policy:
    """A policy on CPU and memory without limits on evictions or risk, and without steering.

    `fields` replace its own.
    """
    defaults: dict[str, Any] = {
        "source": "test",
        "digest": "test",
        "rules": rules or (rule(Resource.CPU), rule(Resource.MEMORY, target_ratio=0.85)),
        "metrics": MetricsSource(""),
        "limits": UNLIMITED,
        "protections": Protections(),
        "max_landing_risk": 1.0,
        "steering": SteeringRules(SteeringMode.OFF),
        "deviation_floor_ratio": 0.0,
        "plugins": HOUSE,
    }
    return Policy(**(defaults | fields))


def house(*others: Plugin) -> tuple[Plugin, ...]:
    """The plugins of desched, each of these in place of the one of its kind."""
    of_kind = {type(plugin): plugin for plugin in others}
    return tuple(of_kind.get(type(plugin), plugin) for plugin in HOUSE)


def measured(*ratios: float) -> Measured:
    """Levels for windows of 5, 10, … minutes."""
    return Measured(tuple(Level(WINDOW_SECONDS * (i + 1), ratio) for i, ratio in enumerate(ratios)))


def unknown(reason: UnknownReason = UnknownReason.ABSENT) -> Unknown:
    return Unknown(reason)


NodeRatios = Mapping[str, tuple[Measured | Unknown | float, Measured | Unknown | float]]


def load(
    nodes: NodeRatios,
    pods: Mapping[str, tuple[float, float]] | None = None,
    problems: Iterable[tuple[LoadProblem, str]] = (),
) -> ClusterLoad:
    """Nodes as name → (cpu, memory) ratios; pods as name → (cores, GiB), all in `apps`."""

    def known(value: Measured | Unknown | float) -> Measured | Unknown:
        return measured(value) if isinstance(value, float | int) else value

    return ClusterLoad(
        {n: {Resource.CPU: known(c), Resource.MEMORY: known(m)} for n, (c, m) in nodes.items()},
        {
            ("apps", name): PodUsage((cores * 1000,), (gib * GIB,))
            for name, (cores, gib) in (pods or {}).items()
        },
        tuple(problems),
    )


def with_readable_owners(cluster: ClusterState) -> ClusterState:
    """The cluster with the owners of pods and of controllers, unless it says which can be read."""
    if cluster.declared_owners or cluster.unread_kinds:
        return cluster
    owned = [(pod.namespace, pod.owner) for pod in cluster.pods if pod.owner]
    owned += [(key[0], owner) for key, owner in cluster.controller_owners.items()]
    owners: dict[ControllerKey, Mapping[str, str]] = {
        (where, each.uid): {} for where, each in owned
    }
    return msgspec.structs.replace(cluster, declared_owners=owners)


def snapshot(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    of_load: ClusterLoad,
    workloads: Iterable[Workload] = (),
    **cluster: Any,
) -> Snapshot:
    if "declared_groups" in cluster:
        groups = GangObjects(tuple(cluster.pop("declared_groups")))
        cluster["extras"] = {**cluster.get("extras", {}), **groups.extras}
    owned = [*workloads] or [workload("web", replicas=20)]
    by_controller = {(w.namespace, w.uid): w for w in owned}
    state = ClusterState(tuple(nodes), tuple(pods), by_controller, **cluster)
    return Snapshot(with_readable_owners(state), of_load, NOW)


def planned(seen: Snapshot, by: Policy | None = None, state: State | None = None) -> Plan:
    book = UsageBook(seen, by or policy(), seen.taken_at)
    context = EligibilityContext.of(book, state or State())
    return plan_moves(context, classify(book, context.state))


def context_of(
    cluster: ClusterState, by: Policy | None = None, state: State | None = None
) -> EligibilityContext:
    """The context of a plan for a cluster without known load."""
    seen = Snapshot(cluster, ClusterLoad({}, {}), NOW)
    return EligibilityContext.of(UsageBook(seen, by or policy(), NOW), state or State())


def free_capacity(cluster: ClusterState) -> FreeCapacity:
    """The free capacity of a cluster without known load, by the scheduler's filters."""
    context = context_of(cluster)
    outlook = Outlook(Pasts(context.book, context.state), ())
    return FreeCapacity.of(context, {}, (), outlook)


def evicted(plan: Plan) -> list[str]:
    return [eviction.pod.name for eviction in plan.evictions]


def reasons(plan: Plan) -> dict[str, str]:
    return {refusal.pod.name: refusal.reason.value for refusal in plan.refusals}


def followed_up(
    state: State,
    seen: Snapshot,
    by: Policy,
    now: datetime = NOW,
    stayed: Iterable[EvictionRecord] = (),
) -> FollowUp:
    """What a cycle makes of its earlier evictions before it plans."""
    context = EligibilityContext.of(UsageBook(seen, by, now), state)
    return follow_up(context, classify(context.book, state), stayed)
