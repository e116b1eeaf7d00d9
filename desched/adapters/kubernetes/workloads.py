"""The controllers that own pods, and whether a rollout or an autoscaler is at work on them."""

from collections.abc import Iterable, Mapping

from desched.adapters.kubernetes import wire
from desched.adapters.kubernetes.annotations import relevant
from desched.model.cluster import Workload

_DEFAULT_REPLICAS = 1

Targets = frozenset[tuple[str, str, str]]
"""Kind, namespace and name of what autoscalers are scaling at the moment."""


def scaling_targets(autoscalers: Iterable[wire.HorizontalPodAutoscaler]) -> Targets:
    """The workloads whose autoscaler wants another number of replicas than there are.

    Desired zero replicas are an autoscaler that has not measured yet, unless it may go to zero.
    """
    return frozenset(
        (item.spec.scale_target_ref.kind, item.metadata.namespace, item.spec.scale_target_ref.name)
        for item in autoscalers
        if (item.status.desired_replicas or 0) != (item.status.current_replicas or 0)
        and (item.status.desired_replicas or item.spec.min_replicas == 0)
    )


def workloads_by_controller(
    deployments: Iterable[wire.Deployment],
    replica_sets: Iterable[wire.ReplicaSet],
    stateful_sets: Iterable[wire.StatefulSet],
    scaling: Targets,
) -> Mapping[str, Workload]:
    """Workloads by the uid of the controller that pods name as their owner.

    A ReplicaSet leads to its Deployment; one of any other owner is left out, as not understood.
    """
    deployment_by_uid = {
        item.metadata.uid: _workload(
            "Deployment", item.metadata, item.spec.replicas, _is_deploying(item), scaling
        )
        for item in deployments
    }
    found = {
        item.metadata.uid: _workload(
            "StatefulSet", item.metadata, item.spec.replicas, _is_updating(item), scaling
        )
        for item in stateful_sets
    }
    for item in replica_sets:
        owner = next((o for o in item.metadata.owner_references or () if o.controller), None)
        workload = None
        if owner is None:
            rolling = _is_unseen(item.metadata, item.status.observed_generation)
            workload = _workload("ReplicaSet", item.metadata, item.spec.replicas, rolling, scaling)
        elif owner.kind == "Deployment":
            workload = deployment_by_uid.get(owner.uid)
        if workload is not None:
            found[item.metadata.uid] = workload
    return found


def _workload(
    kind: str,
    metadata: wire.Metadata,
    replicas: int | None,
    rolling_out: bool,  # noqa: FBT001  (always given by a call that names it)
    scaling: Targets,
) -> Workload:
    return Workload(
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        desired_replicas=_DEFAULT_REPLICAS if replicas is None else replicas,
        annotations=relevant(metadata.annotations),
        rolling_out=rolling_out,
        scaling=(kind, metadata.namespace, metadata.name) in scaling,
    )


def _is_unseen(metadata: wire.Metadata, observed_generation: int | None) -> bool:
    """Whether the controller has yet to look at the last edit."""
    return (observed_generation or 0) < (metadata.generation or 0)


def _is_deploying(item: wire.Deployment) -> bool:
    """Whether `kubectl rollout status` would wait."""
    status = item.status
    replicas = _DEFAULT_REPLICAS if item.spec.replicas is None else item.spec.replicas
    updated = status.updated_replicas or 0
    return (
        _is_unseen(item.metadata, status.observed_generation)
        or updated < replicas
        or (status.replicas or 0) > updated
        or (status.available_replicas or 0) < updated
    )


def _is_updating(item: wire.StatefulSet) -> bool:
    """Whether `kubectl rollout status` would wait, or an eviction would change the revision."""
    status = item.status
    replicas = _DEFAULT_REPLICAS if item.spec.replicas is None else item.spec.replicas
    if _is_unseen(item.metadata, status.observed_generation):
        return True
    if (status.ready_replicas or 0) < replicas:
        return True
    strategy = item.spec.update_strategy or wire.UpdateStrategy()
    rolling_update = strategy.rolling_update or wire.RollingUpdate()
    if strategy.type == "OnDelete" or rolling_update.partition:
        return (status.updated_replicas or 0) < replicas - (rolling_update.partition or 0)
    return status.update_revision != status.current_revision
