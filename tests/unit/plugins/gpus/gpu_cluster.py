"""Small clusters with GPUs, and pods that hold them or wait for them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from desched.model.cluster import ClusterState, Node, Pod, Workload
from desched.model.plan import PlannedEviction
from desched.model.resources import Amounts
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.plugins.gpus.drains.drain import Drain, Drains, drain_of
from desched.plugins.gpus.drains.rules import GpuDrainRules
from desched.plugins.gpus.facts import ClusterGpus
from desched.plugins.gpus.plugin import Gpus
from desched.plugins.gpus.survey import survey
from desched.policy.policy import Policy
from tests.builders import (
    STEERED,
    amounts,
    context_of,
    house,
    load,
    node,
    pod,
    policy,
    snapshot,
    workload,
)

GPU = "nvidia.com/gpu"
RULES = GpuDrainRules(namespaces=("train",), pending_seconds=60)


def gpu_node(name: str, gpus: int = 8, cpu: float = 64, **fields: Any) -> Node:
    """A node with GPUs, 64 cores and 256 GiB."""
    size = msgspec.structs.replace(amounts(cpu, 256, **{GPU: gpus}), pods=110)
    return node(name, **({"capacity": size, "allocatable": size} | fields))


def gpu_pod(name: str, on: str = "", gpus: int = 1, cpu: float = 1, **fields: Any) -> Pod:
    """A pod of a workload with GPUs and one GiB."""
    wanted = {GPU: gpus} if gpus else {}
    return pod(name, on=on, request=amounts(cpu, 1, **wanted), **fields)


def gpus(count: int, cpu: float = 4, memory_gib: float = 8) -> Amounts:
    """The requests of a pod with GPUs."""
    return amounts(cpu, memory_gib, **{GPU: count})


def runs(name: str, on: str, count: int = 1, **fields: Any) -> Pod:
    """A running pod of a workload of its own name with GPUs."""
    return pod(name, on, of=fields.pop("of", name), **({"request": gpus(count)} | fields))


def waits(name: str, count: int = 8, **fields: Any) -> Pod:
    """A pod in `train` that waits for GPUs for a minute."""
    defaults = {
        "namespace": "train",
        "request": gpus(count),
        "unschedulable": True,
        "phase": "Pending",
        "ready": False,
        "started_at": None,
    }
    return pod(name, "", of=None, **(defaults | fields))


def surveyed(nodes: Iterable[Node], pods: Iterable[Pod] = (), **cluster: Any) -> ClusterGpus:
    """What is measured of the GPUs of the cluster."""
    found = survey(context_of(ClusterState(tuple(nodes), tuple(pods), **cluster)))
    assert found is not None
    return found


def rules_of(policy: Policy) -> GpuDrainRules | None:
    """The rules by which the policy drains nodes."""
    return next(plugin.drains for plugin in policy.plugins if isinstance(plugin, Gpus))


def drains(rules: GpuDrainRules | None = RULES, **fields: Any) -> Policy:
    """A policy with drains and soft taints."""
    return policy(plugins=house(Gpus(rules)), **(dict(STEERED) | fields))


def draining(*drains: Drain, **fields: Any) -> State:
    """A state with these drains."""
    return State(extras=Drains(drains).extras, **fields)


def drain_for(eviction: PlannedEviction) -> Drain:
    """The drain that the eviction is for."""
    drain = drain_of(eviction)
    assert drain is not None
    return drain


def seen(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    workloads: Iterable[Workload] | None = None,
    **cluster: Any,
) -> Snapshot:
    """A snapshot in which all nodes have a load of 10 %, and each running pod uses 0.1 cores."""
    nodes, pods = tuple(nodes), tuple(pods)
    of_load = load(
        {each.name: (0.1, 0.1) for each in nodes},
        {each.name: (0.1, 0.1) for each in pods if each.node},
    )
    owners = {p.owner.name.removesuffix("-1") for p in pods if p.owner}
    owned = [workload(name, replicas=2) for name in sorted(owners)]
    return snapshot(nodes, pods, of_load, workloads if workloads is not None else owned, **cluster)
