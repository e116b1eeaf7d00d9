"""Virtual machines of KubeVirt: an eviction of the pod migrates the machine while it runs.

A webhook of KubeVirt answers the eviction, a second pod of the machine starts on another node, and
the first one ends. KubeVirt protects the pods of machines that it migrates by a budget that allows
no disruption. Without that budget, an eviction could stop the machine.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from desched.model.cluster import Pod
from desched.model.groups import grouped
from desched.model.state import State
from desched.planning.eligibility.controllers import declared_uid

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


def machine_uid(pod: Pod) -> str:
    """The uid of the machine that runs in the pod, with the namespace; empty without an owner."""
    return declared_uid(pod, pod.owner) if pod.owner else ""


def migration_sources(pods: Iterable[Pod]) -> Mapping[str, str]:
    """The node that each migrating machine leaves, by the machine's uid."""
    living = (pod for pod in pods if is_virtual_machine(pod) and not pod.finished)
    machines = grouped((machine_uid(pod), pod) for pod in living)
    return {
        machine: min(pods, key=lambda pod: (not pod.migrating, pod.created_at, pod.ref)).node
        for machine, pods in machines.items()
        if len(pods) > 1 or pods[0].migrating
    }


def migrations_under_way(sources: Mapping[str, str], state: State) -> Counter[Key]:
    """The number of migrations for each limit, including those that desched has just caused.

    Anyone can create pods that look like migrating machines. Therefore only machines on nodes
    count, and those that desched did not move take at most half of a limit from other namespaces.
    """
    caused = {r.workload_uid: r.node for r in state.in_flight if r.taken_over}
    counts = _counted(caused)
    others = {uid: node for uid, node in sources.items() if node and uid not in caused}
    for machines in grouped((uid.partition("/")[0], uid) for uid in others).values():
        own = _counted({uid: others[uid] for uid in machines})
        for key, most in _of_all(*{others[uid] for uid in machines}):
            own[key] = min(own[key], most // 2)
        counts += own
    return counts


def _counted(machines: Mapping[str, str]) -> Counter[Key]:
    limits = (_limits(uid.partition("/")[0], node) for uid, node in machines.items())
    return Counter(key for limit in limits for key, _ in limit)


def migration_limits(pod: Pod) -> tuple[tuple[Key, int], ...]:
    """The limits that apply to a migration of the pod, each with its maximum at a time."""
    return _limits(pod.namespace, pod.node) if is_virtual_machine(pod) else ()


def _limits(namespace: str, node: str) -> tuple[tuple[Key, int], ...]:
    of_namespace = f"migrations of {namespace}"
    return *_of_all(node), ((of_namespace, ""), AT_A_TIME), ((of_namespace, node), FROM_A_NODE)


def _of_all(*nodes: str) -> tuple[tuple[Key, int], ...]:
    from_nodes = ((("migrations from", node), FROM_A_NODE) for node in nodes)
    return (("migrations", ""), AT_A_TIME), *from_nodes
