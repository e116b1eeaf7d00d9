"""PodDisruptionBudgets, priority classes and Services."""
# ruff: noqa: D101  (the classes mirror the API's own, which its reference documents)

import msgspec

from desched.adapters.kubernetes.client.api_types.metadata import Int32, Int64, Named, Strings, Wire
from desched.adapters.kubernetes.client.api_types.selectors import LabelSelector


class BudgetSpec(Wire):
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(Wire):
    disruptions_allowed: Int32 | None = None
    observed_generation: Int64 | None = None


class PodDisruptionBudget(Named):
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class PriorityClass(Named):
    value: Int32


class ServiceSpec(Wire):
    selector: Strings = None


class Service(Named):
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)
