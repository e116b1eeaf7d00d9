"""Rules about earlier moves of a pod or its workload, and pauses by a person."""

from desched.model.cluster import Pod, Workload
from desched.model.state import PauseScope
from desched.planning.eligibility.terms import Terms, Why
from desched.policy.share import count_of

_OF_PODS = frozenset({PauseScope.WORKLOAD, PauseScope.NAMESPACE})


def paused(workload: Workload, terms: Terms) -> Why:
    """Workloads that a person paused, and workloads of paused namespaces."""
    for pause in terms.state.pauses:
        of_pods = pause.scope in _OF_PODS
        if of_pods and pause.lasts(terms.now) and pause.covers(str(workload), ""):
            return pause.describe()
    return None


def in_flight(workload: Workload, terms: Terms) -> Why:
    """Workloads that have reached the policy's limit of evictions in flight."""
    most = count_of(terms.policy.limits.in_flight_workload, workload.desired_replicas)
    count = terms.in_flight[workload.uid]
    return most is not None and count >= most and f"{workload}, {count} of at most {most}"


def resting(pod: Pod, terms: Terms) -> Why:
    """Replicas that were moved a short time ago."""
    until = terms.resting.get(pod.uid)
    if until is None or terms.now >= until:
        return None
    return f"it stays until {until:%Y-%m-%d %H:%M} UTC"


def hourly_share(workload: Workload, terms: Terms) -> Why:
    """Workloads that have reached the policy's limit of moved replicas within an hour."""
    replicas = workload.desired_replicas
    most = count_of(terms.policy.limits.workload_hourly, replicas)
    moved = terms.moved_within_hour[workload.uid]
    exceeded = most is not None and moved >= most
    return exceeded and f"{workload}, {moved} of {replicas} replicas, at most {most}"


def cooling_down(workload: Workload, terms: Terms) -> Why:
    """Workloads in a cool-down after a move that did not go well."""
    cool_down = terms.cool_downs.get(workload.uid)
    if cool_down is None or terms.now >= cool_down.until:
        return None
    after = f" after {cool_down.result.value}" if cool_down.result else ""
    return f"{workload} until {cool_down.until:%Y-%m-%d %H:%M} UTC{after}"
