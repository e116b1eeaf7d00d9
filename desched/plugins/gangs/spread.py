"""How far apart the pods of each gang are."""

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from desched.gangs.members import gang_members, gangs_of
from desched.model.cluster import Pod
from desched.model.plan import NodeClass, NodeVerdict
from desched.network.levels import NetworkLevels
from desched.network.plugin import domains_of
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.plugins.gangs.facts import GangSpread

MOST_GANGS = 50
"""Gangs of which the spread is known; those on overloaded nodes first."""


def gang_spreads(
    context: EligibilityContext, nodes: Sequence[NodeVerdict]
) -> tuple[GangSpread, ...]:
    """How far apart the pods of each gang are; `nodes` are the verdicts of a plan."""
    hot = {node.node for node in nodes if node.node_class is NodeClass.OVERLOADED}
    return tuple(_spreads(context, hot))


def _spreads(context: EligibilityContext, hot: set[str]) -> Iterator[GangSpread]:
    gangs: dict[str, dict[str, Pod]] = {}
    for pod in chain.from_iterable(context.derived(gang_members).values()):
        for group in gangs_of(pod, context) if pod.node else ():
            gangs.setdefault(str(replace(group, part="")), {})[pod.uid] = pod
    nodes_of = {
        name: [p.node for p in pods.values()] for name, pods in gangs.items() if len(pods) > 1
    }
    ranked = sorted(nodes_of, key=lambda name: (hot.isdisjoint(nodes_of[name]), name))
    if not ranked:
        return
    arrays = NodeArrays(context.cluster.nodes)
    network = NetworkLevels(arrays, context.cluster, domains_of(context.policy).rungs)
    for name in ranked[:MOST_GANGS]:
        on = [arrays.index[node] for node in nodes_of[name] if node in arrays.index]
        spread = network.spread(on)
        nodes = len(set(nodes_of[name]))
        yield GangSpread(
            name, len(nodes_of[name]), nodes, *spread, not hot.isdisjoint(nodes_of[name])
        )
