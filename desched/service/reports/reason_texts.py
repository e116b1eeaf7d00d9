"""What each reason means, in one sentence for the person who reads a report.

Reasons of different kinds share words (`not_ready` is said of nodes and of pods), and members of
string enumerations are equal where their words are; hence one mapping for each kind.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from desched.model.load import UnknownReason
from desched.model.plan import HoldReason, NodeClass, NodeReason, Plan, RefusalReason
from desched.model.report import CycleReport, CycleResult, EvictionVerdict, NotActing
from desched.model.state import MoveResult
from desched.policy.durations import duration_text
from desched.service.reports.formatting import count, plain

Reason = (
    RefusalReason
    | NodeReason
    | UnknownReason
    | HoldReason
    | EvictionVerdict
    | MoveResult
    | NotActing
)

REFUSALS: Mapping[RefusalReason, str] = {
    RefusalReason.MIRROR_POD: "The kubelet runs it from a file; only that node can have it.",
    RefusalReason.STATIC_POD: "The kubelet runs it from a file; only that node can have it.",
    RefusalReason.DAEMONSET_POD: "Its DaemonSet would put it back on the same node.",
    RefusalReason.DESCHED_ITSELF: "It belongs to desched, which does not evict itself.",
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
    RefusalReason.SYSTEM_NAMESPACE: (
        "It belongs to the cluster's own machinery; only evictableNamespaces.include lets it go."
    ),
    RefusalReason.NAMESPACE_EXCLUDED: "The policy leaves its namespace alone.",
    RefusalReason.NAMESPACE_NOT_SELECTED: "The policy does not select its namespace.",
    RefusalReason.LABELS_NOT_SELECTED: "The policy does not select its labels.",
    RefusalReason.PVC_POD: "It uses a PersistentVolumeClaim, and the policy protects such pods.",
    RefusalReason.NODE_BOUND_VOLUME: (
        "A volume of it can be reached from its node only, or is not known."
    ),
    RefusalReason.LOCAL_STORAGE: "It keeps data on the node's disk (emptyDir).",
    RefusalReason.HOST_PATH: (
        "It uses a directory of its node that others may not have; only an annotation lets it go."
    ),
    RefusalReason.RESOURCE_CLAIMS: "It holds a device through a ResourceClaim.",
    RefusalReason.POD_GROUP: "It belongs to a group of pods that need each other.",
    RefusalReason.WITHOUT_BUDGET: (
        "No PodDisruptionBudget covers it, and the policy or its kind of workload asks for one."
    ),
    RefusalReason.SINGLE_REPLICA: (
        "It is the only replica of its workload; the annotation desched.io/evict or the policy's "
        "evictSingleReplica accepts that it is away for a moment."
    ),
    RefusalReason.TOO_FEW_REPLICAS: "Its workload has fewer replicas than the policy asks for.",
    RefusalReason.JOB_COUNTS_EVICTION: (
        "Its Job would count the eviction as a failure; a podFailurePolicy that ignores "
        "DisruptionTarget changes that."
    ),
    RefusalReason.LONG_GRACE_PERIOD: (
        "It may take longer to stop than the policy's maxGracePeriod."
    ),
    RefusalReason.TOO_YOUNG: "It is younger than the policy's minPodAge or longest window.",
    RefusalReason.PREFERS_NO_EVICTION: "An annotation on it asks not to be evicted.",
    RefusalReason.ROLLOUT_UNDER_WAY: "Its workload is rolling out a new revision.",
    RefusalReason.SCALING_UNDER_WAY: "An autoscaler is changing its workload's replicas.",
    RefusalReason.AUTOSCALER_AT_MAXIMUM: (
        "Its workload needs more replicas than its autoscaler may start; each of them counts."
    ),
    RefusalReason.RESIZE_UNDER_WAY: "Its resources are being changed in place.",
    RefusalReason.REPLICAS_NOT_READY: "Not all replicas of its workload are Ready.",
    RefusalReason.BUDGET_EXHAUSTED: "Its PodDisruptionBudget allows no disruption now.",
    RefusalReason.BUDGET_NOT_CURRENT: (
        "Its PodDisruptionBudget was edited, and its controller has not caught up."
    ),
    RefusalReason.SEVERAL_BUDGETS: (
        "More than one PodDisruptionBudget covers it; the Eviction API refuses such pods."
    ),
    RefusalReason.PAUSED: "Its workload is paused; `desched status` says why and until when.",
    RefusalReason.IN_FLIGHT: (
        "As many evictions of its workload as allowed are under way, and what becomes of them is "
        "not known yet."
    ),
    RefusalReason.COOLING_DOWN: (
        "Its workload was moved not long ago and is left alone for a while, longer after moves "
        "that did not go well."
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
    RefusalReason.LANDING_RISK: (
        "The scheduler would likely put its replacement where that does not help."
    ),
    RefusalReason.ROOM_AWAITED: (
        "A pending pod would take the room that it leaves, and the node would stay hot."
    ),
    RefusalReason.NO_RELIEF: "It uses nothing of what the node is short of.",
    RefusalReason.NOT_NEEDED: "The node is relieved without moving it.",
    RefusalReason.EXCESS_NOT_MOVABLE: (
        "Moving all that may be moved would not relieve the node by half."
    ),
    RefusalReason.NODE_SETTLING: "The node lost a pod, and the measurements have not yet seen it.",
    RefusalReason.NOT_SUSTAINED_YET: (
        "The node has not been overloaded for as long as the policy's sustainedFor."
    ),
    RefusalReason.POOL_SATURATED: (
        "The node's pool has too little room; it needs more nodes, not moves."
    ),
    RefusalReason.NODE_COOLING_DOWN: (
        "Moves have not relieved its node lately; it is left alone for a while."
    ),
    RefusalReason.POOL_PAUSED: (
        "Its node's pool is paused; `desched status` says why and until when."
    ),
    RefusalReason.PROBE_FIRST: (
        "A pause is over; a single careful move of another pod has to go well first."
    ),
    RefusalReason.LIMIT_TOTAL: "The cycle's limit of evictions is reached.",
    RefusalReason.LIMIT_NODE: "The limit of evictions from one node is reached.",
    RefusalReason.LIMIT_NAMESPACE: "The limit of evictions from its namespace is reached.",
    RefusalReason.LIMIT_WORKLOAD: "The limit of evictions from its workload is reached.",
    RefusalReason.LIMIT_IN_FLIGHT: (
        "As many evictions as allowed are under way, and what becomes of them is not known yet."
    ),
    RefusalReason.CYCLE_HELD: "The cycle as a whole evicts nothing.",
    RefusalReason.CONFIRMATION_FAILED: "Something changed between planning and acting.",
    RefusalReason.LOAD_TOO_OLD: (
        "The load that its move was planned on is no longer recent; the next cycle plans afresh."
    ),
}

NODES: Mapping[NodeReason, str] = {
    NodeReason.NOT_SELECTED: "The policy's node selector leaves it out.",
    NodeReason.NOT_READY: "It is not Ready.",
    NodeReason.NOT_LINUX: "It does not run Linux.",
    NodeReason.VIRTUAL: "It is a virtual node; there is no machine to relieve.",
    NodeReason.TOO_YOUNG: "It joined after the longest window began.",
    NodeReason.BEING_REMOVED: "It is cordoned, or being removed.",
    NodeReason.UNDER_PRESSURE: "The kubelet reports pressure and evicts by itself.",
    NodeReason.SETTLING: "It lost a pod, and the measurements have not yet seen it.",
    NodeReason.NOT_SUSTAINED_YET: (
        "It has not been overloaded for as long as the policy's sustainedFor; once it has, it is "
        "relieved."
    ),
    NodeReason.POOL_SATURATED: (
        "Its pool has too little left of what it is short of; add nodes, for moves would not help."
    ),
    NodeReason.DESTINATION_UNKNOWN: (
        "Its load over the policy's destinationWindows is not known, so no pod is sent to it."
    ),
    NodeReason.COOLING_DOWN: (
        "Moves have not relieved it; it is left alone for a while. Its load may be its own: look "
        "at what runs on it."
    ),
    NodeReason.POOL_PAUSED: "Its pool is paused; `desched status` says why and until when.",
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
    HoldReason.NO_NODE_IN_SCOPE: (
        "No node is in scope, so nothing is watched: check the policy's nodeSelector, and whether "
        "nodes are Ready and older than the longest window."
    ),
    HoldReason.JUST_STARTED: (
        "desched has just started and does not know what was evicted before; it looks on until the "
        "shortest window has passed."
    ),
    HoldReason.CLOCKS_DIFFER: (
        "The clocks differ, so nobody knows how old anything is; set them by NTP."
    ),
    HoldReason.CLUSTER_SATURATED: (
        "Most of the cluster is hot: it needs more nodes or less load, and moves would not help."
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
    EvictionVerdict.UNREADABLE: "The fresh look at the pod failed, so it was not asked for.",
    EvictionVerdict.UNKNOWN: (
        "The answer was not understood; check whether the pod still runs before acting."
    ),
}

MOVES: Mapping[MoveResult, str] = {
    MoveResult.LANDED_AS_FORECAST: "Its replacement is Ready where it was expected.",
    MoveResult.LANDED_ELSEWHERE: (
        "Its replacement is Ready on another node than expected, and that node bears it."
    ),
    MoveResult.LANDED_OVERLOADED: "Its replacement is on a node that is overloaded.",
    MoveResult.BACK_ON_SOURCE: "Its replacement is on the very node that it was to leave.",
    MoveResult.STILL_PENDING: "No node has accepted its replacement in time.",
    MoveResult.NOT_READY: "Its replacement has a node, and was not Ready in time.",
    MoveResult.NEVER_CAME: "Its workload has not created a replacement in time.",
    MoveResult.REFUSED: "The API server or an admission webhook would not evict it.",
    MoveResult.NOT_WANTED: "Its workload wants fewer replicas than before, and did not replace it.",
    MoveResult.STAYED: "Its eviction was asked for, and the pod is still there.",
    MoveResult.LOAD_UNKNOWN: (
        "Its replacement is on a node whose load was never known in time, so nobody knows whether "
        "that was good."
    ),
}

NOT_ACTING: Mapping[NotActing, str] = {
    NotActing.PAUSED: (
        "Everything is paused; `desched status` says why, and `desched resume` ends it."
    ),
    NotActing.OUTSIDE_WINDOW: "The policy's windows forbid evictions at this time.",
    NotActing.NOT_LEADING: "It does not hold the lease, so it stands by.",
    NotActing.TAINT_STAYED: (
        "A soft taint that the plan counts as gone could not be taken away; the next cycle tries "
        "again."
    ),
}

_SENTENCES: Mapping[type[Reason], Mapping[Any, str]] = {
    RefusalReason: REFUSALS,
    NodeReason: NODES,
    UnknownReason: UNKNOWN_LOADS,
    HoldReason: HOLDS,
    EvictionVerdict: VERDICTS,
    MoveResult: MOVES,
    NotActing: NOT_ACTING,
}

SUMMARIES: Mapping[CycleResult, str] = {
    CycleResult.NOTHING_TO_DO: "No node is overloaded; there is nothing to do.",
    CycleResult.HELD: "Nothing is evicted: {hold}",
    CycleResult.NOTHING_MOVABLE: (
        "{hot} overloaded, but no move is right; the reasons above say what would have to change."
    ),
    CycleResult.PLANNED: (
        "Dry run: nothing was touched. It would evict {planned}.\n"
        "To do it, run with {acting}; in a cluster, without --dry-run."
    ),
    CycleResult.EVICTED: "Evicted {gone} of {planned} planned; {next_look}.",
    CycleResult.NOT_EVICTED: (
        "None of {planned} planned for eviction went; the answers above say why, and the next "
        "{look} plans afresh."
    ),
    CycleResult.NOT_ACTING: "{planned} would be evicted, but not now: {not_acting}",
    CycleResult.STOPPED: (
        "Stopped after evicting {gone} of {planned}, because an answer was not understood. "
        "Check the API server; {next_look}."
    ),
}

OTHER_DESCHEDULERS = (
    "Another descheduler runs in this cluster: {others}. Two of them undo each other's work; "
    "choose one."
)
SOME_NOT_JUDGED = "None of the {judged} judged is overloaded; {not_judged} not judged."
NOTHING_JUDGED = (
    " Prometheus has data of none: is it the right one, and does metrics.matchers, if the policy "
    "sets it, name this cluster?"
)


def sentence_of(reason: Reason) -> str:
    """The sentence for a reason of any kind."""
    return _SENTENCES[type(reason)][reason]


def describe(reason: Reason, detail: str) -> str:
    """The sentence for a reason, with the detail behind it if there is one."""
    sentence = sentence_of(reason)
    return f"{sentence.removesuffix('.')} ({detail})." if detail else sentence


def summary_of(report: CycleReport, *, single: bool = False) -> str:
    """In plain words: what the cycle did or would do, and what to do next.

    `single` is a cycle that no other follows, so that nobody waits for the measurements.
    """
    plan = report.plan
    classes = Counter(verdict.node_class for verdict in plan.nodes)
    not_judged = classes[NodeClass.UNKNOWN] + classes[NodeClass.OUT_OF_SCOPE]
    judged = len(plan.nodes) - not_judged
    if report.result is CycleResult.NOTHING_TO_DO and not_judged:
        return SOME_NOT_JUDGED.format(
            judged=count(judged, "node"),
            not_judged=count(not_judged, "was", "were"),
        )
    gone = sum(
        outcome.verdict in {EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER}
        for outcome in report.outcomes
    )
    hold = describe(plan.hold, plain(plan.hold_detail)) if plan.hold else ""
    if hold and not judged and _all_absent(plan):
        hold += NOTHING_JUDGED
    return SUMMARIES[report.result].format(
        hot=count(classes[NodeClass.OVERLOADED], "node is", "nodes are"),
        planned=count(len(plan.evictions), "pod"),
        gone=gone,
        hold=hold,
        not_acting=describe(report.not_acting, plain(report.not_acting_detail))
        if report.not_acting
        else "",
        acting="--evict --once" if single else "--evict",
        look="run" if single else "cycle",
        next_look=_next_look(plan, single=single),
    )


def _next_look(plan: Plan, *, single: bool) -> str:
    if not single:
        return "the next cycle counts what left, until the measurements have seen it"
    windows = {w for node in plan.nodes for part in node.pressures for w, _ in part.measured}
    wait = duration_text(max(windows)) if windows else "the longest window"
    return f"run it again only after {wait}, when the measurements have seen it"


def _all_absent(plan: Plan) -> bool:
    unknown = [node for node in plan.nodes if node.node_class is NodeClass.UNKNOWN]
    return bool(unknown) and all(node.reason is UnknownReason.ABSENT for node in unknown)
