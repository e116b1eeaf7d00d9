"""Controllers that own pods, and the budgets, priorities and Services that apply to pods."""

from typing import Any

import msgspec
from msgspec import Raw

from desched.adapters.kubernetes.client.api_types.pods import PodSpec
from desched.api_objects.metadata import Int32, Int64, Named, Wire


class RollingUpdate(Wire):
    partition: Int32 | None = None


class UpdateStrategy(Wire):
    type: str | None = None
    rolling_update: RollingUpdate | None = None


class PodTemplate(Wire):
    spec: PodSpec


class ReplicasSpec(Wire):
    replicas: Int32 | None = None
    template: Raw = Raw()
    selector: Raw = Raw()
    update_strategy: UpdateStrategy | None = None
    paused: bool | None = None


class ReplicasStatus(Wire):
    observed_generation: Int64 | None = None
    replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    updated_replicas: Int32 | None = None
    available_replicas: Int32 | None = None
    current_revision: str | None = None
    update_revision: str | None = None


class WithTemplate(Named):
    """A controller with a template for its pods.

    What follows is filled in from the raw parts, which are then dropped: the parts of `template`
    that decide on requests, `template_requests`, the node that it names (`pinned_to`), its own
    `owner`, `annotations` and `selector`.
    """

    template: Any = None
    template_requests: Any = None
    pinned_to: str = ""
    owner: Any = None
    annotations: Any = msgspec.field(default_factory=dict)
    selector: Any = None


class Replicated(WithTemplate):
    """A controller that keeps a number of pods; none of the three kinds has all fields."""

    spec: ReplicasSpec = msgspec.field(default_factory=ReplicasSpec)
    status: ReplicasStatus = msgspec.field(default_factory=ReplicasStatus)


class ReplicaSet(Replicated):
    pass


class Deployment(Replicated):
    pass


class StatefulSet(Replicated):
    pass


class OnExitCodes(Wire):
    operator: str
    values: list[Int32] | None = None


class OnPodCondition(Wire):
    type: str
    status: str | None = None


class PodFailureRule(Wire):
    action: str
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: list[OnPodCondition] | None = None


class PodFailurePolicy(Wire):
    rules: list[PodFailureRule] | None = None


class JobSpec(Wire):
    replicas: Int32 | None = msgspec.field(default=None, name="parallelism")
    template: Raw = Raw()
    pod_failure_policy: PodFailurePolicy | None = None


class JobStatus(Wire):
    ready_replicas: Int32 | None = msgspec.field(default=None, name="ready")


class Job(WithTemplate):
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class BudgetSpec(Wire):
    selector: Raw = Raw()


class BudgetStatus(Wire):
    disruptions_allowed: Int32 | None = None
    observed_generation: Int64 | None = None


class PodDisruptionBudget(Named):
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class Namespace(Named):
    pass


class PriorityClass(Named):
    value: Int32


class ServiceSpec(Wire):
    selector: Raw = Raw()


class Service(Named):
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)
