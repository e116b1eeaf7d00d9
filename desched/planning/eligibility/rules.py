"""The ordered rules of eligibility; the first refusal wins.

First come pods that are never evicted, then pods that the policy protects, then pods that must
wait. `lifted` rules do not apply to a pod whose annotations request a move.
"""

from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from functools import cache
from typing import NamedTuple

from desched.model.cluster import SYSTEM_CRITICAL_PRIORITY, Pod, Workload
from desched.model.plan import Finding, RefusalReason
from desched.model.resources import Resource
from desched.planning.eligibility import (
    availability,
    devices,
    recent_moves,
    volumes,
)
from desched.planning.eligibility.annotations import PREFER_NO_EVICTION_ANNOTATION
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.terms import Refused, Terms, Why
from desched.planning.plugins import Plugin
from desched.policy.durations import duration_seconds

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SOURCE_ANNOTATION = "kubernetes.io/config.source"

COOLDOWN_TIME = "volcano.sh/cooldown-time"
"""For how long Volcano leaves a pod alone after its start; a label or an annotation."""

_NONE, _HOUR, _DAY = timedelta(), timedelta(hours=1), timedelta(days=1)

SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease", "desched-system"})
"""The namespaces of the cluster itself and of desched; a policy must include them by name."""


class RuleVerdict(NamedTuple):
    """What the rule of this reason finds: why it refuses, None if it does not.

    A `lifted` refusal does not count, because annotations request a move.
    """

    reason: RefusalReason
    finding: Finding[RefusalReason] | None
    lifted: bool


def refuse(
    pod: Pod, context: EligibilityContext, *, without: Collection[RefusalReason] = ()
) -> Refused:
    """Return why the pod must not move, None if it may; the rules in `without` do not count."""
    return next(_refusals(pod, context, without), None)


def may_refuse_for(
    reasons: Collection[RefusalReason], pod: Pod, context: EligibilityContext
) -> bool:
    """Whether one of the rules of these reasons refuses the pod; others may come before it."""
    workload = context.cluster.workload_of(pod)
    rules = (rule for rule in rules_of(context.policy.plugins) if rule.reason in reasons)
    return any(_finding(rule, pod, workload, context) is not None for rule in rules)


def waits_for_moves(pod: Pod, context: EligibilityContext) -> bool:
    """Whether only moves of its workload that are under way may keep the pod from moving."""
    workload = context.cluster.workload_of(pod)
    if workload is None or not context.terms.in_flight[workload.uid]:
        return False
    return all(finding.reason in _OF_MOVES_UNDER_WAY for finding in _refusals(pod, context))


def rule_verdicts(pod: Pod, context: EligibilityContext) -> Iterator[RuleVerdict]:
    """What each rule finds, in their order, also after the first one that refuses."""
    workload = context.cluster.workload_of(pod)
    for rule in rules_of(context.policy.plugins):
        finding = _finding(rule, pod, workload, context)
        lifted = finding is not None and rule.lifted and _requests_move(pod, context)
        yield RuleVerdict(rule.reason, finding, lifted=lifted)


def _refusals(
    pod: Pod, context: EligibilityContext, without: Collection[RefusalReason] = ()
) -> Iterator[Finding[RefusalReason]]:
    """What the rules find, without those of some reasons."""
    workload = context.cluster.workload_of(pod)
    for rule in rules_of(context.policy.plugins):
        if without and rule.reason in without:
            continue  # it may need usage that was not read
        finding = _finding(rule, pod, workload, context)
        if finding is not None and not (rule.lifted and _requests_move(pod, context)):
            yield finding


def _finding(
    rule: "Rule", pod: Pod, workload: Workload | None, context: EligibilityContext
) -> Refused:
    """Why the rule refuses the pod, whether or not that is lifted."""
    reason, of_pod, of_workload, in_cluster, *_ = rule
    if context.terms.waived and reason in context.terms.waived:
        return None
    refused: Why | Refused = None
    if of_pod is not None:
        refused = of_pod(pod, context.terms)
    elif in_cluster is not None:
        refused = in_cluster(pod, context)
    elif of_workload is not None and workload is not None:
        refused = of_workload(workload, context.terms)
    if refused is None or refused is False:
        return None
    if isinstance(refused, Finding):
        return refused
    return Finding(reason, "" if refused is True else refused)


def _requests_move(pod: Pod, context: EligibilityContext) -> bool:
    return context.eviction_annotations(pod).requests


class Rule(NamedTuple):
    """Refuses a pod for this reason, unless a finding has another.

    It judges the pod by itself, by its workload, or in its cluster. `lifted` if annotations that
    request a move lift it. A rule of a plugin has its place `before` the rule of another reason;
    without one it comes last. A `fallback` counts only while no plugin decides on its reason.
    """

    reason: RefusalReason
    pod: Callable[[Pod, Terms], Why | Refused] | None = None
    workload: Callable[[Workload, Terms], Why] | None = None
    in_cluster: Callable[[Pod, EligibilityContext], Why | Refused] | None = None
    lifted: bool = False
    before: RefusalReason | None = None
    fallback: bool = False


@cache
def rules_of(plugins: tuple[Plugin, ...]) -> tuple[Rule, ...]:
    """The rules of desched with those of these plugins, in their order."""
    decided = {reason for plugin in plugins for reason in plugin.decides}
    rules = list(RULES)
    for rule in (rule for plugin in plugins for rule in plugin.rules):
        reasons = [each.reason for each in rules]
        rules.insert(reasons.index(rule.before) if rule.before else len(rules), rule)
    return tuple(rule for rule in rules if not (rule.fallback and rule.reason in decided))


# Never, under any policy.


def _kubelet_owned(pod: Pod, _: Terms) -> Why | Refused:
    if MIRROR_ANNOTATION in pod.annotations or (pod.owner and pod.owner.kind == "Node"):
        return True
    if pod.annotations.get(SOURCE_ANNOTATION, "api") != "api":
        return Finding(RefusalReason.STATIC_POD)
    return None


def _phase(pod: Pod, context: EligibilityContext) -> Why | Refused:
    if pod.deleting:
        return Finding(RefusalReason.TERMINATING, _lingering(pod, context))
    if pod.phase != "Running":
        return Finding(RefusalReason.NOT_RUNNING, pod.phase)
    return not pod.ready


def _lingering(pod: Pod, context: EligibilityContext) -> str:
    """Since when the pod is overdue or how long it may take, and what it uses meanwhile."""
    if pod.leaves_at is None or not pod.lingers(context.now):
        return ""
    late = context.now - pod.leaves_at
    length = (
        f"{abs(late) / _HOUR:.1f} h" if abs(late) < 2 * _DAY else f"{abs(late) / _DAY:.0f} days"
    )
    lateness = f"{length} beyond its grace period" if late > _NONE else f"it may take {length}"
    used = context.book.measured(pod, Resource.CPU)[:1]
    return f"{lateness}, {used[0] / 1000:.1f} cores" if used else lateness


def _namespace_unclear(pod: Pod, context: EligibilityContext) -> Why:
    large = context.cluster.too_large.get(pod.namespace)
    return str(large) if large is not None and large.objects else None


def _opted_out(pod: Pod, context: EligibilityContext) -> Why:
    annotations = context.eviction_annotations(pod)
    return annotations.detail if annotations.forbids else None


def _owner(pod: Pod, context: EligibilityContext) -> Why | Refused:
    owner = context.cluster.top_owner(pod)
    if owner is None:
        return True
    workload = context.cluster.workload_of(pod)
    if workload is None:
        return Finding(RefusalReason.OWNER_NOT_UNDERSTOOD, f"{owner.declared_kind} {owner.name}")
    if workload.annotations_unknown:
        detail = f"{owner.declared_kind} {owner.name}: {workload.annotations_unknown}"
        return Finding(RefusalReason.OWNER_NOT_UNDERSTOOD, detail)
    return None


def _in_one_domain(_: Pod, terms: Terms) -> Why:
    """Pods that must stay in one part of the network; which nodes that has is not known here."""
    if terms.policy.balance_scope:
        return "no plugin keeps pods within the balanceScope of the policy"
    return None


# By policy.


def _critical(pod: Pod, terms: Terms) -> Why:
    critical = terms.protections.system_critical and pod.priority >= SYSTEM_CRITICAL_PRIORITY
    return critical and f"priority {pod.priority}"


def _priority(pod: Pod, terms: Terms) -> Why:
    threshold = terms.priority_threshold
    above = threshold is not None and pod.priority >= threshold
    return above and f"priority {pod.priority}, threshold {threshold}"


def _namespace(pod: Pod, context: EligibilityContext) -> Why | Refused:
    included = context.protections.included_namespaces
    excluded = pod.namespace in context.protections.excluded_namespaces
    if excluded or (included and pod.namespace not in included):
        return pod.namespace
    if pod.namespace in SYSTEM_NAMESPACES and not included:
        return Finding(RefusalReason.SYSTEM_NAMESPACE, pod.namespace)
    labels = context.cluster.namespaces.get(pod.namespace, {})
    if not context.protections.namespace_labels.matches(labels):
        return Finding(RefusalReason.NAMESPACE_NOT_SELECTED, pod.namespace)
    return None


def _labels(pod: Pod, terms: Terms) -> Why:
    return not terms.protections.labels.matches(pod.labels)


def _preference(pod: Pod, context: EligibilityContext) -> Why:
    workload = context.cluster.workload_of(pod)
    on_workload = workload.annotations if workload else {}
    return (
        context.protections.prefer_no_eviction_is_mandatory
        and (PREFER_NO_EVICTION_ANNOTATION in (*pod.annotations, *on_workload))
        and not context.eviction_annotations(pod).overrides
        and PREFER_NO_EVICTION_ANNOTATION
    )


def _min_age(pod: Pod, terms: Terms) -> Why:
    least_seconds, key = terms.protections.min_pod_age_seconds, "minPodAge"
    text = pod.annotations.get(COOLDOWN_TIME, pod.labels.get(COOLDOWN_TIME))
    if text is not None:
        try:
            least_seconds, key = max((least_seconds, key), (duration_seconds(text), COOLDOWN_TIME))
        except ValueError:
            return f"{COOLDOWN_TIME}: {text} is no duration"
    if not least_seconds:
        return None
    if pod.started_at is None:
        return "its start time is not known"
    age_seconds = (terms.now - pod.started_at).total_seconds()
    return age_seconds < least_seconds and f"{age_seconds:.0f} s old, {key} {least_seconds} s"


def _grace_period(pod: Pod, terms: Terms) -> Why:
    longest = terms.protections.max_grace_period_seconds
    too_long = pod.grace_period_seconds > longest
    return too_long and f"{pod.grace_period_seconds} s, maxGracePeriod {longest} s"


# For now.


def _seen_by_windows(pod: Pod, context: EligibilityContext) -> Why:
    window_seconds = context.book.longest_window_seconds
    young = context.book.seen_share(pod, window_seconds) < 1.0
    return young and f"runs for less than the longest window, {window_seconds} s"


def _usage(pod: Pod, context: EligibilityContext) -> Why:
    for resource in context.book.windows:
        if not context.book.measured(pod, resource):
            return f"no {resource.value} usage measured"
    return None


# People see the first reason: what lasts comes before what passes.
RULES: tuple[Rule, ...] = (
    Rule(RefusalReason.MIRROR_POD, _kubelet_owned),
    Rule(
        RefusalReason.DAEMONSET_POD,
        lambda pod, _: pod.owner is not None and pod.owner.kind == "DaemonSet",
    ),
    Rule(
        RefusalReason.DESCHED_ITSELF,
        in_cluster=lambda pod, context: context.cluster.runs_desched(pod),
    ),
    Rule(RefusalReason.NOT_READY, in_cluster=_phase),
    Rule(RefusalReason.OBJECTS_TOO_LARGE, in_cluster=_namespace_unclear),
    Rule(RefusalReason.OPTED_OUT, in_cluster=_opted_out),
    Rule(RefusalReason.PLACEMENT_DOMAIN, _in_one_domain, fallback=True),
    Rule(RefusalReason.BARE_POD, in_cluster=_owner),
    Rule(RefusalReason.SYSTEM_CRITICAL, _critical),
    Rule(RefusalReason.PRIORITY_THRESHOLD, _priority, lifted=True),
    Rule(RefusalReason.NAMESPACE_EXCLUDED, in_cluster=_namespace),
    Rule(RefusalReason.LABELS_NOT_SELECTED, _labels),
    Rule(RefusalReason.DEVICES_SUMMED, devices.unknown, fallback=True),
    Rule(RefusalReason.PVC_POD, in_cluster=volumes.claims, lifted=True),
    Rule(RefusalReason.NODE_NAMED, workload=lambda workload, _: workload.pinned_to or None),
    Rule(RefusalReason.NODE_BOUND_VOLUME, in_cluster=volumes.node_bound_volumes),
    Rule(RefusalReason.SHARED_CLAIM, in_cluster=volumes.shared_claims),
    Rule(RefusalReason.LOCAL_STORAGE, in_cluster=volumes.disk_storage, lifted=True),
    Rule(RefusalReason.HOST_PATH, volumes.host_paths, lifted=True),
    Rule(RefusalReason.RESOURCE_CLAIMS, devices.resource_claims),
    Rule(RefusalReason.NETWORKS_UNKNOWN, devices.unknown_networks),
    Rule(
        RefusalReason.CONSTRAINT_NOT_EVALUATED,
        lambda pod, _: ", ".join(pod.scheduling.unevaluated) or None,
    ),
    Rule(RefusalReason.TOO_FEW_REPLICAS, workload=availability.min_replicas, lifted=True),
    Rule(RefusalReason.TOO_YOUNG, _min_age),
    Rule(RefusalReason.LONG_GRACE_PERIOD, _grace_period),
    Rule(RefusalReason.PREFERS_NO_EVICTION, in_cluster=_preference),
    Rule(
        RefusalReason.JOB_COUNTS_EVICTION,
        workload=lambda workload, _: not workload.survives_disruption and str(workload),
    ),
    Rule(RefusalReason.ROLLOUT_UNDER_WAY, workload=availability.rolling_out),
    Rule(RefusalReason.SCALING_UNDER_WAY, workload=availability.scaling),
    Rule(RefusalReason.AUTOSCALER_AT_MAXIMUM, workload=availability.autoscaler_at_maximum),
    Rule(
        RefusalReason.RESIZE_UNDER_WAY,
        lambda pod, _: (pod.resize_deferred and "it waits for room on its node") or pod.resizing,
    ),
    Rule(
        RefusalReason.REQUESTS_UNKNOWN,
        workload=lambda workload, _: workload.requests_unknown or None,
    ),
    Rule(RefusalReason.PAUSED, workload=recent_moves.paused),
    Rule(RefusalReason.IN_FLIGHT, workload=recent_moves.in_flight),
    Rule(RefusalReason.COOLING_DOWN, workload=recent_moves.cooling_down),
    Rule(RefusalReason.MOVED_RECENTLY, recent_moves.resting),
    Rule(RefusalReason.LIMIT_HOURLY, workload=recent_moves.hourly_share),
    Rule(RefusalReason.WITHOUT_BUDGET, in_cluster=availability.missing_budget),
    Rule(RefusalReason.BUDGET_EXHAUSTED, in_cluster=availability.budgets),
    Rule(RefusalReason.SINGLE_REPLICA, in_cluster=availability.single_replica),
    Rule(RefusalReason.REPLICAS_NOT_READY, in_cluster=availability.availability),
    Rule(RefusalReason.TOO_YOUNG, in_cluster=_seen_by_windows),  # no age that a policy asks for
    Rule(RefusalReason.USAGE_UNKNOWN, in_cluster=_usage),
)

_OF_MOVES_UNDER_WAY = frozenset(
    {
        RefusalReason.IN_FLIGHT,
        RefusalReason.BUDGET_EXHAUSTED,
        RefusalReason.BUDGET_NOT_CURRENT,
        RefusalReason.REPLICAS_NOT_READY,
    }
)
"""Refusals that end when the replica of the workload that is moving has landed."""
