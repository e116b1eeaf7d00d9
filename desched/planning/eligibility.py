"""Which pods may be moved at all: ordered rules, the first refusal wins.

What is never evicted comes first, then what the policy protects, then what has to wait. The
annotation `descheduler.alpha.kubernetes.io/evict` lifts the rules marked with `_lifted`, never the
others; its value "false" means no.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property

import msgspec

from desched.model.cluster import SYSTEM_CRITICAL_PRIORITY, ClusterState, Pod, VolumeKind
from desched.model.memory import Memory
from desched.model.plan import RefusalReason
from desched.model.resources import Resource
from desched.planning.usage import UsageBook
from desched.policy.policy import Policy, Protections

EVICT_ANNOTATION = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION_ANNOTATION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SOURCE_ANNOTATION = "kubernetes.io/config.source"


class Surroundings(msgspec.Struct, frozen=True, dict=True):
    """What the rules hold a pod against.

    `priority_threshold` is the policy's, resolved against the cluster's PriorityClasses.
    """

    cluster: ClusterState
    policy: Policy
    memory: Memory
    book: UsageBook
    priority_threshold: int | None
    now: datetime

    @property
    def protections(self) -> Protections:
        """What the policy protects."""
        return self.policy.protections

    @cached_property
    def recently_evicted(self) -> Mapping[str, datetime]:
        """Workloads with an eviction that the windows have not fully seen, and when it was."""
        return {r.workload_uid: r.evicted_at for r in self.memory.evictions}


Finding = tuple[RefusalReason, str] | None
Rule = Callable[[Pod, Surroundings], Finding]


def refuse(pod: Pod, around: Surroundings) -> Finding:
    """Why the pod must stay, None if it may be moved."""
    for rule in RULES:
        finding = rule(pod, around)
        if finding is not None:
            return finding
    return None


def _asked_for(pod: Pod) -> bool:
    return pod.annotations.get(EVICT_ANNOTATION, "false").lower() != "false"


def _lifted(rule: Rule) -> Rule:
    def lifted(pod: Pod, around: Surroundings) -> Finding:
        return None if _asked_for(pod) else rule(pod, around)

    return lifted


# Never, whatever the policy says.


def _kubelet_owned(pod: Pod, around: Surroundings) -> Finding:  # noqa: ARG001 (a Rule)
    if MIRROR_ANNOTATION in pod.annotations or (pod.owner and pod.owner.kind == "Node"):
        return RefusalReason.MIRROR_POD, ""
    if pod.annotations.get(SOURCE_ANNOTATION, "api") != "api":
        return RefusalReason.STATIC_POD, ""
    return None


def _daemonset(pod: Pod, around: Surroundings) -> Finding:  # noqa: ARG001 (a Rule)
    if pod.owner and pod.owner.kind == "DaemonSet":
        return RefusalReason.DAEMONSET_POD, ""
    return None


def _state(pod: Pod, around: Surroundings) -> Finding:  # noqa: ARG001 (a Rule)
    if pod.deleting:
        return RefusalReason.TERMINATING, ""
    if pod.phase != "Running":
        return RefusalReason.NOT_RUNNING, pod.phase
    if not pod.ready:
        return RefusalReason.NOT_READY, ""
    return None


def _opted_out(pod: Pod, around: Surroundings) -> Finding:
    workload = around.cluster.workload_of(pod)
    for where, annotations in (
        ("the pod", pod.annotations),
        (str(workload), workload.annotations if workload else {}),
    ):
        if annotations.get(EVICT_ANNOTATION, "").lower() == "false":
            return RefusalReason.OPTED_OUT, f'{EVICT_ANNOTATION}: "false" on {where}'
    return None


def _owner(pod: Pod, around: Surroundings) -> Finding:
    if pod.owner is None:
        return RefusalReason.BARE_POD, ""
    if around.cluster.workload_of(pod) is None:
        kind = f"{pod.owner.api_version} {pod.owner.kind}".strip()
        return RefusalReason.OWNER_NOT_UNDERSTOOD, f"{kind} {pod.owner.name}"
    return None


# By policy.


def _critical(pod: Pod, around: Surroundings) -> Finding:
    if around.protections.system_critical and pod.priority >= SYSTEM_CRITICAL_PRIORITY:
        return RefusalReason.SYSTEM_CRITICAL, f"priority {pod.priority}"
    return None


def _priority(pod: Pod, around: Surroundings) -> Finding:
    threshold = around.priority_threshold
    if threshold is not None and pod.priority >= threshold:
        return RefusalReason.PRIORITY_THRESHOLD, f"priority {pod.priority}, threshold {threshold}"
    return None


def _namespace(pod: Pod, around: Surroundings) -> Finding:
    included = around.protections.included_namespaces
    excluded = pod.namespace in around.protections.excluded_namespaces
    if excluded or (included and pod.namespace not in included):
        return RefusalReason.NAMESPACE_EXCLUDED, pod.namespace
    selector = around.protections.namespace_labels
    labels = around.cluster.namespaces.get(pod.namespace, {})
    if selector is not None and not selector.matches(labels):
        return RefusalReason.NAMESPACE_NOT_SELECTED, pod.namespace
    return None


def _labels(pod: Pod, around: Surroundings) -> Finding:
    selector = around.protections.labels
    if selector is not None and not selector.matches(pod.labels):
        return RefusalReason.LABELS_NOT_SELECTED, ""
    return None


def _claims(pod: Pod, around: Surroundings) -> Finding:
    if not around.protections.pvc_pods:
        return None
    protected = around.protections.protected_storage_classes
    for volume in pod.volumes:
        if volume.kind not in {VolumeKind.CLAIM, VolumeKind.EPHEMERAL_CLAIM}:
            continue
        claim = around.cluster.claims.get((pod.namespace, volume.claim))
        # A claim that is not there, or has no class, might be of a protected one.
        if not protected or claim is None or claim.storage_class in {"", *protected}:
            return RefusalReason.PVC_POD, volume.claim
    return None


def _local_storage(pod: Pod, around: Surroundings) -> Finding:
    local = {VolumeKind.EMPTY_DIR, VolumeKind.HOST_PATH}
    if around.protections.local_storage:
        for volume in pod.volumes:
            if volume.kind in local:
                return RefusalReason.LOCAL_STORAGE, volume.kind.value
    return None


def _resource_claims(pod: Pod, around: Surroundings) -> Finding:
    if around.protections.resource_claims and pod.has_resource_claims:
        return RefusalReason.RESOURCE_CLAIMS, ""
    return None


def _min_replicas(pod: Pod, around: Surroundings) -> Finding:
    workload, least = around.cluster.workload_of(pod), around.protections.min_replicas
    if workload is not None and workload.desired_replicas < least:
        detail = f"{workload} wants {workload.desired_replicas}, the policy asks for {least}"
        return RefusalReason.TOO_FEW_REPLICAS, detail
    return None


def _min_age(pod: Pod, around: Surroundings) -> Finding:
    least_seconds = around.protections.min_pod_age_seconds
    if not least_seconds:
        return None
    if pod.started_at is None:
        return RefusalReason.TOO_YOUNG, "its start time is not known"
    age_seconds = (around.now - pod.started_at).total_seconds()
    if age_seconds < least_seconds:
        return RefusalReason.TOO_YOUNG, f"{age_seconds:.0f} s old, minPodAge {least_seconds} s"
    return None


def _preference(pod: Pod, around: Surroundings) -> Finding:
    if (
        around.protections.prefer_no_eviction_is_mandatory
        and PREFER_NO_EVICTION_ANNOTATION in pod.annotations
    ):
        return RefusalReason.PREFERS_NO_EVICTION, PREFER_NO_EVICTION_ANNOTATION
    return None


# For now.


def _workload_moves(pod: Pod, around: Surroundings) -> Finding:
    workload = around.cluster.workload_of(pod)
    if workload is None:
        return None
    if workload.rolling_out:
        return RefusalReason.ROLLOUT_UNDER_WAY, str(workload)
    if workload.scaling:
        return RefusalReason.SCALING_UNDER_WAY, str(workload)
    evicted_at = around.recently_evicted.get(workload.uid)
    if evicted_at is not None:
        ago_seconds = (around.now - evicted_at).total_seconds()
        return RefusalReason.EVICTED_RECENTLY, f"{workload}, {ago_seconds:.0f} s ago"
    return None


def _budgets(pod: Pod, around: Surroundings) -> Finding:
    budgets = around.cluster.budgets_of(pod)
    if not budgets:
        if around.protections.pods_without_budget:
            return RefusalReason.WITHOUT_BUDGET, ""
        return None
    if len(budgets) > 1:
        return RefusalReason.SEVERAL_BUDGETS, ", ".join(sorted(str(b) for b in budgets))
    budget = budgets[0]
    if not budget.up_to_date:
        return RefusalReason.BUDGET_NOT_CURRENT, str(budget)
    if budget.disruptions_allowed <= 0:
        return RefusalReason.BUDGET_EXHAUSTED, f"{budget} allows 0 disruptions"
    return None


def _usage(pod: Pod, around: Surroundings) -> Finding:
    for resource, windows in around.book.windows.items():
        measured = around.book.measured(pod, resource)
        if not measured:
            return RefusalReason.USAGE_UNKNOWN, f"no {resource.value} usage measured"
        if resource is not Resource.PODS and around.book.seen_share(pod, windows[-1]) < 1.0:
            return RefusalReason.USAGE_UNKNOWN, f"runs for less than its window of {windows[-1]} s"
    return None


RULES: tuple[Rule, ...] = (
    _kubelet_owned,
    _daemonset,
    _state,
    _opted_out,
    _owner,
    _critical,
    _lifted(_priority),
    _namespace,
    _labels,
    _lifted(_claims),
    _lifted(_local_storage),
    _resource_claims,
    _lifted(_min_replicas),
    _min_age,
    _preference,
    _workload_moves,
    _budgets,
    _usage,
)
