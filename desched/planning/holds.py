"""Reasons why a whole cycle evicts nothing."""

from collections import Counter
from datetime import datetime

from desched.model.load import LoadProblem
from desched.model.plan import Finding, HoldReason, NodeClass
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.planning.clocks import clocks_differ
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.incident import incident
from desched.planning.overload.classification import Pressure
from desched.policy.policy import Policy

UNKNOWN_NODES_FLOOR = 1
UNKNOWN_NODES_SHARE = 0.1
"""If more nodes are unknown than both of these, the measurements as a whole are not trusted."""

_HOLD_OF_PROBLEM = {
    LoadProblem.PARTIAL_DATA: HoldReason.PARTIAL_DATA,
    LoadProblem.SEVERAL_CLUSTERS: HoldReason.SEVERAL_CLUSTERS,
}


def hold_of(
    pressure: Pressure, context: EligibilityContext, *, others_due: bool
) -> Finding[HoldReason] | None:
    """Return why this cycle may evict nothing, None if it may.

    Without overloaded nodes, and if no moves of plugins are due, only the clocks, the cluster and
    the data are checked.
    """
    snapshot, policy = context.book.snapshot, context.policy
    if differing := clocks_differ(snapshot):
        return Finding(HoldReason.CLOCKS_DIFFER, differing)
    if trouble := incident(snapshot.cluster, policy, context.state, context.now):
        return Finding(HoldReason.CLUSTER_IN_TROUBLE, trouble)
    hold = _data_hold(snapshot, pressure)
    is_overloaded = bool(pressure.of_class(NodeClass.OVERLOADED))
    if hold is not None or not (is_overloaded or others_due):
        return hold
    hold = _policy_hold(policy, pressure) if is_overloaded else None
    return hold or _start_hold(policy, context.state, context.now)


def _data_hold(snapshot: Snapshot, pressure: Pressure) -> Finding[HoldReason] | None:
    """Why the measurements as a whole are not trusted."""
    for problem, detail in snapshot.load.problems:
        return Finding(_HOLD_OF_PROBLEM[problem], detail)
    return unknown_nodes_hold(pressure)


def unknown_nodes_hold(pressure: Pressure) -> Finding[HoldReason] | None:
    """Why too few nodes have trusted load, None if enough have."""
    unknown = sum(v.node_class is NodeClass.UNKNOWN for v in pressure.verdicts)
    in_scope = unknown + len(pressure.known)
    bearable = max(UNKNOWN_NODES_FLOOR, int(in_scope * UNKNOWN_NODES_SHARE))
    if not in_scope:
        reasons = Counter(v.reason.value for v in pressure.verdicts if v.reason)
        counts = "".join(f", {number} {reason}" for reason, number in reasons.most_common())
        return Finding(HoldReason.NO_NODE_IN_SCOPE, f"none of {len(pressure.verdicts)}{counts}")
    if unknown > bearable or not pressure.known:
        detail = f"{unknown} of {in_scope} nodes in scope are unknown, at most {bearable} may be"
        return Finding(HoldReason.TOO_MANY_UNKNOWN_NODES, detail)
    return None


def _policy_hold(policy: Policy, pressure: Pressure) -> Finding[HoldReason] | None:
    least = policy.min_underloaded_nodes
    underloaded = len(pressure.of_class(NodeClass.UNDERLOADED))
    if least and underloaded <= least:
        detail = f"{underloaded} underloaded, numberOfNodes requires more than {least}"
        return Finding(HoldReason.TOO_FEW_UNDERLOADED_NODES, detail)
    return None


def _start_hold(policy: Policy, state: State, now: datetime) -> Finding[HoldReason] | None:
    """After a start without state, or its deletion, unknown evictions may distort the windows."""
    if state.since is None:
        return None
    age_seconds = (now - state.since).total_seconds()
    if age_seconds >= policy.shortest_window_seconds:
        return None
    window = f"the shortest window is {policy.shortest_window_seconds} s"
    return Finding(HoldReason.JUST_STARTED, f"no state before {age_seconds:.0f} s ago, {window}")
