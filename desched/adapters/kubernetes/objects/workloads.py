"""The controllers that own pods, with rollouts and scaling under way, in the model's terms."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from desched.adapters.kubernetes.client import access
from desched.adapters.kubernetes.client.api_types import workloads
from desched.adapters.kubernetes.client.api_types.metadata import Metadata
from desched.adapters.kubernetes.client.paged_reads import Kind
from desched.adapters.kubernetes.objects.autoscalers import Scaling, Target
from desched.adapters.kubernetes.objects.metadata import controller_of, relevant_annotations
from desched.adapters.kubernetes.objects.selectors import lenient_label_selector
from desched.model.cluster import Owner, Workload
from desched.model.selectors import LabelSelector

W = TypeVar("W")

_DEFAULT_REPLICAS = 1
_EVICTED = "DisruptionTarget"
_SIGNALLED = frozenset({137, 143})  # exit codes of containers ended by SIGKILL and SIGTERM
_SUPPORTED_OWNERS = frozenset({"Deployment", "CronJob"})


class Controllers(NamedTuple):
    """The lists that workloads are made from."""

    deployments: Sequence[workloads.Deployment] = ()
    replica_sets: Sequence[workloads.ReplicaSet] = ()
    stateful_sets: Sequence[workloads.StatefulSet] = ()
    jobs: Sequence[workloads.Job] = ()


def workloads_by_controller(
    controllers: Controllers, scaling: Mapping[Target, Scaling]
) -> Mapping[str, Workload]:
    """Workloads by the uid of the controller that pods name as their owner.

    A ReplicaSet leads to its Deployment. A ReplicaSet or a Job of any other owner is left out: its
    kind is not supported.
    """
    build = _Builder(scaling)
    deployment_by_uid = {
        item.metadata.uid: build.deployment(item) for item in controllers.deployments
    }
    found = {item.metadata.uid: build.stateful_set(item) for item in controllers.stateful_sets}
    for item in controllers.replica_sets:
        owner = controller_of(item.metadata.owner_references)
        workload = None
        if owner is None:
            workload = build.replica_set(item)
        elif owner.kind == "Deployment":
            workload = deployment_by_uid.get(owner.uid)
        if workload is not None:
            found[item.metadata.uid] = workload
    for job in controllers.jobs:
        owner = controller_of(job.metadata.owner_references)
        if owner is None or owner.kind == "CronJob":
            found[job.metadata.uid] = build.job(job)
    return found


def owners_by_controller(controllers: Controllers) -> Mapping[str, Owner]:
    """Owners of unsupported kinds, by the uid of the ReplicaSet or Job that they own."""
    owned = [item.metadata for item in controllers.replica_sets]
    owned += [item.metadata for item in controllers.jobs]
    return {
        metadata.uid: Owner(owner.kind, owner.name, owner.uid, owner.api_version)
        for metadata in owned
        if (owner := controller_of(metadata.owner_references)) is not None
        and owner.kind not in _SUPPORTED_OWNERS
    }


def selectors_by_controller(controllers: Controllers) -> Mapping[str, LabelSelector]:
    """Selectors of ReplicaSets and StatefulSets with pods, by which the scheduler spreads."""
    stateful_sets = [(item.metadata, item.spec.selector) for item in controllers.stateful_sets]
    replica_sets = [
        (item.metadata, item.spec.selector)
        for item in controllers.replica_sets
        if item.spec.replicas != 0 or item.status.replicas  # not the revisions kept for a rollback
    ]
    found = {
        metadata.uid: lenient_label_selector(selector)
        for metadata, selector in stateful_sets + replica_sets
    }
    return {uid: selector for uid, selector in found.items() if selector is not None}


class _Builder:
    """Builds workloads, with their autoscalers."""

    def __init__(self, scaling: Mapping[Target, Scaling]) -> None:
        self._scaling = scaling

    def deployment(self, item: workloads.Deployment) -> Workload:
        status = item.status
        return replace(
            self._workload("Deployment", item.metadata, item.spec.replicas),
            # A pod that is not available has not been Ready for minReadySeconds yet.
            ready_replicas=min(status.ready_replicas or 0, status.available_replicas or 0),
            rolling_out=_is_deploying(item),
        )

    def replica_set(self, item: workloads.ReplicaSet) -> Workload:
        return replace(
            self._workload("ReplicaSet", item.metadata, item.spec.replicas),
            ready_replicas=item.status.ready_replicas or 0,
            rolling_out=_is_unseen(item.metadata, item.status.observed_generation),
        )

    def stateful_set(self, item: workloads.StatefulSet) -> Workload:
        return replace(
            self._workload("StatefulSet", item.metadata, item.spec.replicas),
            ready_replicas=item.status.ready_replicas or 0,
            rolling_out=_is_updating(item),
        )

    def job(self, item: workloads.Job) -> Workload:
        return replace(
            self._workload("Job", item.metadata, item.spec.parallelism),
            ready_replicas=item.status.ready,
            survives_disruption=survives_disruption(item.spec.pod_failure_policy),
        )

    def _workload(self, kind: str, metadata: Metadata, replicas: int | None) -> Workload:
        scaling = self._scaling.get((kind, metadata.namespace, metadata.name))
        return Workload(
            kind=kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            desired_replicas=_DEFAULT_REPLICAS if replicas is None else replicas,
            annotations=relevant_annotations(metadata.annotations),
            scaling=scaling is not None and scaling.under_way,
            autoscaler=scaling.autoscaler if scaling is not None else None,
        )


def survives_disruption(policy: workloads.PodFailurePolicy | None) -> bool:
    """Whether a Job ignores an eviction: the first rule that matches an evicted pod decides.

    Source: matchPodFailurePolicy in k8s.io/kubernetes/pkg/controller/job, at v1.36.
    """
    for rule in (policy.rules if policy is not None else None) or ():
        if _matches_eviction(rule):
            return rule.action == "Ignore"
    return False


def _matches_eviction(rule: workloads.PodFailureRule) -> bool:
    if rule.on_exit_codes is not None:
        codes = set(rule.on_exit_codes.values or ())
        listed = rule.on_exit_codes.operator == "In"
        return bool(_SIGNALLED & codes if listed else _SIGNALLED - codes)
    return any(
        pattern.type == _EVICTED and pattern.status in {"True", None}
        for pattern in rule.on_pod_conditions or ()
    )


def _is_unseen(metadata: Metadata, observed_generation: int | None) -> bool:
    """Whether the controller has not processed the last edit yet."""
    return (observed_generation or 0) < (metadata.generation or 0)


def _is_deploying(item: workloads.Deployment) -> bool:
    """Whether `kubectl rollout status` would wait for more than available replicas."""
    status = item.status
    replicas = _DEFAULT_REPLICAS if item.spec.replicas is None else item.spec.replicas
    updated = status.updated_replicas or 0
    return (
        _is_unseen(item.metadata, status.observed_generation)
        or updated < replicas
        or (status.replicas or 0) > updated
    )


def _is_updating(item: workloads.StatefulSet) -> bool:
    """Whether `kubectl rollout status` would wait for more than Ready replicas.

    Also whether an eviction would change the revision.
    """
    status = item.status
    replicas = _DEFAULT_REPLICAS if item.spec.replicas is None else item.spec.replicas
    if _is_unseen(item.metadata, status.observed_generation):
        return True
    strategy = item.spec.update_strategy or workloads.UpdateStrategy()
    rolling_update = strategy.rolling_update or workloads.RollingUpdate()
    if strategy.type == "OnDelete" or rolling_update.partition:
        return (status.updated_replicas or 0) < replicas - (rolling_update.partition or 0)
    return status.update_revision != status.current_revision


def _same(item: W) -> W:
    return item


DEPLOYMENTS = Kind(access.LIST_DEPLOYMENTS, workloads.Deployment, _same)
REPLICA_SETS = Kind(access.LIST_REPLICA_SETS, workloads.ReplicaSet, _same)
STATEFUL_SETS = Kind(access.LIST_STATEFUL_SETS, workloads.StatefulSet, _same)
JOBS = Kind(access.LIST_JOBS, workloads.Job, _same)
