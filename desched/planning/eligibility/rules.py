"""The ordered rules of eligibility; the first refusal wins.

First come pods that are never evicted, then pods that the policy protects, then pods that must
wait. Rules marked with `_lifted` do not apply to a pod whose annotations request a move.
"""

from desched.model.cluster import SYSTEM_CRITICAL_PRIORITY, Pod
from desched.model.plan import Finding, RefusalReason
from desched.planning.eligibility import availability, pod_groups, recent_moves, volumes
from desched.planning.eligibility.annotations import PREFER_NO_EVICTION_ANNOTATION
from desched.planning.eligibility.context import EligibilityContext, Refused, Rule
from desched.planning.eligibility.controllers import kind_of, top_owner

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SOURCE_ANNOTATION = "kubernetes.io/config.source"

SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease", "desched-system"})
"""The namespaces of the cluster itself and of desched; a policy must include them by name."""


def refuse(pod: Pod, context: EligibilityContext) -> Refused:
    """Return why the pod must not move, None if it may."""
    for rule in RULES:
        finding = rule(pod, context)
        if finding is not None:
            return finding
    return None


def _lifted(rule: Rule) -> Rule:
    """The same rule, unless annotations request a move."""

    def lifted(pod: Pod, context: EligibilityContext) -> Refused:
        finding = rule(pod, context)
        return None if finding is None or context.eviction_annotations(pod).requests else finding

    return lifted


# Never, whatever the policy says.


def _kubelet_owned(pod: Pod, context: EligibilityContext) -> Refused:  # noqa: ARG001 (a Rule)
    if MIRROR_ANNOTATION in pod.annotations or (pod.owner and pod.owner.kind == "Node"):
        return Finding(RefusalReason.MIRROR_POD)
    if pod.annotations.get(SOURCE_ANNOTATION, "api") != "api":
        return Finding(RefusalReason.STATIC_POD)
    return None


def _daemonset(pod: Pod, context: EligibilityContext) -> Refused:  # noqa: ARG001 (a Rule)
    if pod.owner and pod.owner.kind == "DaemonSet":
        return Finding(RefusalReason.DAEMONSET_POD)
    return None


def _phase(pod: Pod, context: EligibilityContext) -> Refused:  # noqa: ARG001 (a Rule)
    if pod.deleting:
        return Finding(RefusalReason.TERMINATING)
    if pod.phase != "Running":
        return Finding(RefusalReason.NOT_RUNNING, pod.phase)
    if not pod.ready:
        return Finding(RefusalReason.NOT_READY)
    return None


def _opted_out(pod: Pod, context: EligibilityContext) -> Refused:
    found = context.eviction_annotations(pod)
    return Finding(RefusalReason.OPTED_OUT, found.detail) if found.forbids else None


def _owner(pod: Pod, context: EligibilityContext) -> Refused:
    owner = top_owner(pod, context.cluster)
    if owner is None:
        return Finding(RefusalReason.BARE_POD)
    if context.cluster.workload_of(pod) is None:
        return Finding(RefusalReason.OWNER_NOT_UNDERSTOOD, f"{kind_of(owner)} {owner.name}")
    return None


# By policy.


def _critical(pod: Pod, context: EligibilityContext) -> Refused:
    if context.protections.system_critical and pod.priority >= SYSTEM_CRITICAL_PRIORITY:
        return Finding(RefusalReason.SYSTEM_CRITICAL, f"priority {pod.priority}")
    return None


def _priority(pod: Pod, context: EligibilityContext) -> Refused:
    threshold = context.priority_threshold
    if threshold is not None and pod.priority >= threshold:
        return Finding(
            RefusalReason.PRIORITY_THRESHOLD, f"priority {pod.priority}, threshold {threshold}"
        )
    return None


def _namespace(pod: Pod, context: EligibilityContext) -> Refused:
    included = context.protections.included_namespaces
    excluded = pod.namespace in context.protections.excluded_namespaces
    if excluded or (included and pod.namespace not in included):
        return Finding(RefusalReason.NAMESPACE_EXCLUDED, pod.namespace)
    if pod.namespace in SYSTEM_NAMESPACES and not included:
        return Finding(RefusalReason.SYSTEM_NAMESPACE, pod.namespace)
    labels = context.cluster.namespaces.get(pod.namespace, {})
    if not context.protections.namespace_labels.matches(labels):
        return Finding(RefusalReason.NAMESPACE_NOT_SELECTED, pod.namespace)
    return None


def _labels(pod: Pod, context: EligibilityContext) -> Refused:
    selected = context.protections.labels.matches(pod.labels)
    return None if selected else Finding(RefusalReason.LABELS_NOT_SELECTED)


def _resource_claims(pod: Pod, context: EligibilityContext) -> Refused:  # noqa: ARG001 (a Rule)
    # The planner does not evaluate whether another node has a free device.
    return Finding(RefusalReason.RESOURCE_CLAIMS) if pod.has_resource_claims else None


def _preference(pod: Pod, context: EligibilityContext) -> Refused:
    if (
        context.protections.prefer_no_eviction_is_mandatory
        and PREFER_NO_EVICTION_ANNOTATION in pod.annotations
        and not context.eviction_annotations(pod).overrides
    ):
        return Finding(RefusalReason.PREFERS_NO_EVICTION, PREFER_NO_EVICTION_ANNOTATION)
    return None


def _min_age(pod: Pod, context: EligibilityContext) -> Refused:
    least_seconds = context.protections.min_pod_age_seconds
    if not least_seconds:
        return None
    if pod.started_at is None:
        return Finding(RefusalReason.TOO_YOUNG, "its start time is not known")
    age_seconds = (context.now - pod.started_at).total_seconds()
    if age_seconds < least_seconds:
        return Finding(
            RefusalReason.TOO_YOUNG, f"{age_seconds:.0f} s old, minPodAge {least_seconds} s"
        )
    return None


def _grace_period(pod: Pod, context: EligibilityContext) -> Refused:
    longest_seconds = context.protections.max_grace_period_seconds
    if pod.grace_period_seconds > longest_seconds:
        detail = f"{pod.grace_period_seconds} s, maxGracePeriod {longest_seconds} s"
        return Finding(RefusalReason.LONG_GRACE_PERIOD, detail)
    return None


# For now.


def _resize(pod: Pod, context: EligibilityContext) -> Refused:  # noqa: ARG001 (a Rule)
    return Finding(RefusalReason.RESIZE_UNDER_WAY) if pod.resizing else None


def _seen_by_windows(pod: Pod, context: EligibilityContext) -> Refused:
    window_seconds = context.book.longest_window_seconds
    if context.book.seen_share(pod, window_seconds) < 1.0:
        return Finding(
            RefusalReason.TOO_YOUNG, f"runs for less than the longest window, {window_seconds} s"
        )
    return None


def _usage(pod: Pod, context: EligibilityContext) -> Refused:
    for resource in context.book.windows:
        if not context.book.measured(pod, resource):
            return Finding(RefusalReason.USAGE_UNKNOWN, f"no {resource.value} usage measured")
    return None


RULES: tuple[Rule, ...] = (
    _kubelet_owned,
    _daemonset,
    recent_moves.desched_itself,
    _phase,
    _opted_out,
    _owner,
    _critical,
    _lifted(_priority),
    _namespace,
    _labels,
    _lifted(volumes.claims),
    volumes.node_bound_volumes,
    _lifted(volumes.disk_storage),
    _lifted(volumes.host_paths),
    _resource_claims,
    pod_groups.grouped,
    _lifted(availability.min_replicas),
    _min_age,
    _grace_period,
    _preference,
    availability.job,
    availability.rollout,
    availability.scaling,
    availability.autoscaler_at_maximum,
    _resize,
    recent_moves.paused,
    recent_moves.in_flight,
    recent_moves.cooling_down,
    availability.missing_budget,
    availability.budgets,
    availability.single_replica,
    availability.availability,
    availability.recently_evicted,
    _seen_by_windows,
    _usage,
)
