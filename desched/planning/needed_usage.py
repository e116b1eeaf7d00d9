"""The pods whose own usage matters, and the nodes where the sum of all pods does."""

from collections.abc import Iterable, Iterator

from desched.model.cluster import Pod
from desched.model.load import Measured, PodChoice, UnknownReason
from desched.model.plan import RefusalReason
from desched.model.resources import Resource
from desched.planning.clocks import SEEMS_EARLIER
from desched.planning.overload.measurement import may_exceed_by_pods
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.overload.saturation import saturation
from desched.planning.situation import Situation
from desched.policy.compatibility import SteeringMode

_DECIDED_BY_SUMS = {RefusalReason.POOL_SATURATED, RefusalReason.LOAD_NOT_SHOWN}


def needed_pods(situation: Situation) -> PodChoice:
    """All pods whose usage the follow-up and the plan look up, and perhaps others.

    What is read of them may show that further ones are needed: that a pod is throttled, or that a
    sum was too low. If all that is needed by its own load is read, a decision lacks nothing. While
    no node is overloaded only the class of some nodes decides, and pods that come or go count with
    their requests.
    """
    context, pressure, policy = situation.context, situation.pressure, situation.context.policy
    sums = frozenset(_summed(situation))
    nodes = {*_contradicted(situation), *_awaiting(situation), *_steered(situation)}
    if policy.deviation or saturation(pressure.known.values(), policy.destination_selector):
        # The mean of all nodes decides, so each pod that leaves one counts.
        nodes |= {pod.node for pod in context.cluster.leaving_pods}
    sources = {loaded.node.name for loaded in pressure.sources} | _of_plugins(situation)
    if not sources:
        return PodChoice(frozenset(nodes), sums=sums)
    companions = tuple(
        pod for plugin in policy.plugins for pod in plugin.companions(sources, context)
    )
    by_controller = [
        *companions,
        *_arriving(situation),
        *_leaving(situation),
        *_short_of_cpu(sources, companions, situation),
    ]
    return PodChoice(
        frozenset(nodes | sources | {p.node for p in by_controller if p.node and not p.owner}),
        frozenset(p.controller for p in by_controller if p.controller),
        sums,
        _with_pasts(situation),
    )


def _with_pasts(situation: Situation) -> frozenset[str]:
    """The nodes whose pods' pasts decide: sources, and the nodes that moved pods have left."""
    pressure, state = situation.pressure, situation.context.state
    nodes = situation.context.cluster.node_by_name
    sources = {
        source.node.name for source in pressure.sources if source.node.name not in pressure.waiting
    }
    if not sources:
        return frozenset()
    left = {move.node for move in state.moves} | {record.node for record in state.evictions}
    return frozenset(sources | (left & nodes.keys()))


def _summed(situation: Situation) -> Iterator[str]:
    """The nodes of which all pods together decide something.

    Where a node may lose a pod, that is any: the sum shows whether the node's own load is true, and
    how full its memory is for others. Else it decides only whether a node is overloaded by it.
    """
    book, pressure = situation.context.book, situation.pressure
    pods = book.snapshot.cluster.pods_by_node
    waits = pressure.waiting
    relieves = bool(_of_plugins(situation)) or any(
        name not in waits or waits[name].reason in _DECIDED_BY_SUMS
        for name in (source.node.name for source in pressure.sources)
    )
    for node in book.snapshot.cluster.nodes:
        if pods.get(node.name) and (
            relieves or book.policy.deviation or _may_exceed(pressure.known.get(node.name), book)
        ):
            yield node.name


def _of_plugins(situation: Situation) -> set[str]:
    """The nodes that moves of plugins may leave."""
    context, pressure = situation.context, situation.pressure
    plugins = context.policy.plugins
    return {name for plugin in plugins for name in plugin.sources(context, pressure)}


def _may_exceed(loaded: LoadedNode | None, book: UsageBook) -> bool:
    """Whether the sum of its pods may show that a node is overloaded."""
    if loaded is None or Resource.MEMORY not in loaded.highest:
        return False
    load = book.snapshot.load.nodes[loaded.node.name][Resource.MEMORY]
    target = loaded.source(Resource.MEMORY).thresholds.target_ratio
    return isinstance(load, Measured) and may_exceed_by_pods(loaded.node, load, target)


def _contradicted(situation: Situation) -> Iterator[str]:
    """The nodes that their pods' sum contradicts: it proves nothing, as they may not exist."""
    for verdict in situation.pressure.verdicts:
        if verdict.reason is UnknownReason.PODS_ABOVE_NODE:
            yield verdict.node


def _awaiting(situation: Situation) -> Iterator[str]:
    """The nodes on which replacements of evictions in flight are, or are expected."""
    in_flight = situation.context.state.in_flight
    if not in_flight:
        return
    cluster = situation.context.cluster
    workloads = {record.workload_uid for record in in_flight}
    since = min(record.evicted_at for record in in_flight) - SEEMS_EARLIER
    for pod in cluster.pods:
        if pod.created_at >= since and pod.node:
            workload = cluster.workload_of(pod)
            if workload is not None and workload.uid in workloads:
                yield pod.node
    yield from (record.expected_node for record in in_flight)


def _steered(situation: Situation) -> Iterator[str]:
    """The nodes whose load decides whether desched's taint stays."""
    if situation.context.policy.steering.mode is SteeringMode.ALWAYS:
        nodes = situation.context.cluster.nodes
        yield from (node.name for node in nodes if node.steered_until)


def _arriving(situation: Situation) -> Iterator[Pod]:
    """The pods that the windows do not fully show on a node with known load, and pending ones."""
    book, judged = situation.context.book, situation.pressure.known
    for node, young in book.young_by_node.items():
        if node in judged:
            yield from (pod for pod in young if not pod.deleting)
    for pod in situation.context.cluster.pods:
        if not (pod.node or pod.finished or pod.deleting or pod.gated):
            yield pod


def _leaving(situation: Situation) -> Iterator[Pod]:
    """The pods that leave a node with known load; its forecast is without them."""
    judged, now = situation.pressure.known, situation.context.now
    for pod in situation.context.cluster.leaving_pods:
        if pod.node in judged and not (pod.finished or pod.lingers(now)):
            yield pod


def _short_of_cpu(
    sources: Iterable[str], companions: Iterable[Pod], situation: Situation
) -> Iterator[Pod]:
    """The pods that may move and lack CPU; the usage of their siblings shows what they need."""
    book = situation.context.book
    if Resource.CPU in book.windows:
        by_node = situation.context.cluster.pods_by_node
        yield from filter(book.is_short_of_cpu, companions)
        for node in sources:
            yield from filter(book.is_short_of_cpu, by_node.get(node, ()))
