"""Rules about earlier moves of a pod or its workload, and pauses by a person."""

from desched.model.cluster import Pod, Workload
from desched.model.state import PauseScope
from desched.planning.eligibility.context import EligibilityContext, Why
from desched.policy.share import count_of

_OF_PODS = frozenset({PauseScope.WORKLOAD, PauseScope.NAMESPACE})


def paused(workload: Workload, context: EligibilityContext) -> Why:
    """Workloads that a person paused, and workloads of paused namespaces."""
    for pause in context.state.pauses:
        of_pods = pause.scope in _OF_PODS
        if of_pods and pause.lasts(context.now) and pause.covers(str(workload), ""):
            return pause.describe()
    return None


def in_flight(workload: Workload, context: EligibilityContext) -> Why:
    """Workloads with as many evictions in flight as the policy allows."""
    most = count_of(context.policy.limits.in_flight_workload, workload.desired_replicas)
    count = context.in_flight[workload.uid]
    return most is not None and count >= most and f"{workload}, {count} of at most {most}"


def resting(pod: Pod, context: EligibilityContext) -> Why:
    """Replicas that were moved a short time ago."""
    until = context.resting.get(pod.uid)
    if until is None or context.now >= until:
        return None
    return f"it stays until {until:%Y-%m-%d %H:%M} UTC"


def hourly_share(workload: Workload, context: EligibilityContext) -> Why:
    """Workloads of which as many replicas have moved within an hour as the policy allows."""
    replicas = workload.desired_replicas
    most = count_of(context.policy.limits.workload_hourly, replicas)
    moved = context.moved_within_hour[workload.uid]
    exceeded = most is not None and moved >= most
    return exceeded and f"{workload}, {moved} of {replicas} replicas, at most {most}"


def cooling_down(workload: Workload, context: EligibilityContext) -> Why:
    """Workloads in a cool-down after a move that did not go well."""
    cool_down = context.cool_downs.get(workload.uid)
    if cool_down is None or context.now >= cool_down.until:
        return None
    after = f" after {cool_down.result.value}" if cool_down.result else ""
    return f"{workload} until {cool_down.until:%Y-%m-%d %H:%M} UTC{after}"
