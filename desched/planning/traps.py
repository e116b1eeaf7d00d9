"""What new pods of this cluster would do to a relieved node, and the taints that keep them off.

kube-scheduler sees requests. A node that lost pods has the fewest, and gets what comes next, such
as all Jobs of the next hour. A few relieved nodes keep a soft taint until as much is requested of
them as of others, or they bear what would come. With more of them the other nodes would get too
much, so what the freed requests of further nodes attract is a cost of the move.
"""

import math
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import numpy as np

from desched.model.cluster import Pod
from desched.model.plan import Plan, PlannedTaint
from desched.model.resources import Resource
from desched.model.state import Newcomers, State
from desched.planning.arrays import Floats
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.overload.pod_usage import UsageBook

MOST_SHARE = 0.2
MOST_DISPLACED_RATIO = 0.004
"""Of the nodes that keep the taint, and of the CPU of the others, which get what comes instead."""

ONE_POD_SHARE, USE_OF_REQUESTS = 0.03, 2.0
"""At least one pod comes to the node with the fewest requests. It requests about this share of its
CPU, and may use this multiple of that, unless Jobs have shown more."""

NEW_SECONDS = 3600
LEAST_KNOWN = 3
USE_HALF_LIFE, RATE_HALF_LIFE = timedelta(hours=12), timedelta(hours=2)
"""New pods show what they use where at least so many are measured. What was seen fades slowly."""

MOST_REQUESTED_SHARE = 0.05
"""Of the nodes: more new pods in an hour are those of a new cluster, which do not come again."""

_EPSILON = 1e-9


class Traps(msgspec.Struct, frozen=True):
    """How attractive the known nodes are for new pods.

    `requested` is the share of each node's CPU that is requested by pods that do not end by
    themselves. The nodes `protected` keep the soft taint; `more` others may get it. New pods fill
    the nodes without it up to `line`, and use so many times what they request.
    """

    requested: dict[str, float]
    protected: tuple[str, ...] = ()
    more: int = 0
    line: float = 0.0
    use_of_requests: float = 0.0

    @classmethod
    def of(cls, context: EligibilityContext, pressure: Pressure, *, may_steer: bool) -> "Traps":
        """The traps among the nodes that desched has relieved."""
        requested = {name: _requested_share(name, context, pressure) for name in pressure.known}
        if not requested:
            return cls({})
        usual, newcomers = float(np.median(list(requested.values()))), context.state.newcomers
        relieved = _relieved(context.state) & requested.keys()
        found = sorted((requested[n], n) for n in relieved if requested[n] < usual)
        most = _most_protected(newcomers, len(requested)) if may_steer else 0
        shares = np.array(list(requested.values()))
        line = _water_line(shares, newcomers.requested_nodes) if newcomers else 0.0
        use = max(USE_OF_REQUESTS, newcomers.use_of_requests if newcomers else 0.0)
        protected = tuple(
            name
            for share, name in found
            if _would_exceed(name, use * max(ONE_POD_SHARE, line - share), pressure)
        )[:most]
        others = np.array([share for name, share in requested.items() if name not in protected])
        line, use = 0.0, 0.0
        if newcomers is not None and len(others):
            line = _water_line(others, newcomers.requested_nodes)
            use = newcomers.use_of_requests
        return cls(requested, protected, most - len(protected), line, use)

    def taints(self) -> Iterator[PlannedTaint]:
        """The taints of relieved nodes."""
        for name in self.protected:
            share = f"{self.requested[name]:.0%}"
            why = f"only {share} of its CPU is requested since it was relieved: new pods would come"
            yield PlannedTaint(name, why)

    def attracted(self, node: str, freed_shares: Floats) -> Floats:
        """The CPU that new pods would use there, as a ratio, if so much less were requested."""
        share = self.requested.get(node, 0.0)
        if node in self.protected or self.more > 0:
            return np.zeros_like(freed_shares)
        before = max(0.0, self.line - share)
        more: Floats = np.maximum(0.0, self.line - share + freed_shares) - before
        return more * self.use_of_requests

    def after_relief_of(self, node: str) -> "Traps":
        """The same once this node has lost a pod: it may get the taint, too."""
        if node in self.protected or self.more <= 0:
            return self
        return msgspec.structs.replace(self, protected=(*self.protected, node), more=self.more - 1)


NO_TRAPS = Traps({})
"""Without any new pods."""


def _most_protected(newcomers: Newcomers | None, nodes: int) -> int:
    """How many nodes may keep the taint so that the others bear what comes."""
    share = MOST_SHARE
    if newcomers is not None:
        used = newcomers.use_of_requests * newcomers.requested_nodes / nodes
        share = min(share, MOST_DISPLACED_RATIO / max(used, MOST_DISPLACED_RATIO))
    return math.ceil(share * nodes)


def _relieved(state: State) -> frozenset[str]:
    """The nodes that desched has moved pods off, and those that are traps since older moves."""
    nodes = {move.node for move in state.moves} | {record.node for record in state.evictions}
    return frozenset(nodes - {""}) | frozenset(state.traps)


def traps_after(plan: Plan, state: State) -> tuple[str, ...]:
    """The relieved nodes that keep the taint by this plan, for the state of the next cycle."""
    if plan.hold is not None:
        return state.traps
    lasting = {taint.node for taint in plan.taints if taint.until_landed_of is None}
    return tuple(sorted(lasting & _relieved(state)))


def _would_exceed(name: str, cpu_ratio: float, pressure: Pressure) -> bool:
    """Whether so much more use of its CPU would bring the node above its target."""
    outlook = pressure.outlook
    if Resource.CPU not in outlook.pasts.resources:
        return False
    cpu = outlook.pasts.resources.index(Resource.CPU)
    return bool(outlook.level_of(name)[cpu] + cpu_ratio > outlook.targets_of(name)[cpu])


def _requested_share(name: str, context: EligibilityContext, pressure: Pressure) -> float:
    """The share of a node's CPU that is requested by pods that do not end by themselves."""
    pods = context.cluster.pods_by_node.get(name, ())
    lasting = (p for p in pods if not p.finished and not p.of_job)
    return sum(
        share_of(pod, pressure.known[name].node.allocatable.cpu_millicores) for pod in lasting
    )


def share_of(pod: Pod, allocatable_millicores: int) -> float:
    """The share of a node's CPU that a pod requests."""
    return pod.scheduling.requests.cpu_millicores / max(1, allocatable_millicores)


def seen_newcomers(book: UsageBook, state: State) -> Newcomers | None:
    """What Jobs request in an hour and use, by their pods that are there now, or were before.

    Pods of other owners do not count: what a rollout starts replaces other pods.
    """
    since = book.now - timedelta(seconds=NEW_SECONDS)
    new = [
        pod
        for pod in book.snapshot.cluster.pods
        if pod.node and pod.of_job and (pod.started_at or pod.created_at) > since
    ]
    known = state.newcomers
    nodes = book.snapshot.cluster.node_by_name
    cpu = [(pod, pod.scheduling.requests.cpu_millicores) for pod in new if pod.node in nodes]
    ratios = [
        max(used) / requested
        for pod, requested in cpu
        if requested and (used := book.measured(pod, Resource.CPU))
    ]
    requested = math.fsum(
        wanted / max(1, nodes[pod.node].allocatable.cpu_millicores) for pod, wanted in cpu
    )
    requested = min(requested, MOST_REQUESTED_SHARE * len(nodes))
    if len(ratios) < LEAST_KNOWN:
        return known
    use = float(np.median(ratios))
    if known is not None:
        passed = book.now - known.at
        use = max(use, known.use_of_requests * math.exp2(-(passed / USE_HALF_LIFE)))
        requested = max(requested, known.requested_nodes * math.exp2(-(passed / RATE_HALF_LIFE)))
    return Newcomers(use, requested, book.now)


def _water_line(shares: Floats, amount: float) -> float:
    """The level to which this amount fills these shares, the lowest first."""
    ordered = np.sort(shares)
    counts = np.arange(1, len(ordered) + 1)
    lines = (amount + np.cumsum(ordered)) / counts
    following = np.append(ordered[1:], np.inf)
    return float(lines[np.argmax(lines <= following + _EPSILON)])
