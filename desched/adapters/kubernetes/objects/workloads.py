"""The controllers that own pods, with rollouts and scaling under way, in the model's terms."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple, TypeVar

from msgspec import Raw

from desched.adapters.kubernetes.client import access
from desched.adapters.kubernetes.client.api_types import workloads
from desched.adapters.kubernetes.client.api_types.pods import PodStatus
from desched.adapters.kubernetes.objects.autoscalers import Scaling, Target
from desched.adapters.kubernetes.objects.bounded_constraints import LARGEST_CONSTRAINTS_BYTES
from desched.adapters.kubernetes.objects.metadata import annotations_of, controller_of
from desched.adapters.kubernetes.objects.pod_requests import pod_requests, requests_of_template
from desched.adapters.kubernetes.objects.vertical_autoscalers import VerticalAutoscaler
from desched.api_objects.access import Access
from desched.api_objects.decoding import RawDecoder
from desched.api_objects.kinds import Kind
from desched.api_objects.memory_bounds import LARGEST_JSON_BYTES
from desched.api_objects.metadata import Metadata
from desched.api_objects.selectors import decoded_selector, lenient_label_selector
from desched.model.cluster import ControllerKey, Owner, Workload
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector
from desched.planning.eligibility.controllers import LONGEST_NAME

C = TypeVar("C", workloads.Deployment, workloads.ReplicaSet, workloads.StatefulSet, workloads.Job)

_TEMPLATE = RawDecoder(workloads.PodTemplate)
_KEPT_OF_TEMPLATE = 8
"""Of so many bytes of a template, ordinarily less than one is kept."""

_DEFAULT_REPLICAS = 1
_EVICTED = "DisruptionTarget"
_EXITS = frozenset({1, 137, 143})
"""How a container ends that is evicted: with an error of its own, or by SIGKILL or SIGTERM."""
_SUPPORTED_OWNERS = frozenset({"Deployment", "CronJob"})

Sizing = Mapping[Target, Sequence[VerticalAutoscaler]]
"""What sizes new pods, by workload."""


class Controllers(NamedTuple):
    """The lists that workloads are made from."""

    deployments: Sequence[workloads.Deployment] = ()
    replica_sets: Sequence[workloads.ReplicaSet] = ()
    stateful_sets: Sequence[workloads.StatefulSet] = ()
    jobs: Sequence[workloads.Job] = ()


def workloads_by_controller(
    controllers: Controllers,
    scaling: Mapping[Target, Scaling],
    sizing: Sizing,
) -> Mapping[ControllerKey, Workload]:
    """Workloads by the controller that pods name as their owner.

    A ReplicaSet leads to its Deployment. A ReplicaSet or a Job of any other owner is left out: its
    kind is not supported.
    """

    def workload(item: workloads.Replicated | workloads.Job) -> Workload:
        return _workload(item, scaling, sizing)

    deployments = {_key(item.metadata): workload(item) for item in controllers.deployments}
    found = {_key(item.metadata): workload(item) for item in controllers.stateful_sets}
    for item in controllers.replica_sets:
        owner = item.owner
        if owner is None:
            found[_key(item.metadata)] = workload(item)
        elif (key := (item.metadata.namespace, owner.uid)) in deployments:
            found[_key(item.metadata)] = deployments[key]
    for job in controllers.jobs:
        if job.owner is None or job.owner.kind == "CronJob":
            found[_key(job.metadata)] = workload(job)
    return found


def owners_by_controller(controllers: Controllers) -> Mapping[ControllerKey, Owner]:
    """Owners of unsupported kinds, by the ReplicaSet or Job that they own."""
    return {
        _key(item.metadata): item.owner
        for item in (*controllers.replica_sets, *controllers.jobs)
        if item.owner is not None and item.owner.kind not in _SUPPORTED_OWNERS
    }


def selectors_by_controller(controllers: Controllers) -> Mapping[ControllerKey, LabelSelector]:
    """Selectors of ReplicaSets and StatefulSets with pods, by which the scheduler spreads."""
    replica_sets = (
        item
        for item in controllers.replica_sets
        if item.spec.replicas != 0 or item.status.replicas  # not the revisions kept for a rollback
    )
    return {
        _key(item.metadata): item.selector
        for item in (*controllers.stateful_sets, *replica_sets)
        if item.selector is not None
    }


def _key(metadata: Metadata) -> ControllerKey:
    return metadata.namespace, metadata.uid


def _workload(
    item: workloads.Replicated | workloads.Job, scaling: Mapping[Target, Scaling], sizing: Sizing
) -> Workload:
    kind, metadata = type(item).__name__, item.metadata
    scaled = scaling.get((kind, metadata.namespace, metadata.name))
    replicas = _DEFAULT_REPLICAS if item.spec.replicas is None else item.spec.replicas
    ready, rolling_out, survives = item.status.ready_replicas, False, True
    match item:
        case workloads.Job():
            survives = survives_disruption(item.spec.pod_failure_policy)
        case workloads.Deployment():
            # A pod that is not available has not been Ready for minReadySeconds yet.
            ready = min(ready or 0, item.status.available_replicas or 0)
            rolling_out = _is_deploying(item, replicas)
        case workloads.StatefulSet():
            ready, rolling_out = ready or 0, _is_updating(item, replicas)
        case _:
            ready, rolling_out = ready or 0, _is_unseen(item)
    requests, unknown = _requests_of_new_pods(item, sizing)
    return Workload(
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        desired_replicas=replicas,
        annotations=item.annotations,
        rolling_out=rolling_out,
        scaling=scaled is not None and scaled.under_way,
        ready_replicas=ready,
        autoscaler=scaled.autoscaler if scaled is not None else None,
        survives_disruption=survives,
        template_requests=requests,
        requests_unknown=unknown,
        pinned_to=item.pinned_to,
        rolled_by_hand=_by_hand(item),
    )


def _requests_of_new_pods(
    item: workloads.Replicated | workloads.Job, sizing: Sizing
) -> tuple[Amounts | None, str]:
    """What they request, None if there is no template; and why that is not known, else empty.

    A VerticalPodAutoscaler may target the workload or its owner. Which of several counts depends on
    owners that are not read, so the largest amounts do.
    """
    owner, namespace = item.owner, item.metadata.namespace
    targets = [(type(item).__name__, namespace, item.metadata.name)]
    if owner is not None:
        targets.append((owner.kind, namespace, owner.name))
    autoscalers = [autoscaler for target in targets for autoscaler in sizing.get(target, ())]
    for autoscaler in autoscalers:
        if autoscaler.problem or item.template is None:
            problem = (
                autoscaler.problem
                or f"no template of at most {LARGEST_CONSTRAINTS_BYTES >> 10} KiB"
            )
            return None, f"VerticalPodAutoscaler {autoscaler.name}: {problem}"
    sizes = [
        pod_requests(autoscaler.sized(item.template), PodStatus()) for autoscaler in autoscalers
    ]
    return reduce(Amounts.raised_to, sizes) if sizes else item.template_requests, ""


def survives_disruption(policy: workloads.PodFailurePolicy | None) -> bool:
    """Whether a Job ignores an eviction, whatever the exit codes of its containers.

    The first rule that matches an evicted pod decides: one about DisruptionTarget always matches,
    one about exit codes perhaps.
    Source: matchPodFailurePolicy in k8s.io/kubernetes/pkg/controller/job, at v1.36.
    """
    for rule in (policy.rules if policy is not None else None) or ():
        if _matches_eviction(rule):
            return rule.action == "Ignore"
        if rule.action != "Ignore" and _may_match_exit(rule):
            return False
    return False


def _may_match_exit(rule: workloads.PodFailureRule) -> bool:
    if rule.on_exit_codes is None:
        return False
    codes = set(rule.on_exit_codes.values or ())
    return bool(_EXITS & codes if rule.on_exit_codes.operator == "In" else _EXITS - codes)


def _matches_eviction(rule: workloads.PodFailureRule) -> bool:
    return any(
        pattern.type == _EVICTED and pattern.status in {"True", None}
        for pattern in rule.on_pod_conditions or ()
    )


def _is_unseen(item: workloads.Replicated) -> bool:
    """Whether the controller has not processed the last edit yet."""
    return (item.status.observed_generation or 0) < (item.metadata.generation or 0)


def _is_deploying(item: workloads.Deployment, replicas: int) -> bool:
    """Whether `kubectl rollout status` would wait for more than available replicas."""
    updated = item.status.updated_replicas or 0
    return _is_unseen(item) or updated < replicas or (item.status.replicas or 0) > updated


def _by_hand(item: workloads.Replicated | workloads.Job) -> str:
    """Why the controller does not go on with a rollout by itself; empty if it does.

    Up to its partition a StatefulSet goes on, and the rest is then no rollout.
    """
    if isinstance(item.spec, workloads.JobSpec):
        return ""
    if item.spec.paused:
        return "it is paused"
    strategy = item.spec.update_strategy
    return "its strategy is OnDelete" if strategy and strategy.type == "OnDelete" else ""


def _is_updating(item: workloads.StatefulSet, replicas: int) -> bool:
    """Whether `kubectl rollout status` would wait for more than Ready replicas.

    Also whether an eviction would change the revision.
    """
    if _is_unseen(item):
        return True
    strategy = item.spec.update_strategy or workloads.UpdateStrategy()
    partition = (strategy.rolling_update or workloads.RollingUpdate()).partition or 0
    if strategy.type == "OnDelete" or partition:
        return (item.status.updated_replicas or 0) < replicas - partition
    return item.status.update_revision != item.status.current_revision


def _narrowed(item: C) -> C:
    """The item with what desched reads of its raw parts instead of these, which may be large.

    A Deployment has the template of its ReplicaSets.
    """
    metadata, spec = item.metadata, item.spec
    item.owner = controller_of(metadata.owner_references)
    item.annotations = annotations_of(metadata.annotations)
    if not isinstance(spec, workloads.JobSpec):
        item.selector = lenient_label_selector(decoded_selector(spec.selector))
        spec.selector = Raw()
    template = _TEMPLATE(spec.template)
    if template is not None and (item.owner is None or item.owner.kind != "Deployment"):
        item.pinned_to = (template.spec.node_name or "")[:LONGEST_NAME]
        completed = requests_of_template(template.spec)
        item.template_requests = pod_requests(completed, PodStatus())
        if len(bytes(spec.template)) <= LARGEST_CONSTRAINTS_BYTES:  # tenants write it
            item.template = completed
    # They refer to the whole page of the list.
    metadata.labels = metadata.annotations = metadata.owner_references = spec.template = Raw()
    return item


def _read_bytes(item: workloads.Replicated | workloads.Job) -> int:
    """The JSON of the selector and, nearly, of the part of the template that is kept."""
    template_bytes = memoryview(item.spec.template).nbytes // _KEPT_OF_TEMPLATE
    template_bytes = min(template_bytes, LARGEST_JSON_BYTES)
    if isinstance(item.spec, workloads.JobSpec):
        return template_bytes
    return max(template_bytes, memoryview(item.spec.selector).nbytes)


def _kind(right: Access, form: type[C]) -> Kind[C, C]:
    return Kind(right, form, _narrowed, size_of=_read_bytes)


DEPLOYMENTS = _kind(access.LIST_DEPLOYMENTS, workloads.Deployment)
REPLICA_SETS = _kind(access.LIST_REPLICA_SETS, workloads.ReplicaSet)
STATEFUL_SETS = _kind(access.LIST_STATEFUL_SETS, workloads.StatefulSet)
JOBS = _kind(access.LIST_JOBS, workloads.Job)
