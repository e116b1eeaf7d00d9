"""One pod as it is now, with what decides on its eviction: a handful of narrow requests."""

from typing import TypeVar

from desched.adapters.kubernetes.client import access, api_types
from desched.adapters.kubernetes.client.paged_reads import Reading
from desched.adapters.kubernetes.objects import budgets, nodes
from desched.adapters.kubernetes.objects.autoscalers import scaling_by_target, scaling_of_target
from desched.adapters.kubernetes.objects.pods import PodBuilder
from desched.adapters.kubernetes.objects.workloads import (
    Controllers,
    controller_of,
    owners_by_controller,
    workloads_by_controller,
)
from desched.model.cluster import Owner, PodRef
from desched.ports import FreshLook

T = TypeVar("T")


def look_around(read: Reading, ref: PodRef) -> FreshLook | None:
    """The pod of this namespace and name with its surroundings, None if there is none.

    Nothing is asked about other pods, and nothing that would need further rights than observing
    does. Budgets come last: what protects the pod is the newest.

    Raises:
        ObservationError: something could not be read in time.
    """
    pod = read.one(access.GET_POD, api_types.Pod, PodBuilder().pod, ref.name, ref.namespace)
    if pod is None:
        return None
    node = read.named(access.LIST_NODES, api_types.Node, nodes.node, pod.node) if pod.node else None
    workload = controller_owner = None
    if pod.owner is not None:
        controllers = _controllers(read, pod.owner, pod.namespace)
        scalers = read.all(
            access.LIST_AUTOSCALERS,
            api_types.HorizontalPodAutoscaler,
            scaling_of_target,
            pod.namespace,
            may_be_absent=True,
        )
        # By uid: a later controller of the same name is not the pod's.
        workloads = workloads_by_controller(controllers, scaling_by_target(scalers))
        workload = workloads.get(pod.owner.uid)
        controller_owner = owners_by_controller(controllers).get(pod.owner.uid)
    found = read.all(
        access.LIST_BUDGETS,
        api_types.PodDisruptionBudget,
        budgets.budget,
        pod.namespace,
    )
    return FreshLook(pod, node, workload, controller_owner, tuple(found))


def _controllers(read: Reading, owner: Owner, namespace: str) -> Controllers:
    """The pod's controller, and a ReplicaSet's Deployment; empty where it is of no known kind."""
    found = Controllers([], [], [], [])
    match owner.kind:
        case "ReplicaSet":
            replica_set = read.named(
                access.LIST_REPLICA_SETS, api_types.ReplicaSet, _same, owner.name, namespace
            )
            if replica_set is None:
                return found
            above = controller_of(replica_set.metadata)
            deployment = None
            if above is not None and above.kind == "Deployment":
                deployment = read.named(
                    access.LIST_DEPLOYMENTS, api_types.Deployment, _same, above.name, namespace
                )
            return found._replace(replica_sets=[replica_set], deployments=_listed(deployment))
        case "StatefulSet":
            stateful_set = read.named(
                access.LIST_STATEFUL_SETS, api_types.StatefulSet, _same, owner.name, namespace
            )
            return found._replace(stateful_sets=_listed(stateful_set))
        case "Job":
            job = read.named(access.LIST_JOBS, api_types.Job, _same, owner.name, namespace)
            return found._replace(jobs=_listed(job))
        case _:
            return found


def _listed(item: T | None) -> list[T]:
    return [] if item is None else [item]


def _same(item: T) -> T:
    return item
