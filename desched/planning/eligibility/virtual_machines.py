"""Virtual machines of KubeVirt: an eviction of the pod migrates the machine while it runs.

A webhook of KubeVirt answers the eviction, a second pod of the machine starts on another node, and
the first one ends. KubeVirt protects the pods of machines that it migrates by a budget that allows
no disruption. Without that budget, an eviction could stop the machine.
"""

from collections import Counter

from desched.model.cluster import ClusterState, Pod
from desched.model.groups import grouped
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.controllers import declared_uid
from desched.planning.eligibility.terms import Why

KIND = "kubevirt.io/VirtualMachineInstance"
"""The policy has to declare it, as every kind that desched does not read."""

TAKES_OVER = "descheduler.alpha.kubernetes.io/request-evict-only"
"""KubeVirt annotates its pods with it if its webhook answers their evictions."""

FROM_A_NODE = 2
AT_A_TIME = 5
"""KubeVirt's defaults for migrations side by side; more would wait in its queue."""

Key = tuple[str, str]


def is_virtual_machine(pod: Pod) -> bool:
    """Whether a virtual machine of KubeVirt runs in the pod."""
    return pod.owner is not None and pod.owner.declared_kind == KIND


def is_taken_over(pod: Pod) -> bool:
    """Whether KubeVirt answers the eviction of the pod and moves its virtual machine."""
    return is_virtual_machine(pod) and TAKES_OVER in pod.annotations


def not_migratable(pod: Pod, context: EligibilityContext) -> Why:
    """Virtual machines that an eviction could stop instead of moving them."""
    if not is_virtual_machine(pod):
        return None
    if TAKES_OVER not in pod.annotations:
        return f"no annotation {TAKES_OVER}"
    budgets = context.cluster.budgets_of(pod)
    if not budgets:
        return "no PodDisruptionBudget of KubeVirt protects it"
    open_ones = [str(budget) for budget in budgets if budget.disruptions_allowed > 0]
    return bool(open_ones) and f"{', '.join(open_ones)} would allow to stop it"


def migrating(pod: Pod, context: EligibilityContext) -> Why:
    """Virtual machines that are on their way from one pod to another."""
    if not is_virtual_machine(pod):
        return None
    if pod.migrating:
        return "KubeVirt migrates it"
    return _machine(pod) in _sources(context.cluster) and "it has a pod on another node, too"


def migrations_under_way(cluster: ClusterState, state: State) -> Counter[Key]:
    """The number of migrations for each limit, including those that desched has just caused."""
    sources = _sources(cluster)
    sources |= {r.workload_uid: r.node for r in state.in_flight if r.taken_over}
    return Counter(key for node in sources.values() for key, _ in _limits(node))


def migration_limits(pod: Pod) -> tuple[tuple[Key, int], ...]:
    """The limits that apply to a migration of the pod, each with its maximum at a time."""
    return _limits(pod.node) if is_virtual_machine(pod) else ()


def _limits(node: str) -> tuple[tuple[Key, int], ...]:
    return ((("migrations", ""), AT_A_TIME), (("migrations from", node), FROM_A_NODE))


def _machine(pod: Pod) -> str:
    return declared_uid(pod, pod.owner) if pod.owner else ""


def _sources(cluster: ClusterState) -> dict[str, str]:
    """The node that each migrating machine leaves."""
    living = (pod for pod in cluster.pods if is_virtual_machine(pod) and not pod.finished)
    machines = grouped((_machine(pod), pod) for pod in living)
    return {
        machine: min(pods, key=lambda pod: (not pod.migrating, pod.created_at, pod.ref)).node
        for machine, pods in machines.items()
        if len(pods) > 1 or pods[0].migrating
    }
