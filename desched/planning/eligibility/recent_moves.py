"""What is left alone for a while: because of earlier moves, or because a person said so.

The rules are part of the list in `eligibility`.
"""

from desched.model.cluster import Pod, Workload
from desched.model.memory import Pause, PauseScope
from desched.model.plan import RefusalReason
from desched.planning.eligibility.context import Finding, Surroundings
from desched.policy.policy import count_of


def desched_itself(pod: Pod, around: Surroundings) -> Finding:
    """Pods of the workload that desched itself runs in: its own, and its peers that stand by."""
    own = around.cluster.own_pod
    workload = around.cluster.workload_of(pod)
    peer = workload is not None and workload.uid == around.cluster.own_workload_uid
    if peer or (own is not None and (pod.namespace, pod.name) == (own.namespace, own.name)):
        return RefusalReason.DESCHED_ITSELF, ""
    return None


def paused(pod: Pod, around: Surroundings) -> Finding:
    """Workloads that a person has paused."""
    workload = around.cluster.workload_of(pod)
    if workload is None:
        return None
    for pause in around.memory.pauses:
        if (
            pause.scope is PauseScope.WORKLOAD
            and pause.lasts(around.now)
            and names(pause, workload)
        ):
            return RefusalReason.PAUSED, pause.describe()
    return None


def in_flight(pod: Pod, around: Surroundings) -> Finding:
    """Workloads with as many evictions under way as the policy allows."""
    workload = around.cluster.workload_of(pod)
    if workload is None:
        return None
    most = count_of(around.policy.limits.in_flight_workload, workload.desired_replicas)
    if most is None:
        return None
    count = around.in_flight[workload.uid]
    if count >= most:
        return RefusalReason.IN_FLIGHT, f"{workload}, {count} of at most {most}"
    return None


def cooling_down(pod: Pod, around: Surroundings) -> Finding:
    """Workloads that were moved not long ago, or whose moves did not go well."""
    workload = around.cluster.workload_of(pod)
    rest = around.cool_downs.get(workload.uid) if workload else None
    if rest is None or around.now >= rest.until:
        return None
    after = f" after {rest.result.value}" if rest.result else ""
    return RefusalReason.COOLING_DOWN, f"{workload} until {rest.until:%Y-%m-%d %H:%M} UTC{after}"


def names(pause: Pause, workload: Workload) -> bool:
    """Whether the pause's subject, with or without a kind, is this workload."""
    return pause.subject in {str(workload), f"{workload.namespace}/{workload.name}"}
