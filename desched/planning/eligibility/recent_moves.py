"""What is left alone for a while: because of earlier moves, or because a person said so.

The rules are part of the list in `eligibility`.
"""

from desched.model.cluster import Pod, Workload
from desched.model.plan import Finding, RefusalReason
from desched.model.state import Pause, PauseScope
from desched.planning.eligibility.context import EligibilityContext, Refused
from desched.policy.policy import count_of


def desched_itself(pod: Pod, context: EligibilityContext) -> Refused:
    """Pods of the workload that desched itself runs in: its own, and its peers that stand by."""
    own = context.cluster.own_pod
    workload = context.cluster.workload_of(pod)
    peer = workload is not None and workload.uid == context.cluster.own_workload_uid
    if peer or (own is not None and (pod.namespace, pod.name) == (own.namespace, own.name)):
        return Finding(RefusalReason.DESCHED_ITSELF)
    return None


def paused(pod: Pod, context: EligibilityContext) -> Refused:
    """Workloads that a person has paused."""
    workload = context.cluster.workload_of(pod)
    if workload is None:
        return None
    for pause in context.state.pauses:
        if (
            pause.scope is PauseScope.WORKLOAD
            and pause.lasts(context.now)
            and names(pause, workload)
        ):
            return Finding(RefusalReason.PAUSED, pause.describe())
    return None


def in_flight(pod: Pod, context: EligibilityContext) -> Refused:
    """Workloads with as many evictions under way as the policy allows."""
    workload = context.cluster.workload_of(pod)
    if workload is None:
        return None
    most = count_of(context.policy.limits.in_flight_workload, workload.desired_replicas)
    if most is None:
        return None
    count = context.in_flight[workload.uid]
    if count >= most:
        return Finding(RefusalReason.IN_FLIGHT, f"{workload}, {count} of at most {most}")
    return None


def cooling_down(pod: Pod, context: EligibilityContext) -> Refused:
    """Workloads that were moved not long ago, or whose moves did not go well."""
    workload = context.cluster.workload_of(pod)
    cool_down = context.cool_downs.get(workload.uid) if workload else None
    if cool_down is None or context.now >= cool_down.until:
        return None
    after = f" after {cool_down.result.value}" if cool_down.result else ""
    return Finding(
        RefusalReason.COOLING_DOWN,
        f"{workload} until {cool_down.until:%Y-%m-%d %H:%M} UTC{after}",
    )


def names(pause: Pause, workload: Workload) -> bool:
    """Whether the pause's subject, with or without a kind, is this workload."""
    return pause.subject in {str(workload), f"{workload.namespace}/{workload.name}"}
