"""Relieved nodes that would attract new pods, although they have no room for what those use.

kube-scheduler sees requests. A node that lost pods has the fewest, and gets what comes next, such as
all Jobs of the next hour. It keeps a soft taint until its requests are like those of other nodes, or
its load is so low that it can bear them.
"""

from collections.abc import Iterator

import numpy as np

from desched.model.plan import PlannedTaint
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure

MOST_SHARE = 0.3
"""Of the nodes: on the others, what comes must find enough room."""

COOL_SHARE = 0.5
"""A node below this share of its target is no trap."""


def relieved_nodes(state: State) -> frozenset[str]:
    """The nodes that desched has moved pods off, as long as it knows the moves."""
    nodes = {move.node for move in state.moves} | {record.node for record in state.evictions}
    return frozenset(nodes - {""})


def taints_for_traps(context: EligibilityContext, pressure: Pressure) -> Iterator[PlannedTaint]:
    """The taints of relieved nodes, that with the fewest requests first."""
    relieved = relieved_nodes(context.state) & pressure.known.keys()
    if not relieved:
        return
    requested = {name: _requested_share(name, context, pressure) for name in pressure.known}
    usual = float(np.median(list(requested.values())))
    traps = sorted((requested[name], name) for name in relieved if requested[name] < usual)
    for share, name in traps[: int(MOST_SHARE * len(requested))]:
        if not _is_cool(name, pressure):
            missing = 100 * (usual - share)
            why = f"{missing:.0f} points less are requested of it than of others, so all new pods"
            yield PlannedTaint(name, f"{why} would come here")


def _is_cool(name: str, pressure: Pressure) -> bool:
    """Whether the node has so little load that new pods do no harm."""
    outlook = pressure.outlook
    return bool((outlook.level_of(name) <= COOL_SHARE * outlook.targets_of(name)).all())


def _requested_share(name: str, context: EligibilityContext, pressure: Pressure) -> float:
    """The share of the CPU that is requested on a node by pods that do not end by themselves."""
    allocatable = pressure.known[name].node.allocatable.cpu_millicores
    pods = context.cluster.pods_by_node.get(name, ())
    lasting = (p for p in pods if not p.finished and not (p.owner and p.owner.kind == "Job"))
    return sum(p.scheduling.requests.cpu_millicores for p in lasting) / max(1, allocatable)
