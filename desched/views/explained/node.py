"""Why a node is as it is: its load, its pods, and what of its excess remains."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from desched.decision import Decision
from desched.model.cluster import Node
from desched.model.groups import grouped
from desched.model.load import Measured, SeenLoad, Unknown
from desched.model.plan import NodeVerdict, PlannedEviction, ResourcePressure
from desched.model.resources import Resource
from desched.planning.overload.huge_pages import ordinary_bytes
from desched.views.explained.changes import changes_for_node
from desched.views.explained.pods import PodOutcomes, largest_first
from desched.views.explained.values import LoadSummary, NodeExplanation, PodSummary, StayingLoad

_NOT_SEEN = SeenLoad()


def explain_node(node: Node, decision: Decision) -> NodeExplanation:
    """The explanation of a node of the decision's cluster."""
    context, plan = decision.context, decision.plan
    verdict = next(each for each in plan.nodes if each.node == node.name)
    outcomes = PodOutcomes(decision)
    on_node = context.cluster.pods_by_node.get(node.name, ())
    pods = largest_first(map(outcomes.summary, on_node))
    loads = tuple(_loads(node, verdict, pods, decision))
    return NodeExplanation(
        verdict,
        loads,
        pods,
        tuple(eviction for eviction in plan.evictions if node.name in eviction.likely_nodes),
        changes_for_node(verdict, plan, loads, _unknown_gpus(node, decision)),
        tuple(
            note
            for plugin in context.policy.plugins
            for note in plugin.views.explain_node(node.name, decision)
        ),
    )


def _loads(
    node: Node, verdict: NodeVerdict, pods: Sequence[PodSummary], decision: Decision
) -> Iterator[LoadSummary]:
    book = decision.context.book
    pressures = {pressure.resource: pressure for pressure in verdict.pressures}
    unjudged = {load.resource: load for load in verdict.unjudged}
    seen = book.snapshot.load.seen.get(node.name, {})
    for resource in (Resource.CPU, Resource.MEMORY, Resource.GPU, Resource.PODS):
        pressure = pressures.get(resource)
        load = pressure or unjudged.get(resource)
        if load is None:
            if resource is Resource.GPU and _unknown_gpus(node, decision):
                yield LoadSummary(resource, (), None, None, None)
            continue
        pods_ratio = _pods_ratio(node, resource, decision)
        now = load.measured[0][1] if load.measured else None
        yield LoadSummary(
            resource,
            load.measured,
            seen.get(resource, _NOT_SEEN).age_seconds,
            pods_ratio,
            _others(now, pods_ratio, pressure, resource),
            *_excess(pressure, (e for e in decision.plan.evictions if e.node == node.name)),
            tuple(_staying(resource, pods))
            if pressure and pressure.overloaded and pods_ratio is not None
            else (),
        )


def _others(
    now: float | None,
    pods_ratio: float | None,
    pressure: ResourcePressure | None,
    resource: Resource,
) -> float | None:
    """What is neither of the node's pods nor of those that ended or left."""
    if now is None or pods_ratio is None or resource is Resource.PODS:
        return None
    departed = pressure.departed_ratio if pressure else 0.0
    return max(0.0, now - pods_ratio - departed)


def _pods_ratio(node: Node, resource: Resource, decision: Decision) -> float | None:
    """The usage of measured pods that are not about to leave, in the shortest window, as a share.

    That of GPUs is known of all of its pods with a GPU, or of none.
    """
    book = decision.context.book
    if resource is not Resource.PODS and not book.has_read(node.name):
        return None
    gpus = _gpus(node, decision)
    sizes = {
        Resource.CPU: node.capacity.cpu_millicores,
        Resource.GPU: gpus.devices if isinstance(gpus, Measured) else 0,
        Resource.MEMORY: ordinary_bytes(node),
        Resource.PODS: node.allocatable.pods,
    }
    pods = decision.context.cluster.pods_by_node.get(node.name, ())
    staying = (pod for pod in pods if not pod.deleting or pod.lingers(book.now))
    used = [book.measured(pod, resource) for pod in staying]
    if resource is Resource.GPU and not all(used):
        return None
    return sum(amounts[0] for amounts in used if amounts) / max(1, sizes[resource])


def _unknown_gpus(node: Node, decision: Decision) -> Unknown | None:
    """The load of the node's GPUs if it is not known, and the policy has a target for it."""
    load, watched = _gpus(node, decision), decision.context.book.windows
    return load if Resource.GPU in watched and isinstance(load, Unknown) else None


def _gpus(node: Node, decision: Decision) -> Measured | Unknown | None:
    loads = decision.context.book.device_loads.get(Resource.GPU)
    return loads.nodes.get(node.name) if loads is not None else None


def _excess(
    pressure: ResourcePressure | None, leaving: Iterable[PlannedEviction]
) -> tuple[float | None, float | None]:
    """What an overloaded resource is above its stop line, and what the plan takes off it."""
    if pressure is None or not pressure.overloaded:
        return None, None
    reliefs = (each for eviction in leaving for each in eviction.relief)
    relief = sum(each.ratio for each in reliefs if each.resource is pressure.resource)
    return pressure.lowest_ratio - pressure.stop_ratio, relief


def _staying(resource: Resource, pods: Iterable[PodSummary]) -> list[StayingLoad]:
    """The load of the pods that stay by reason, the largest first."""
    ratio_of = {
        Resource.CPU: attrgetter("cpu_ratio"),
        Resource.GPU: attrgetter("gpu_ratio"),
    }.get(resource, attrgetter("memory_ratio"))
    by_reason = grouped(
        (pod.reason, ratio_of(pod) or 0.0) for pod in pods if pod.reason is not None
    )
    loads = [StayingLoad(reason, len(ratios), sum(ratios)) for reason, ratios in by_reason.items()]
    return sorted(loads, key=lambda load: (-load.ratio, load.reason))
