"""What would have to change for a pod to move, or for a node to be relieved: one sentence each.

Reasons of different kinds share values, so each kind has its own mapping, by value.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from desched.cycle import Decision
from desched.model.cluster import Pod
from desched.model.load import Unknown, UnknownReason
from desched.model.model_caches import CACHE_KEY, CachedModel
from desched.model.plan import (
    Finding,
    HoldReason,
    NodeClass,
    NodeReason,
    NodeVerdict,
    Plan,
    RefusalReason,
)
from desched.planning.eligibility.context import EligibilityContext
from desched.policy.compatibility import CacheAffinity, SteeringMode
from desched.views.explained.values import NearMiss, Placement, PodOutcome

_ANNOTATE = 'annotate it with desched.io/evict: "true"'

FOR_PODS: Mapping[str, str] = {
    "mirror_pod": "Nothing makes it movable; remove its manifest from the node.",
    "static_pod": "Nothing makes it movable; remove its manifest from the node.",
    "daemonset_pod": "Nothing makes it movable; a selector or taint keeps a DaemonSet off a node.",
    "desched_itself": "Nothing makes it movable.",
    "terminating": "Nothing: it is already leaving.",
    "not_running": "It must run.",
    "not_ready": "It must become Ready.",
    "bare_pod": "Give it a controller, such as a Deployment.",
    "owner_not_understood": (
        "Add the kind to understoodOwnerKinds, let desched list its objects, and cover its pods "
        "with a PodDisruptionBudget."
    ),
    "opted_out": (
        'Remove that annotation; desched.io/evict: "true" also overrides those of other projects.'
    ),
    "system_critical": "Set evictSystemCriticalPods, or give it another priority.",
    "priority_threshold": f"Raise priorityThreshold, lower its priority, or {_ANNOTATE}.",
    "system_namespace": "Name its namespace in evictableNamespaces.include.",
    "namespace_excluded": (
        "Remove its namespace from evictableNamespaces.exclude, or add it to include."
    ),
    "namespace_not_selected": (
        "Give its namespace the labels of namespaceLabelSelector, or change that selector."
    ),
    "labels_not_selected": "Give it the labels of labelSelector, or change that selector.",
    "gpu_pod": f"Set gpuPods: Allow, or {_ANNOTATE}.",
    "pvc_pod": f"Remove PodsWithPVC from podProtections (ignorePvcPods: false), or {_ANNOTATE}.",
    "node_bound_volume": "Give it a volume that other nodes can reach.",
    "shared_claim": "Give the claim the access mode ReadWriteMany, or each pod its own claim.",
    "local_storage": f"Set evictLocalStoragePods, or {_ANNOTATE}.",
    "host_path": f"If it can lose that directory, {_ANNOTATE}.",
    "resource_claims": (
        "Claim devices by count from templates of their own, with classes that compare the driver "
        "only. `desched doctor` says whether devices may be read."
    ),
    "networks_unknown": "Correct its annotation networking.gke.io/interfaces.",
    "pod_group": (
        "Let more pods of its gang run than it needs, or set gangMode: Whole if its system lets it "
        "move whole. If its need is not known, `desched doctor` says whether its PodGroup may be "
        "read; else nothing."
    ),
    "not_migratable": "Let KubeVirt migrate it: evictionStrategy LiveMigrate, and shared storage.",
    "without_budget": (
        "Cover it with a PodDisruptionBudget, or remove PodsWithoutPDB from podProtections."
    ),
    "single_replica": f"Add a replica, set evictSingleReplica, or {_ANNOTATE}.",
    "too_few_replicas": "Add replicas, or lower minReplicas.",
    "job_counts_eviction": "Give its Job a podFailurePolicy that ignores DisruptionTarget.",
    "long_grace_period": "Raise maxGracePeriod, or shorten its terminationGracePeriodSeconds.",
    "too_young": "Wait until it is older than minPodAge and the longest window.",
    "prefers_no_eviction": "Remove that annotation, or set noEvictionPolicy: Preferred.",
    "rollout_under_way": "Wait until the rollout has ended.",
    "scaling_under_way": "Wait until its autoscaler has settled.",
    "autoscaler_at_maximum": "Raise maxReplicas of its autoscaler, or wait for less load.",
    "resize_under_way": "Wait until the resize has ended.",
    "migration_under_way": "Wait until KubeVirt has moved it.",
    "replicas_not_ready": "Wait until all replicas are Ready; look at those that are not.",
    "budget_exhausted": (
        "Let its PodDisruptionBudget allow a disruption: more Ready pods, or a lower minAvailable."
    ),
    "budget_not_current": "Wait until the status of its PodDisruptionBudget is up to date.",
    "several_budgets": "Cover it with one PodDisruptionBudget only.",
    "paused": "Run `desched resume`, or wait until the pause ends.",
    "in_flight": (
        "Wait for the result of its workload's moves, or raise evictionLimits.inFlight.workload."
    ),
    "cooling_down": (
        "Wait until the cool-down ends, or run `desched resume --workload {workload}`."
    ),
    "moved_recently": "Wait until it has been in its place for followUp.coolDown.first.",
    "requests_unknown": "Its VerticalPodAutoscaler must be one that desched understands.",
    "usage_unknown": (
        "Let Prometheus measure it; check that cAdvisor of its node is scraped, or if gpu is "
        "missing, that DCGM's exporter names each pod of a GPU."
    ),
    "constraint_not_evaluated": "Nothing makes it movable while it has that constraint.",
    "no_node_fits": "Another node must accept it: more free requests, or fewer constraints.",
    "placement_domain": (
        "Another node of its placement domain must accept it, or placementDomains must not name "
        "that domain."
    ),
    "model_cache": "A node that holds its model must accept it.",
    "no_node_under_ceiling": (
        "A node that accepts it must have less load; ceilingMargin sets the ceiling."
    ),
    "landing_risk": "The scheduler must prefer a better node, or maxLandingRisk be higher.",
    "room_awaited": "Pending pods that would take its room must find another node.",
    "no_relief": "Nothing: the node would hardly have less load without it.",
    "not_needed": "Nothing: the node is relieved without it.",
    "cheaper_pods_first": "Nothing: pods whose move disturbs less relieve the node.",
    "excess_not_movable": (
        "More of the load of its node must be movable; see what keeps its largest pods."
    ),
    "room_being_made": "Wait for the next cycles; another pod makes room for it.",
    "node_settling": "Wait until the measurements show the last move from its node.",
    "not_sustained_yet": "The overload must last for sustainedFor.",
    "pool_saturated": "Add nodes to the pool, or reduce its load.",
    "node_cooling_down": "Wait until its node's cool-down ends, or run `desched resume --all`.",
    "pool_paused": "Run `desched resume --pool {pool}`, or wait until the pause ends.",
    "probe_first": "Wait until one careful move of another pod has succeeded.",
    "limit_total": (
        "Wait for the next cycles, raise evictionLimits.total, or end slow start with "
        "slowStart: false."
    ),
    "limit_node": "Wait for the next cycle, or raise evictionLimits.node.",
    "limit_namespace": "Wait for the next cycle, or raise evictionLimits.namespace.",
    "limit_workload": "Wait for the next cycle, or raise evictionLimits.workload.",
    "limit_hourly": "Wait until the hour has passed, or raise evictionLimits.workloadHourly.",
    "limit_migrations": "Wait until KubeVirt has moved others.",
    "limit_in_flight": "Wait for the results of moves, or raise evictionLimits.inFlight.",
    "cycle_held": "The reason that holds the whole cycle must end.",
    "confirmation_failed": "Wait for the next cycle.",
    "load_too_old": "Wait for the next cycle.",
}

FOR_NODES: Mapping[str, str] = {
    "not_selected": "Select it with nodeSelector or nodePools.",
    "not_ready": "It must become Ready.",
    "not_linux": "Nothing: desched judges only Linux nodes.",
    "virtual": "Nothing: it has no machine of its own.",
    "too_young": "Wait until it is older than the longest window.",
    "being_removed": "If nobody removes it, uncordon it.",
    "under_pressure": "Wait until the kubelet reports no pressure.",
    "without_domain": "Give it the label that balanceScope names, or a HyperNode of that tier.",
    "settling": "Wait until the measurements show the last move.",
    "not_sustained_yet": "The overload must last for sustainedFor.",
    "pool_saturated": "Add nodes to the pool, or reduce its load.",
    "destination_unknown": "Let Prometheus measure its load over destinationWindows.",
    "excess_not_movable": (
        "More of its load must be movable: see what keeps its largest pods, and what runs on it "
        "outside of pods."
    ),
    "room_being_made": "Wait for the next cycles; a pod of another node makes room.",
    "cooling_down": "Wait until the cool-down ends, or run `desched resume --all`.",
    "pool_paused": "Run `desched resume --pool {pool}`, or wait until the pause ends.",
}

FOR_UNKNOWN_LOADS: Mapping[str, str] = {
    "absent": "Let Prometheus scrape its exporter, or metrics-server its kubelet.",
    "stale": "Repair its exporter or kubelet, or the connection to it.",
    "window_not_covered": "Wait until samples cover the windows, or set wider ones.",
    "not_finite": "Correct the query in metrics.queries.",
    "implausible": "Correct the query, or the clock of its exporter or kubelet.",
    "contradictory": "Remove duplicate exporters of the node.",
    "pods_above_node": "Let metrics.sources accept only your own exporters.",
}

FOR_HOLDS: Mapping[str, str] = {
    "too_many_unknown_nodes": "Let the unknown nodes be measured.",
    "partial_data": "Repair the stores behind Prometheus.",
    "several_clusters": "Select this cluster with metrics.matchers.",
    "cluster_saturated": "Add nodes, or reduce the load.",
    "too_few_underloaded_nodes": "Lower numberOfNodes, or raise thresholds.",
    "no_node_in_scope": "Select nodes that are Ready and older than the longest window.",
    "just_started": "Wait until the shortest window has passed.",
    "clocks_differ": "Set the clocks by NTP.",
    "planning_too_slow": "Find the pods with very many constraints.",
}

_BY_KIND: Mapping[type[StrEnum], Mapping[str, str]] = {
    RefusalReason: FOR_PODS,
    NodeReason: FOR_NODES,
    UnknownReason: FOR_UNKNOWN_LOADS,
    HoldReason: FOR_HOLDS,
}


def changes_for_node(
    verdict: NodeVerdict, plan: Plan, unknown_gpus: Unknown | None = None
) -> tuple[str, ...]:
    """What would have to change for the node to be relieved, or to be judged."""
    found = []
    if unknown_gpus is not None:
        why = unknown_gpus.detail or unknown_gpus.reason
        found.append(
            "Let Prometheus measure its GPUs; until then its pods with a GPU stay, and it takes no "
            f"further ones ({why})."
        )
    if plan.hold is not None and verdict.node_class is NodeClass.OVERLOADED:
        found.append(_sentence(plan.hold))
    if verdict.reason is not None:
        sentence = _sentence(verdict.reason).format(pool=verdict.pool)
        found.append(_with_time(sentence, verdict.until))
    return tuple(found)


def changes_for_pod(
    pod: Pod,
    outcome: tuple[PodOutcome, Finding[RefusalReason] | None],
    refusals: Iterable[Finding[RefusalReason]],
    placement: Placement | None,
    decision: Decision,
) -> tuple[str, ...]:
    """What would have to change for the pod to move; empty if it is evicted.

    `refusals` are those of all rules that refuse it.
    """
    kind, finding = outcome
    if kind is PodOutcome.EVICTED:
        limits = decision.context.policy.limits
        return () if limits.total else (f"Remove the policy's limit of 0: {limits.zero_at}.",)
    reasons = list(dict.fromkeys(refusal.reason for refusal in refusals))
    found = [_for_pod(reason, pod, decision) for reason in reasons]
    verdict = next((each for each in decision.plan.nodes if each.node == pod.node), None)
    if verdict is not None and verdict.node_class is not NodeClass.OVERLOADED:
        found.append(_overload_first(verdict))
    elif finding is not None and finding.reason not in reasons:
        found.append(_for_pod(finding.reason, pod, decision))
        if finding.reason is RefusalReason.CYCLE_HELD and decision.plan.hold is not None:
            found[-1] = _sentence(decision.plan.hold)
    if placement is not None and placement.reason is not None:
        if finding is None or finding.reason is not placement.reason:
            found.append(f"It also needs a place. {_for_pod(placement.reason, pod, decision)}")
        found += _for_placement(placement, decision)
    return tuple(found)


def _for_pod(reason: RefusalReason, pod: Pod, decision: Decision) -> str:
    context = decision.context
    workload = context.cluster.workload_of(pod)
    path = f"{workload.namespace}/{workload.name}" if workload else str(pod.ref)
    verdict = next((each for each in decision.plan.nodes if each.node == pod.node), None)
    pool = verdict.pool if verdict else ""
    sentence = _sentence(reason).format(workload=path, pool=pool)
    if reason is RefusalReason.MODEL_CACHE:
        sentence = " ".join([sentence, *_for_models(context.models_of(pod), context)])
    of_node = verdict.until if verdict and reason in _OF_NODES else None
    return _with_time(sentence, of_node or _ends_at(reason, pod, context))


def _for_models(models: Sequence[CachedModel], context: EligibilityContext) -> Iterator[str]:
    """How more nodes would hold the models, or need not."""
    for model in models:
        if not model.is_named:
            yield f"Name the model in {CACHE_KEY}, or remove that annotation."
        elif model.system:
            yield f"Let {model.system} put model {model.name} on another node."
        else:
            label = f"{model.label}={model.values[-1]}"
            yield f"Put model {model.name} on another node, and label that node {label}."
    affinity = context.policy.cache_affinity
    if affinity is CacheAffinity.REQUIRE and not all(each.needed_to_start for each in models):
        yield "With cacheAffinity: Prefer, it may also move to other nodes."


_OF_NODES = frozenset(
    {
        RefusalReason.NODE_SETTLING,
        RefusalReason.NOT_SUSTAINED_YET,
        RefusalReason.NODE_COOLING_DOWN,
        RefusalReason.POOL_PAUSED,
    }
)
"""Refusals that end when the reason of the node does."""


def _ends_at(reason: RefusalReason, pod: Pod, context: EligibilityContext) -> datetime | None:
    """When the refusal ends by itself, if that is known."""
    workload = context.cluster.workload_of(pod)
    match reason:
        case RefusalReason.COOLING_DOWN if workload is not None:
            return context.cool_downs[workload.uid].until
        case RefusalReason.MOVED_RECENTLY:
            return context.resting.get(pod.uid)
        case RefusalReason.TOO_YOUNG if pod.started_at is not None:
            age = context.now - pod.started_at
            least = context.protections.min_pod_age_seconds
            oldest = max(least, context.book.longest_window_seconds)
            return context.now + max(
                timedelta(0), timedelta(seconds=oldest) - max(timedelta(0), age)
            )
        case _:
            return None


def _overload_first(verdict: NodeVerdict) -> str:
    if not verdict.pressures:
        return "Its node must be judged first, and be overloaded."
    lines = ", ".join(
        f"{p.resource.value} {p.lowest_ratio:.1%} of {p.target_ratio:.1%}"
        for p in verdict.pressures
    )
    return f"Its node would have to be above a target ({lines})."


def _for_placement(placement: Placement, decision: Decision) -> Iterator[str]:
    near: Iterable[NearMiss] = placement.near
    if placement.reason in {RefusalReason.NO_NODE_FITS, RefusalReason.NO_NODE_UNDER_CEILING}:
        yield from (f"Node {each.node} {each.lacks}." for each in near)
    forecast = placement.forecast
    if placement.reason is RefusalReason.LANDING_RISK and forecast is not None:
        if decision.context.policy.steering.mode is SteeringMode.OFF:
            yield "Soft taints could keep it off those nodes: set steering: WhenNeeded."
        yield f"maxLandingRisk would have to be {forecast.risk:.2f} or more."


def _with_time(sentence: str, at: datetime | None) -> str:
    if at is None:
        return sentence
    return f"{sentence} That is at {at:%Y-%m-%d %H:%M} UTC at the earliest."


def _sentence(reason: StrEnum) -> str:
    return _BY_KIND[type(reason)][reason.value]
