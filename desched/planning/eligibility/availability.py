"""Rules about a workload's availability: its budget, replicas and autoscaler."""

from datetime import timedelta

from desched.model.cluster import Pod, Workload
from desched.model.plan import Finding, RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.controllers import VOLCANO_JOB
from desched.planning.eligibility.terms import Refused, Terms, Why

SETTLING = timedelta(minutes=5)
"""How long load takes to settle after an autoscaler changed the number of replicas."""

_ENDING_KINDS = frozenset({"Job"})
"""Kinds whose pods run to completion; they need no Ready replicas."""


def replicas_to_spare(pod: Pod, context: EligibilityContext) -> int | None:
    """How many Ready replicas the pod's workload can spare at a time.

    It keeps half of its desired replicas, at least one, and at least the policy's minReplicas. None
    if a PodDisruptionBudget or the kind of the workload decides instead.
    """
    workload = context.cluster.workload_of(pod)
    if workload is None or not _needs_replicas(workload) or context.cluster.budgets_of(pod):
        return None
    if workload.desired_replicas <= 1:
        return 1 if _may_be_away(pod, context) else 0
    requested = context.eviction_annotations(pod).requests
    least = 1 if requested else max(1, context.protections.min_replicas)
    kept = max(least, workload.desired_replicas // 2)
    return max(0, _ready(workload, context) - kept)


def min_replicas(workload: Workload, terms: Terms) -> Why:
    """Workloads with fewer replicas than the policy requires."""
    wanted, least = workload.desired_replicas, terms.protections.min_replicas
    return wanted < least and f"{workload} wants {wanted}, the policy requires {least}"


def rolling_out(workload: Workload, _: Terms) -> Why:
    """A rollout, which the controller ends, or only a person."""
    if not workload.rolling_out:
        return None
    by_hand = workload.rolled_by_hand
    return f"{workload}: {by_hand}, so only a person ends it" if by_hand else str(workload)


def scaling(workload: Workload, terms: Terms) -> Why:
    """Workloads whose autoscaler changes the number of replicas, or did so recently."""
    if workload.scaling:
        return str(workload)
    scaler = workload.autoscaler
    if scaler is None:
        return None
    # An autoscaler that has not measured yet reports 0 desired replicas.
    if scaler.desired_replicas not in {0, scaler.current_replicas}:
        change = f"from {scaler.current_replicas} to {scaler.desired_replicas} replicas"
        return f"{workload}, {change}"
    if scaler.last_scaled_at is not None and terms.now - scaler.last_scaled_at < SETTLING:
        ago_seconds = (terms.now - scaler.last_scaled_at).total_seconds()
        return f"{workload}, scaled {ago_seconds:.0f} s ago"
    return None


def autoscaler_at_maximum(workload: Workload, _: Terms) -> Why:
    """Workloads that need more replicas than their autoscaler allows."""
    scaler = workload.autoscaler
    if scaler and scaler.above_target and scaler.current_replicas >= scaler.max_replicas:
        return f"{workload} has its maximum of {scaler.max_replicas} and is above its target"
    return None


def missing_budget(pod: Pod, context: EligibilityContext) -> Why:
    """Pods without a PodDisruptionBudget, if the policy or the kind of workload requires one."""
    if context.cluster.budgets_of(pod):
        return None
    workload = context.cluster.workload_of(pod)
    # What a Volcano Job needs is known by the job.
    if workload is not None and not workload.sized and workload.kind != VOLCANO_JOB:
        return f"without one, how many replicas {workload} needs is not known"
    return context.protections.pods_without_budget


def budgets(pod: Pod, context: EligibilityContext) -> Why | Refused:
    """Pods with several budgets, or one that is not current or allows no disruption."""
    covering = context.cluster.budgets_of(pod)
    if not covering or context.is_taken_over(pod):  # it leaves its node without a disruption
        return None
    if len(covering) > 1:
        return Finding(RefusalReason.SEVERAL_BUDGETS, ", ".join(sorted(str(b) for b in covering)))
    budget = covering[0]
    if not budget.up_to_date:
        return Finding(RefusalReason.BUDGET_NOT_CURRENT, str(budget))
    if budget.disruptions_allowed <= 0:
        return f"{budget} allows 0 disruptions"
    return None


def single_replica(pod: Pod, context: EligibilityContext) -> Why:
    """The only replica of a workload, even if a budget allows a disruption."""
    workload = context.cluster.workload_of(pod)
    if workload is None or not _needs_replicas(workload) or workload.desired_replicas > 1:
        return None
    return None if _may_be_away(pod, context) else str(workload)


def availability(pod: Pod, context: EligibilityContext) -> Why | Refused:
    """Workloads without a budget that are not fully Ready, or would have too few Ready replicas."""
    spare = replicas_to_spare(pod, context)
    workload = context.cluster.workload_of(pod)
    if workload is None or spare is None:
        return None
    ready, desired = _ready(workload, context), workload.desired_replicas
    if ready < desired:
        return f"{workload} has {ready} of {desired} Ready"
    if not spare and desired > 1:  # else the pod is refused as the single replica
        least = context.protections.min_replicas
        detail = f"{workload} would have {ready - 1} Ready, the policy requires {least}"
        return Finding(RefusalReason.TOO_FEW_REPLICAS, detail)
    return None


def _needs_replicas(workload: Workload) -> bool:
    return workload.sized and workload.kind not in _ENDING_KINDS


def _may_be_away(pod: Pod, context: EligibilityContext) -> bool:
    return not context.protections.single_replicas or context.eviction_annotations(pod).requests


def _ready(workload: Workload, context: EligibilityContext) -> int:
    if workload.ready_replicas is not None:
        return workload.ready_replicas
    return context.ready_pods.get(workload.uid, 0)
