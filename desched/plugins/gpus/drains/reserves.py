"""Reserves: nodes with enough idle GPUs that nobody waits for yet."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from desched.model.cluster import ClusterState, Node
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.balance_scope import BalanceScope
from desched.plugins.devices import is_whole_gpu, whole_gpus
from desched.plugins.gpus.drains.drain import Drains
from desched.plugins.gpus.drains.rules import Reserve
from desched.policy.policy import Policy

_USUAL = "nvidia.com/gpu"


def resource_of(cluster: ClusterState) -> str:
    """The resource of most nodes with whole GPUs."""
    counts = Counter(
        name
        for node in cluster.nodes
        for name, count in node.allocatable.extended
        if count and is_whole_gpu(name)
    )
    return max(sorted(counts), key=lambda name: counts[name], default=_USUAL)


def domain_of(reserve: Reserve, cluster: ClusterState, policy: Policy) -> BalanceScope:
    """The domains of which one must have all nodes of the reserve."""
    return BalanceScope(cluster, replace(policy, balance_scope=reserve.domain))


def free_nodes(reserve: Reserve, context: EligibilityContext) -> list[str]:
    """The nodes that have the idle GPUs of the reserve, in the domain with most of them.

    At most as many as it needs; those that are held already come first. Those that are drained for
    something else are not free.
    """
    cluster, policy = context.cluster, context.policy
    under_way = Drains.of(context.state.extras).under_way
    others = (drain for drain in under_way if drain.reserve != str(reserve))
    drained = {node for drain in others for node in drain.nodes}
    by_domain: dict[str, list[Node]] = defaultdict(list)
    domains = domain_of(reserve, cluster, policy)
    for node in cluster.nodes:
        domain = domains.domain(node)
        usable = node.ready and not (node.unschedulable or node.deleting)
        usable &= policy.looks_at(node.labels) and node.name not in drained
        if domain is not None and usable and idle_gpus(node, cluster) >= reserve.gpus:
            by_domain[domain].append(node)

    def held(nodes: Sequence[Node]) -> tuple[int, int]:
        return min(len(nodes), reserve.nodes), sum(n.steered_until is not None for n in nodes)

    best = max((by_domain[name] for name in sorted(by_domain)), key=held, default=[])
    in_order = sorted(best, key=lambda node: (node.steered_until is None, node.name))
    return [node.name for node in in_order[: reserve.nodes]]


def lacking(reserve: Reserve, context: EligibilityContext) -> int:
    """How many nodes the reserve lacks."""
    return reserve.nodes - len(free_nodes(reserve, context))


def idle_gpus(node: Node, cluster: ClusterState) -> int:
    """The whole GPUs of the node that no pod requests."""
    pods = cluster.pods_by_node.get(node.name, ())
    used = sum(whole_gpus(pod.scheduling.requests) for pod in pods if not pod.finished)
    return whole_gpus(node.allocatable) - used
