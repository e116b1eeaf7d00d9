"""Rules about earlier moves, pauses by a person, and desched's own pods."""

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.model.state import PauseScope
from desched.planning.eligibility.context import EligibilityContext, Refused
from desched.policy.share import count_of


def desched_itself(pod: Pod, context: EligibilityContext) -> Refused:
    """The pods of desched's own workload: its own pod and those of standby replicas."""
    own = context.cluster.own_pod
    workload = context.cluster.workload_of(pod)
    peer = workload is not None and workload.uid == context.cluster.own_workload_uid
    if peer or (own is not None and (pod.namespace, pod.name) == (own.namespace, own.name)):
        return Finding(RefusalReason.DESCHED_ITSELF)
    return None


def paused(pod: Pod, context: EligibilityContext) -> Refused:
    """Workloads that a person paused."""
    workload = context.cluster.workload_of(pod)
    if workload is None:
        return None
    for pause in context.state.pauses:
        if (
            pause.scope is PauseScope.WORKLOAD
            and pause.lasts(context.now)
            and pause.covers(str(workload), "")
        ):
            return Finding(RefusalReason.PAUSED, pause.describe())
    return None


def in_flight(pod: Pod, context: EligibilityContext) -> Refused:
    """Workloads with as many evictions in flight as the policy allows."""
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


def resting(pod: Pod, context: EligibilityContext) -> Refused:
    """Replicas that were moved a short time ago."""
    until = context.resting.get(pod.uid)
    if until is None or context.now >= until:
        return None
    return Finding(RefusalReason.MOVED_RECENTLY, f"it stays until {until:%Y-%m-%d %H:%M} UTC")


def hourly_share(pod: Pod, context: EligibilityContext) -> Refused:
    """Workloads of which as many replicas have moved within an hour as the policy allows."""
    workload = context.cluster.workload_of(pod)
    if workload is None:
        return None
    most = count_of(context.policy.limits.workload_hourly, workload.desired_replicas)
    moved = context.moved_within_hour[workload.uid]
    if most is None or moved < most:
        return None
    detail = f"{workload}, {moved} of {workload.desired_replicas} replicas, at most {most}"
    return Finding(RefusalReason.LIMIT_HOURLY, detail)


def cooling_down(pod: Pod, context: EligibilityContext) -> Refused:
    """Workloads in a cool-down after a move that did not go well."""
    workload = context.cluster.workload_of(pod)
    cool_down = context.cool_downs.get(workload.uid) if workload else None
    if cool_down is None or context.now >= cool_down.until:
        return None
    after = f" after {cool_down.result.value}" if cool_down.result else ""
    return Finding(
        RefusalReason.COOLING_DOWN,
        f"{workload} until {cool_down.until:%Y-%m-%d %H:%M} UTC{after}",
    )
