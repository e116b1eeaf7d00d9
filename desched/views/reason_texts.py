"""One sentence for each reason, for the person who reads a report.

Reasons of different kinds share values (`not_ready` of nodes and of pods), and members of string
enumerations with the same value are equal; therefore each kind has its own mapping, by value.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from desched.model.load import UnknownReason
from desched.model.plan import HoldReason, NodeClass, NodeReason, Plan, RefusalReason, Unsteered
from desched.model.report import CycleReport, CycleResult, EvictionVerdict, NotActing
from desched.model.state import MoveResult
from desched.policy.durations import duration_text
from desched.views.formatting import count, plain

UNRESERVED: Mapping[str, str] = {
    "unknown_scheduler": "No pod of another namespace was placed by their scheduler.",
    "resource_claims": "They wait for devices that desched cannot count.",
    "pod_group": "They belong to groups, which are placed together or not at all.",
    "long_pending": "Their scheduler has found no node for more than 10 minutes.",
    "namespace_share": "Their namespace has reserved half of the free room already.",
}

REFUSALS: Mapping[str, str] = {
    "mirror_pod": "The kubelet runs it from a file on this node.",
    "static_pod": "The kubelet runs it from a file on this node.",
    "daemonset_pod": "Its DaemonSet would start it again on the same node.",
    "desched_itself": "It belongs to desched, which does not evict itself.",
    "terminating": "It is already leaving.",
    "not_running": "It is not running and causes no load.",
    "not_ready": "It is not Ready, and a move could make that worse.",
    "bare_pod": "It has no controller that would replace it.",
    "owner_not_understood": (
        "Its controller is of a kind that desched does not support or cannot read."
    ),
    "opted_out": "One of its annotations forbids eviction.",
    "system_critical": "It has a system-critical priority.",
    "priority_threshold": "Its priority is at or above the policy's priorityThreshold.",
    "system_namespace": "It is in a system namespace; evictableNamespaces.include allows eviction.",
    "namespace_excluded": "The policy excludes its namespace.",
    "namespace_not_selected": "The policy does not select its namespace.",
    "labels_not_selected": "The policy does not select its labels.",
    "gpu_pod": (
        "It uses a GPU; the annotation desched.io/evict or the policy's gpuPods: Allow allows "
        "eviction."
    ),
    "pvc_pod": "It uses a PersistentVolumeClaim, and the policy protects such pods.",
    "node_bound_volume": "One of its volumes is available only on this node, or is unknown.",
    "shared_claim": "Another pod on its node uses one of its claims, which allow only one node.",
    "local_storage": "It keeps data on the node's disk (emptyDir).",
    "host_path": "It uses a directory of its node (hostPath); an annotation allows eviction.",
    "resource_claims": "It has ResourceClaims whose devices desched cannot count.",
    "networks_unknown": "The annotation that names its networks cannot be read.",
    "pod_group": "Its gang needs it, or may need it.",
    "not_migratable": "An eviction could stop its virtual machine instead of migrating it.",
    "without_budget": "It has no PodDisruptionBudget; the policy or its kind requires one.",
    "single_replica": (
        "It is the only replica of its workload; the annotation desched.io/evict or the policy's "
        "evictSingleReplica allows eviction."
    ),
    "too_few_replicas": "Its workload has fewer replicas than the policy requires.",
    "job_counts_eviction": (
        "Its Job would count the eviction as a failure; a podFailurePolicy that ignores "
        "DisruptionTarget prevents that."
    ),
    "long_grace_period": "It may take longer to stop than the policy's maxGracePeriod.",
    "too_young": "It is younger than the policy's minPodAge or longest window.",
    "prefers_no_eviction": "One of its annotations requests no eviction.",
    "rollout_under_way": "Its workload is rolling out a new revision.",
    "scaling_under_way": "An autoscaler is changing its workload's replicas.",
    "autoscaler_at_maximum": "Its workload needs more replicas than its autoscaler allows.",
    "resize_under_way": "Its resources are being changed in place.",
    "migration_under_way": "KubeVirt is migrating its virtual machine.",
    "requests_unknown": (
        "A VerticalPodAutoscaler sizes its replacement in a way that desched does not understand."
    ),
    "replicas_not_ready": "Some replicas of its workload are not Ready.",
    "budget_exhausted": "Its PodDisruptionBudget allows no disruption now.",
    "budget_not_current": "Its PodDisruptionBudget changed, and its status is not yet up to date.",
    "several_budgets": (
        "Several PodDisruptionBudgets cover it; the Eviction API refuses such pods."
    ),
    "paused": "Its workload or namespace is paused; `desched status` shows why and until when.",
    "in_flight": "Its workload already has as many evictions in flight as allowed.",
    "cooling_down": "Its workload cools down after a move that failed.",
    "moved_recently": "It is the replacement of a pod that desched moved a short time ago.",
    "usage_unknown": (
        "Its usage was not measured, so the effect of a move is unknown; `desched doctor` says why."
    ),
    "constraint_not_evaluated": "desched does not evaluate one of its scheduling constraints.",
    "no_node_fits": "No other node would accept it.",
    "placement_domain": "No node in its placement domain could take it.",
    "model_cache": "No node that holds its model could take it.",
    "no_node_under_ceiling": "It would bring every node that accepts it above the ceiling.",
    "landing_risk": "The scheduler would probably place its replacement where it does not help.",
    "room_awaited": "A pending pod would take its room, and the node would stay overloaded.",
    "no_relief": "It does not use what the node is short of.",
    "not_needed": "The node is relieved without moving it.",
    "cheaper_pods_first": "Pods whose move costs less relieve the node in the next cycles.",
    "excess_not_movable": "Moving all movable pods would relieve the node by less than half.",
    "room_being_made": "A pod of another node makes room for it first.",
    "node_settling": "The node lost a pod that the measurements still include.",
    "not_sustained_yet": "The node was overloaded for less than the policy's sustainedFor.",
    "pool_saturated": (
        "The node's pool is full; it needs more nodes, and only its worst nodes are levelled."
    ),
    "node_cooling_down": "The node cools down, because moves did not relieve it.",
    "pool_paused": "The node's pool is paused; `desched status` shows why and until when.",
    "probe_first": "After a pause, one careful move of another pod must succeed first.",
    "limit_total": "The limit of evictions in a cycle is reached.",
    "limit_node": "The limit of evictions from one node is reached.",
    "limit_namespace": "The limit of evictions from its namespace is reached.",
    "limit_workload": "The limit of evictions from its workload is reached.",
    "limit_hourly": "The limit of evictions from its workload within an hour is reached.",
    "limit_in_flight": "The limit of evictions in flight is reached.",
    "limit_migrations": "KubeVirt's limit of migrations at a time is reached.",
    "cycle_held": "The whole cycle evicts nothing.",
    "confirmation_failed": "Something changed between planning and eviction.",
    "load_too_old": "The measured load is too old; the next cycle plans again.",
}

NODES: Mapping[str, str] = {
    "not_selected": "The policy's node selector excludes it.",
    "not_ready": "It is not Ready.",
    "not_linux": "It does not run Linux.",
    "virtual": "It is a virtual node without a machine to relieve.",
    "too_young": "It joined the cluster after the longest window began.",
    "being_removed": "It is cordoned or being removed.",
    "under_pressure": "The kubelet reports pressure and evicts pods itself.",
    "without_domain": "It has no domain of the level that the policy's balanceScope names.",
    "settling": "It lost a pod that the measurements still include.",
    "not_sustained_yet": "It was overloaded for less than the policy's sustainedFor.",
    "pool_saturated": (
        "Its pool is full; add nodes. Only the worst nodes of such a pool are levelled."
    ),
    "destination_unknown": "Its load over destinationWindows is unknown, so no pod is moved to it.",
    "cooling_down": "It cools down, because moves did not relieve it; check what else runs on it.",
    "pool_paused": "Its pool is paused; `desched status` shows why and until when.",
    "excess_not_movable": "Most of its load is its own or of pods that must stay.",
    "room_being_made": "A pod of another node makes room for one of its pods.",
}

UNKNOWN_LOADS: Mapping[str, str] = {
    "absent": "Nothing that metrics.sources accepts measures it; `desched doctor` says why.",
    "stale": "Its newest data is too old; check what measures it.",
    "window_not_covered": "Data covers too little of the window; wait, or set wider windows.",
    "not_finite": "Its data is not a number; check the query.",
    "implausible": "Its data is outside the possible range; check the query, or its clock.",
    "contradictory": "Several series disagree; check for duplicate exporters.",
    "pods_above_node": (
        "Its pods would use more than the node itself; check whose series metrics.sources accepts."
    ),
}

HOLDS: Mapping[str, str] = {
    "too_many_unknown_nodes": "The load of too many nodes is unknown.",
    "partial_data": "Prometheus returned only a part of the data; check its stores.",
    "several_clusters": (
        "Prometheus holds several clusters; set metrics.matchers in the policy to select this one."
    ),
    "no_node_in_scope": (
        "No node is in scope; check the policy's nodeSelector and balanceScope, and whether nodes "
        "are Ready and older than the longest window."
    ),
    "just_started": (
        "desched has just started, or its state was deleted, so it may not know earlier evictions; "
        "it waits until the shortest window has passed."
    ),
    "planning_too_slow": (
        "Planning took too long; look for pods with very many constraints near the one it names."
    ),
    "clocks_differ": "The clocks differ, so the age of data is unknown; set them by NTP.",
    "cluster_saturated": (
        "The cluster, or each pool with overloaded nodes, is full, and no move would level it; it "
        "needs more nodes or less load."
    ),
    "too_few_underloaded_nodes": (
        "Fewer nodes are underloaded than the policy's numberOfNodes requires."
    ),
}

VERDICTS: Mapping[str, str] = {
    "evicted": "The pod is leaving; its controller replaces it.",
    "taken_over": "An admission webhook moves the workload itself.",
    "blocked_by_budget": "Its PodDisruptionBudget refused.",
    "several_budgets": "Several PodDisruptionBudgets cover it.",
    "throttled": "The API server is busy and requested a pause.",
    "forbidden": "The API server forbids it; check that RBAC grants create on pods/eviction.",
    "gone": "It was already gone.",
    "replaced": "Another pod has its name now; desched did not evict that one.",
    "not_confirmed": "A fresh look at the pod found a reason to leave it.",
    "not_begun": "desched stopped before its turn.",
    "unreadable": "The fresh look at the pod failed, so desched did not request its eviction.",
    "gang_broken": (
        "Others of its gang were evicted, and it was not; if the gang does not run again, delete "
        "its remaining pods."
    ),
    "unknown": "The answer is missing or unclear; check whether the pod still runs.",
}

MOVES: Mapping[str, str] = {
    "landed_as_forecast": "Its replacement is Ready on one of the nodes that the plan named.",
    "landed_elsewhere": "Its replacement is Ready on another node that can bear it.",
    "landed_overloaded": "Its replacement is on an overloaded node.",
    "back_on_source": "Its replacement is on the node that it left.",
    "still_pending": "No node accepted its replacement in time.",
    "not_ready": "Its replacement has a node but was not Ready in time.",
    "never_came": "Its workload did not create a replacement in time.",
    "refused": "The API server or an admission webhook refused to evict it.",
    "not_wanted": "Its workload needs fewer replicas now and did not replace it.",
    "stayed": "Its eviction was requested, but the pod is still there.",
    "load_unknown": "The load of its replacement's node was not known in time.",
}

NOT_ACTING: Mapping[str, str] = {
    "paused": "Everything is paused; `desched status` shows why, `desched resume` ends it.",
    "limit_zero": "The policy's limit of 0 forbids evictions until its line is removed.",
    "outside_window": "The policy's windows forbid evictions at this time.",
    "not_leading": "Another replica holds the lease; this one is on standby.",
    "taint_stayed": "desched could not remove a soft taint; the next cycle tries again.",
}

_SENTENCES: Mapping[type[StrEnum], Mapping[str, str]] = {
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
        "{overloaded} overloaded, but no move is right; the reasons above show what would have to "
        "change."
    ),
    CycleResult.PLANNED: (
        "Dry run: nothing was changed. It would evict {planned}.\n"
        "To evict, run `desched {acting} …` with the same flags; in a cluster, omit --dry-run."
    ),
    CycleResult.EVICTED: "Evicted {gone} of {planned} planned; {next_look}.",
    CycleResult.NOT_EVICTED: (
        "Evicted none of {planned} planned; the answers above show why, and the next {look} plans "
        "again."
    ),
    CycleResult.NOT_ACTING: "{planned} would be evicted, but not now: {not_acting}",
    CycleResult.STOPPED: (
        "Stopped after evicting {gone} of {planned}, because the result of an eviction is unknown. "
        "Check the API server; {next_look}."
    ),
}

LIMIT_ZERO = "{not_acting} Without it, this cycle would evict {planned}."
OTHER_DESCHEDULERS = (
    "Another descheduler runs in this cluster: {others}. They undo each other's work; choose one."
)
ACKNOWLEDGED_DESCHEDULERS = "Beside desched on purpose: {others}."
GRANT_STEERING = "kubectl apply -k deploy/overlays/evict"
SOME_NOT_JUDGED = "None of the {judged} with known load is overloaded; {not_judged} not judged."
NOTHING_JUDGED = (
    " The source of load has data for none of them; `desched doctor` says why, and which "
    "metrics.sources or metrics.matchers select this cluster."
)


def sentence_of(reason: StrEnum) -> str:
    """The sentence for a reason of any kind."""
    return _SENTENCES[type(reason)][reason]


def describe(reason: StrEnum | None, detail: str) -> str:
    """The sentence for a reason, with its detail in brackets; empty without a reason."""
    if reason is None:
        return ""
    sentence = sentence_of(reason)
    return f"{sentence.removesuffix('.')} ({detail})." if detail else sentence


def describe_not_acting(report: CycleReport) -> str:
    """Why evictions are not allowed now, unless the summary has it; else empty."""
    in_summary = report.result is CycleResult.NOT_ACTING or _is_held_by_zero(report)
    if report.not_acting is None or in_summary:
        return ""
    why = describe(report.not_acting, report.not_acting_detail)
    return f"Evictions are not allowed now: {why}"


def describe_unsteered(unsteered: Unsteered) -> str:
    """What the missing right to set soft taints costs, and how to grant it."""
    pods, nodes = count(unsteered.pods, "pod"), count(unsteered.nodes, "node")
    return f"{pods} on {nodes} could move with soft taints; allow them with `{GRANT_STEERING}`."


def summary_of(report: CycleReport, *, single: bool = False) -> str:
    """What the cycle did or would do, and what to do next.

    `single` means that no other cycle follows, so that nothing waits for the measurements.
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
    unknown = [node.reason for node in plan.nodes if node.node_class is NodeClass.UNKNOWN]
    all_absent = not judged and set(unknown) == {UnknownReason.ABSENT}
    text = LIMIT_ZERO if _is_held_by_zero(report) else SUMMARIES[report.result]
    return text.format(
        overloaded=count(classes[NodeClass.OVERLOADED], "node is", "nodes are"),
        planned=count(len(plan.evictions), "pod"),
        gone=sum(outcome.verdict in _GONE for outcome in report.outcomes),
        hold=describe(plan.hold, plain(plan.hold_detail)) + NOTHING_JUDGED * all_absent,
        not_acting=describe(report.not_acting, plain(report.not_acting_detail)),
        acting="--evict --once" if single else "--evict",
        look="run" if single else "cycle",
        next_look=_next_look(plan, single=single),
    )


def _is_held_by_zero(report: CycleReport) -> bool:
    """Whether a dry run shows moves that its policy does not make."""
    return report.result is CycleResult.PLANNED and report.not_acting is NotActing.LIMIT_ZERO


def _next_look(plan: Plan, *, single: bool) -> str:
    if not single:
        return "the next cycle counts their load as gone"
    windows = {w for node in plan.nodes for part in node.pressures for w, _ in part.measured}
    wait = duration_text(max(windows)) if windows else "the longest window"
    return f"run it again only after {wait}, when the measurements show the effect"


_GONE = frozenset({EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER})
