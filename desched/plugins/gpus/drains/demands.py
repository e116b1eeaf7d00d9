"""What waits for GPUs, and may have nodes drained for it by the policy."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from desched.gangs.members import gang_counts, gangs_of
from desched.gangs.objects import GangKey
from desched.gangs.pod_groups import PodGroup
from desched.model.cluster import Pod, SchedulingClass, Toleration
from desched.model.groups import grouped
from desched.model.plan import RefusalReason
from desched.model.resources import Amounts
from desched.model.state import PauseScope
from desched.network.objects import NetworkObjects
from desched.planning.eligibility.context import EligibilityContext
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.drains.drain import Drain, Drains, Unserved, drains_of
from desched.plugins.gpus.drains.reserves import lacking, resource_of
from desched.plugins.gpus.drains.rules import GpuDrainRules, Reserve

DAY = timedelta(days=1)


class Demand(msgspec.Struct, frozen=True):
    """Pods that wait for GPUs and run only together, a pod alone, or stand-ins for a reserve.

    Only pods of at most this `priority` leave for it. `gang` is set if the pods are one, `reserve`
    if they are stand-ins: then all of them need nodes of their own.
    """

    pods: tuple[Pod, ...]
    priority: int
    gang: PodGroup | None = None
    reserve: Reserve | None = None

    @property
    def gpus(self) -> int:
        """The GPUs of all pods, or of each node of a reserve."""
        if self.reserve is not None:
            return self.reserve.gpus
        return sum(whole_gpus(pod.scheduling.requests) for pod in self.pods)

    @property
    def namespace(self) -> str:
        """That of its pods; empty for a reserve."""
        return "" if self.reserve else self.pods[0].namespace

    def __str__(self) -> str:
        return str(self.gang or self.reserve or f"pod {self.pods[0].ref}")

    def is_of(self, drain: Drain) -> bool:
        """Whether the drain is for this demand, or for some of its pods."""
        if self.reserve is not None:
            return drain.reserve == str(self.reserve)
        return not {pod.ref for pod in self.pods}.isdisjoint(drain.pods)


class Demands(msgspec.Struct, frozen=True):
    """What waits, the most important first, and what waits in vain."""

    served: tuple[Demand, ...] = ()
    unserved: tuple[Unserved, ...] = ()

    @classmethod
    def of(cls, context: EligibilityContext, rules: GpuDrainRules) -> "Demands":
        """What waits by these rules, but for what drains under way are for."""
        under_way = Drains.of(context.state.extras).under_way
        served: list[Demand] = []
        unserved: list[Unserved] = []
        for demand in (*_of_pods(context, rules), *cls.of_reserves(context, rules)):
            if any(demand.is_of(drain) for drain in under_way):
                continue
            if reason := _why_not(demand, context, rules):
                unserved.append(Unserved(str(demand), demand.gpus, reason))
            else:
                served.append(demand)
        return cls(tuple(served), tuple(unserved))

    @staticmethod
    def of_reserves(context: EligibilityContext, rules: GpuDrainRules) -> Iterator[Demand]:
        """The reserves that lack room."""
        for reserve in rules.reserves:
            if not lacking(reserve, context):
                continue
            amounts = Amounts(pods=1, extended=((resource_of(context.cluster), reserve.gpus),))
            stand_in = SchedulingClass(amounts, tolerations=(Toleration(operator="Exists"),))
            pods = tuple(
                Pod("", f"reserve-{i}", f"reserve-{i}", stand_in, context.now)
                for i in range(reserve.nodes)
            )
            yield Demand(pods, reserve.priority, reserve=reserve)

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self.served or self.unserved)


def wanted(context: EligibilityContext, rules: GpuDrainRules) -> bool:
    """Whether anything may be drained now: only then the pods of nodes with GPUs matter."""
    return _is_under_way(context) or bool(Demands.of(context, rules).served)


def is_due(context: EligibilityContext, rules: GpuDrainRules) -> bool:
    """Whether a plan has anything to say about drains."""
    return _is_under_way(context) or bool(Demands.of(context, rules))


def _is_under_way(context: EligibilityContext) -> bool:
    return bool(Drains.of(context.state.extras).under_way)


def waiting_pods(context: EligibilityContext) -> Iterator[Pod]:
    """The pods that no node can take now, as far as their schedulers know."""
    for pod in context.cluster.pods:
        if pod.unschedulable and not (pod.node or pod.finished or pod.deleting or pod.gated):
            yield pod


def _of_pods(context: EligibilityContext, rules: GpuDrainRules) -> list[Demand]:
    """The demands of pods: by priority, and of equal ones the one that waits longest."""
    gangs: dict[GangKey, PodGroup] = {}
    members: list[tuple[GangKey, Pod]] = []
    demands: list[Demand] = []
    for pod in waiting_pods(context):
        if gang := gang_of(pod, context):
            gangs[gang.key] = gang
            members.append((gang.key, pod))
        elif whole_gpus(pod.scheduling.requests):
            demands.append(Demand((pod,), pod.priority))
    for key, pods in grouped(members).items():
        if any(whole_gpus(pod.scheduling.requests) for pod in pods):
            in_order = tuple(sorted(pods, key=_largest_first))
            demands.append(Demand(in_order, min(pod.priority for pod in pods), gangs[key]))
    ripe = timedelta(seconds=rules.pending_seconds)
    may = (
        demand
        for demand in demands
        if all(context.now - pod.created_at >= ripe for pod in demand.pods)
        and is_named(demand.namespace, demand.priority, rules)
    )
    return sorted(
        may, key=lambda d: (-d.priority, min(p.created_at for p in d.pods), d.pods[0].ref)
    )


def gang_of(pod: Pod, context: EligibilityContext) -> PodGroup | None:
    """The gang that the pod waits with, None if it waits alone.

    A Job of Volcano and its PodGroup are one gang by two marks: the one counts that keeps the pods
    together, and then the one that needs most of them.
    """

    def strictest(group: PodGroup) -> tuple[bool, bool, int]:
        is_hard = group.topology is not None and group.topology.is_hard
        return bool(group.part), not is_hard, -context.derived(gang_counts)[group.key].minimum

    return min(gangs_of(pod, context), key=strictest, default=None)


def is_named(namespace: str, priority: int, rules: GpuDrainRules) -> bool:
    """Whether the policy names pods of this namespace and priority."""
    by_priority = rules.least_priority is not None and priority >= rules.least_priority
    return by_priority or namespace in rules.namespaces


def _largest_first(pod: Pod) -> tuple[int, int, int, object]:
    requests = pod.scheduling.requests
    gpus = whole_gpus(requests)
    return -gpus, -requests.cpu_millicores, -requests.memory_bytes, pod.ref


def _why_not(demand: Demand, context: EligibilityContext, rules: GpuDrainRules) -> str:
    """Why no drain may begin for it, before any node is looked at; empty if one may."""
    for pod in demand.pods:
        if pod.scheduling.unevaluated:
            names = ", ".join(pod.scheduling.unevaluated)
            return f"{RefusalReason.CONSTRAINT_NOT_EVALUATED}: {names}"
        if pod.has_resource_claims and pod.uncounted_claims:
            return f"{RefusalReason.RESOURCE_CLAIMS}: {pod.uncounted_claims}"
    if demand.gang is not None and (reason := _incomplete(demand, demand.gang, context)):
        return reason
    for pause in context.state.pauses:
        if pause.scope is PauseScope.NAMESPACE and pause.subject == demand.namespace:
            return pause.describe()
    if moves_today(demand.namespace, context) >= rules.daily_moves:
        where = f"namespace {demand.namespace}" if demand.namespace else "reserves"
        return f"drains for {where} have made {rules.daily_moves} moves within a day"
    return ""


def _incomplete(demand: Demand, gang: PodGroup, context: EligibilityContext) -> str:
    """Why the gang would not start even if its waiting pods had room."""
    minimum, available = context.derived(gang_counts)[gang.key]
    missing = minimum - available - len(demand.pods)
    if missing > 0:
        return f"{missing} of the {minimum} pods that it needs do not wait for a node"
    topology = gang.topology
    return NetworkObjects.of(context.cluster.extras).why_unclear(topology) if topology else ""


def moves_today(namespace: str, context: EligibilityContext) -> int:
    """The moves within a day for pods of the namespace, or for reserves if it is empty."""
    return sum(
        drain.moves
        for drain in drains_of(context.state)
        if drain.namespace == namespace and context.now - drain.began_at < DAY
    )
