"""What each reason means, in one sentence for the person who reads a report.

Reasons of different kinds share words (`not_ready` is said of nodes and of pods), and members of
string enumerations are equal where their words are; hence one mapping for each kind.
"""

from collections.abc import Mapping

from desched.model.load import UnknownReason
from desched.model.plan import HoldReason, NodeClass, NodeReason, RefusalReason
from desched.model.report import CycleReport, CycleResult, EvictionVerdict
from desched.service.wording import count

Reason = RefusalReason | NodeReason | UnknownReason | HoldReason | EvictionVerdict

REFUSALS: Mapping[RefusalReason, str] = {
    RefusalReason.MIRROR_POD: "The kubelet runs it from a file; only that node can have it.",
    RefusalReason.STATIC_POD: "The kubelet runs it from a file; only that node can have it.",
    RefusalReason.DAEMONSET_POD: "Its DaemonSet would put it back on the same node.",
    RefusalReason.TERMINATING: "It is leaving already.",
    RefusalReason.NOT_RUNNING: "It is not running, so it makes no load.",
    RefusalReason.NOT_READY: "It is not Ready, and moving it could make that worse.",
    RefusalReason.BARE_POD: "It has no controller; once evicted, it would never come back.",
    RefusalReason.OWNER_NOT_UNDERSTOOD: (
        "desched does not know how its controller replaces an evicted pod."
    ),
    RefusalReason.OPTED_OUT: "An annotation on it forbids eviction.",
    RefusalReason.SYSTEM_CRITICAL: "It has a system-critical priority.",
    RefusalReason.PRIORITY_THRESHOLD: "Its priority is at or above the policy's priorityThreshold.",
    RefusalReason.NAMESPACE_EXCLUDED: "The policy leaves its namespace alone.",
    RefusalReason.NAMESPACE_NOT_SELECTED: "The policy does not select its namespace.",
    RefusalReason.LABELS_NOT_SELECTED: "The policy does not select its labels.",
    RefusalReason.PVC_POD: "It uses a PersistentVolumeClaim, and the policy protects such pods.",
    RefusalReason.LOCAL_STORAGE: "It keeps data on the node (emptyDir or hostPath).",
    RefusalReason.RESOURCE_CLAIMS: "It holds a device through a ResourceClaim.",
    RefusalReason.WITHOUT_BUDGET: (
        "No PodDisruptionBudget covers it, and the policy protects such pods."
    ),
    RefusalReason.TOO_FEW_REPLICAS: "Its workload has fewer replicas than the policy asks for.",
    RefusalReason.TOO_YOUNG: "It is younger than the policy's minPodAge.",
    RefusalReason.PREFERS_NO_EVICTION: "An annotation on it asks not to be evicted.",
    RefusalReason.ROLLOUT_UNDER_WAY: "Its workload is rolling out a new revision.",
    RefusalReason.SCALING_UNDER_WAY: "An autoscaler is changing its workload's replicas.",
    RefusalReason.BUDGET_EXHAUSTED: "Its PodDisruptionBudget allows no disruption now.",
    RefusalReason.BUDGET_NOT_CURRENT: (
        "Its PodDisruptionBudget was edited, and its controller has not caught up."
    ),
    RefusalReason.SEVERAL_BUDGETS: (
        "More than one PodDisruptionBudget covers it; the Eviction API refuses such pods."
    ),
    RefusalReason.EVICTED_RECENTLY: "A pod of its workload was evicted a moment ago.",
    RefusalReason.USAGE_UNKNOWN: "Its usage was not measured, so nobody knows what a move brings.",
    RefusalReason.CONSTRAINT_NOT_EVALUATED: (
        "It has a scheduling constraint that desched does not evaluate."
    ),
    RefusalReason.NO_NODE_FITS: "No other node would accept it.",
    RefusalReason.NO_NODE_UNDER_CEILING: (
        "Every node that would accept it would become too full with it."
    ),
    RefusalReason.NO_RELIEF: "It uses nothing of what the node is short of.",
    RefusalReason.NOT_NEEDED: "The node is relieved without moving it.",
    RefusalReason.EXCESS_NOT_MOVABLE: (
        "Moving all that may be moved would not relieve the node by half."
    ),
    RefusalReason.NODE_RESTS: "The node lost a pod, and the measurements have not yet seen it.",
    RefusalReason.LIMIT_TOTAL: "The cycle's limit of evictions is reached.",
    RefusalReason.LIMIT_NODE: "The limit of evictions from one node is reached.",
    RefusalReason.LIMIT_NAMESPACE: "The limit of evictions from its namespace is reached.",
    RefusalReason.LIMIT_WORKLOAD: "The limit of evictions from its workload is reached.",
    RefusalReason.CYCLE_HELD: "The cycle as a whole evicts nothing.",
    RefusalReason.CONFIRMATION_FAILED: "Something changed between planning and acting.",
}

NODES: Mapping[NodeReason, str] = {
    NodeReason.NOT_SELECTED: "The policy's node selector leaves it out.",
    NodeReason.NOT_READY: "It is not Ready.",
    NodeReason.NOT_LINUX: "It does not run Linux.",
    NodeReason.VIRTUAL: "It is a virtual node; there is no machine to relieve.",
    NodeReason.TOO_YOUNG: "It joined after the longest window began.",
    NodeReason.BEING_REMOVED: "It is cordoned, or being removed.",
    NodeReason.UNDER_PRESSURE: "The kubelet reports pressure and evicts by itself.",
    NodeReason.RESTING: "It lost a pod, and the measurements have not yet seen it.",
    NodeReason.EXCESS_NOT_MOVABLE: (
        "Its load is mostly its own or that of pods that must stay; moving others would not help."
    ),
}

UNKNOWN_LOADS: Mapping[UnknownReason, str] = {
    UnknownReason.ABSENT: "Prometheus has no data; check that its exporter is scraped.",
    UnknownReason.STALE: "Its newest data is too old; check that its exporter is up.",
    UnknownReason.WINDOW_NOT_COVERED: (
        "Data covers too little of the window; wait, or set wider windows if scraping is slow."
    ),
    UnknownReason.NOT_FINITE: "Its data is not a number; check the query.",
    UnknownReason.IMPLAUSIBLE: "Its data is outside of what is possible; check the query.",
    UnknownReason.CONTRADICTORY: "Several series disagree; check for doubled exporters.",
}

HOLDS: Mapping[HoldReason, str] = {
    HoldReason.TOO_MANY_UNKNOWN_NODES: "The load of too many nodes is unknown.",
    HoldReason.PARTIAL_DATA: "Prometheus answered with only a part of the data; check its stores.",
    HoldReason.SEVERAL_CLUSTERS: (
        "Prometheus holds several clusters; set metrics.matchers in the policy to name this one."
    ),
    HoldReason.TOO_FEW_UNDERLOADED_NODES: (
        "Fewer nodes are underloaded than the policy's numberOfNodes demands."
    ),
}

VERDICTS: Mapping[EvictionVerdict, str] = {
    EvictionVerdict.EVICTED: "The pod is leaving; its controller replaces it.",
    EvictionVerdict.TAKEN_OVER: "An admission webhook moves the workload itself.",
    EvictionVerdict.BLOCKED_BY_BUDGET: "Its PodDisruptionBudget refused.",
    EvictionVerdict.SEVERAL_BUDGETS: "More than one PodDisruptionBudget covers it.",
    EvictionVerdict.THROTTLED: "The API server is busy and asked to wait.",
    EvictionVerdict.FORBIDDEN: (
        "The API server forbids it; check that RBAC grants create on pods/eviction."
    ),
    EvictionVerdict.GONE: "It was gone already.",
    EvictionVerdict.REPLACED: "Another pod has its name now; that one was left alone.",
    EvictionVerdict.NOT_CONFIRMED: "A fresh look found a reason to leave it.",
    EvictionVerdict.NOT_BEGUN: "desched stopped before its turn.",
    EvictionVerdict.UNKNOWN: (
        "The answer was not understood; check whether the pod still runs before acting."
    ),
}

SUMMARIES: Mapping[CycleResult, str] = {
    CycleResult.NOTHING_TO_DO: "No node is overloaded; there is nothing to do.",
    CycleResult.HELD: "Nothing is evicted: {hold}",
    CycleResult.NOTHING_MOVABLE: (
        "{hot} overloaded, but no move is right; the reasons above say what would have to change."
    ),
    CycleResult.PLANNED: (
        "Dry run: nothing was touched. It would evict {planned}; to do it, run with --evict "
        "(in a cluster: without --dry-run)."
    ),
    CycleResult.EVICTED: (
        "Evicted {gone} of {planned} planned; the next cycle looks again once the measurements "
        "have seen it."
    ),
    CycleResult.NOT_EVICTED: (
        "None of {planned} planned for eviction went; the answers above say why, and the next "
        "cycle plans afresh."
    ),
    CycleResult.STOPPED: (
        "Stopped after evicting {gone} of {planned}, because an answer was not understood. "
        "Check the API server; the next cycle plans afresh."
    ),
}


def sentence_of(reason: Reason) -> str:
    """The sentence for a reason of any kind."""
    match reason:
        case RefusalReason():
            return REFUSALS[reason]
        case NodeReason():
            return NODES[reason]
        case UnknownReason():
            return UNKNOWN_LOADS[reason]
        case HoldReason():
            return HOLDS[reason]
        case EvictionVerdict():
            return VERDICTS[reason]


def summary_of(report: CycleReport) -> str:
    """In plain words: what the cycle did or would do, and what to do next."""
    plan = report.plan
    hot = sum(verdict.node_class is NodeClass.OVERLOADED for verdict in plan.nodes)
    gone = sum(
        outcome.verdict in {EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER}
        for outcome in report.outcomes
    )
    hold = sentence_of(plan.hold) if plan.hold else ""
    if plan.hold_detail:
        hold = f"{hold.removesuffix('.')} ({plan.hold_detail})."
    return SUMMARIES[report.result].format(
        hot=count(hot, "node is", "nodes are"),
        planned=count(len(plan.evictions), "pod"),
        gone=gone,
        hold=hold,
    )
