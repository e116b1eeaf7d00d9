"""Whether the cluster is in trouble: during an incident, nothing should move as well.

What broke long ago does not count. A node that an autoscaler forgot, or a workload that has crashed
for weeks, is no incident, and would hold desched for ever.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from math import inf

from desched.model.cluster import ClusterState, Node, Pod, ServerHealth, owners_of
from desched.model.plan import HoldReason, NodeReason
from desched.model.state import State
from desched.planning.eligibility.rules import SYSTEM_NAMESPACES
from desched.planning.overload.scope import REMOVAL_TAINTS, out_of_scope
from desched.policy.policy import Policy

NODES_FLOOR = 1
NODES_SHARE = 0.1
"""If more nodes than both of these are in trouble, the cluster is: as for unknown nodes."""

PODS_FLOOR = 5
PODS_SHARE = 0.1
"""If more pods than both of these cannot start, as a share of those that are Ready, it is too."""

NAMESPACES = 3
"""So many namespaces or owners it takes at least, so that a tenant does not stop it for others."""

LONGEST = timedelta(days=1)
"""What is older is how the cluster is, not an incident."""

USED_TO = timedelta(hours=1)
"""Pods that could not start before the hour that led to an incident do not count for it."""

STARTING = timedelta(minutes=5)
"""How long a pod may wait for a node, for its volumes and for its image."""

REQUESTS_FLOOR = 1
REQUESTS_SHARE = 0.1
SLOW_SECONDS = 1.0
SLOWER = 5
"""The API server is slow if it takes longer than this, and so many times as long as usual."""

_SERVING = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet"})
"""Pods of others may wait for a long time on purpose."""

_LEAVING = REMOVAL_TAINTS - {"node.kubernetes.io/out-of-service"}
_NEVER_USED = frozenset(
    {NodeReason.NOT_SELECTED, NodeReason.VIRTUAL, NodeReason.NOT_LINUX, NodeReason.TOO_YOUNG}
)
_IN_TROUBLE = frozenset({NodeReason.NOT_READY, NodeReason.UNDER_PRESSURE})


def incident(cluster: ClusterState, policy: Policy, state: State, now: datetime) -> str:
    """Why the cluster is in trouble, with the figures; empty if it is not."""
    last, began = state.last_cycle, now
    if last is not None and last.hold == HoldReason.CLUSTER_IN_TROUBLE and last.held_since:
        began = last.held_since
    since = max(now - LONGEST, began - USED_TO)
    owners = owners_of(cluster.namespaces, policy.follow_up.pause_owner_label)
    return "; ".join(
        filter(
            None,
            (
                _nodes_in_trouble(cluster.nodes, policy, now),
                _pods_in_trouble(cluster.pods, since, now, lambda name: owners.get(name, name)),
                _server_in_trouble(cluster.server_health),
            ),
        )
    )


def _nodes_in_trouble(nodes: Iterable[Node], policy: Policy, now: datetime) -> str:
    """Why too many nodes are in trouble, of those that the policy selects; empty if few are."""
    fit, reasons = 0, Counter[str]()
    for node in nodes:
        excluded = out_of_scope(node, policy, now)
        reason = excluded.reason if excluded else None
        if reason in _IN_TROUBLE:
            if _counts(node, policy, now):
                reasons[reason.value.replace("_", " ")] += 1
        elif reason not in _NEVER_USED:
            fit += 1
    troubled = reasons.total()
    bearable = max(NODES_FLOOR, int((troubled + fit) * NODES_SHARE))
    if troubled <= bearable:
        return ""
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return (
        f"{troubled} of {troubled + fit} nodes are in trouble ({listed}), at most {bearable} may be"
    )


def _counts(node: Node, policy: Policy, now: datetime) -> bool:
    """Whether it went wrong lately, and nobody is removing or starting it."""
    leaving = node.deleting or any(taint.key in _LEAVING for taint in node.taints)
    young = (now - node.created_at).total_seconds() < policy.longest_window_seconds
    since = node.troubled_since
    return not leaving and not young and (since is None or now - since < LONGEST)


def _pods_in_trouble(
    pods: Iterable[Pod], since: datetime, now: datetime, owner_of: Callable[[str], str]
) -> str:
    """Why too many pods that serve cannot start, counted from a time on; empty if few cannot."""
    ready, reasons = 0, Counter[str]()
    owners, stuck = set[str](), Counter[str]()
    for pod in pods:
        if pod.owner is None or pod.owner.kind not in _SERVING or pod.deleting or pod.finished:
            continue
        owner = _CLUSTER if pod.namespace in SYSTEM_NAMESPACES else owner_of(pod.namespace)
        owners.add(owner)
        if reason := _not_starting(pod, now):
            if (pod.waiting_since or pod.created_at) >= since:
                stuck[owner] += 1
                reasons[reason] += 1
        elif pod.ready:
            ready += 1
    bearable = max(PODS_FLOOR, int(ready * PODS_SHARE))
    tenants = min(NAMESPACES, len(owners - {_CLUSTER}))
    # Each tenant counts with so little that it takes all of these, or one and the cluster's own.
    most = bearable / (tenants - 1) if tenants > 1 else inf
    counted = sum(n if owner == _CLUSTER else min(n, most) for owner, n in stuck.items())
    if counted <= bearable:
        return ""
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return (
        f"{reasons.total()} pods in {len(stuck)} namespaces or owners cannot start since "
        f"{since:%H:%M} UTC ({listed}) beside {ready} that are Ready, at most {bearable} may be"
    )


_CLUSTER = ""
"""The owner of the cluster's own namespaces, which no tenant may write."""


def _not_starting(pod: Pod, now: datetime) -> str:
    """Why the pod cannot start, empty if it has or may do so soon."""
    if pod.cannot_start:
        return pod.waiting_for
    waits = not pod.gated and (not pod.node or pod.phase == "Pending")
    return "waiting" if waits and now - pod.created_at >= STARTING else ""


def _server_in_trouble(health: ServerHealth) -> str:
    """Why the API server is in trouble, empty if it is not."""
    bearable = max(REQUESTS_FLOOR, int(health.requests * REQUESTS_SHARE))
    if health.failed > bearable:
        return (
            f"the API server failed to answer {health.failed} of the latest {health.requests} "
            f"requests, at most {bearable} may fail"
        )
    latest, usual = health.latest_seconds, health.usual_seconds
    if latest is None or usual is None or latest <= max(SLOW_SECONDS, SLOWER * usual):
        return ""
    return f"the API server takes {latest:.1f} s to answer, {usual:.2f} s in the hour before"
