"""PodDisruptionBudgets, Services, priority classes and namespaces, in the model's terms."""

from collections.abc import Mapping

from desched.adapters.kubernetes.client import access
from desched.adapters.kubernetes.client.api_types import workloads
from desched.adapters.kubernetes.objects.metadata import texts_of
from desched.api_objects.kinds import Kind
from desched.api_objects.selectors import decoded_selector, label_selector
from desched.model.cluster import PodDisruptionBudget, Service


def budget(item: workloads.PodDisruptionBudget) -> PodDisruptionBudget:
    """The budget; no selector covers no pod, an empty one covers all pods of the namespace."""
    selector, status = decoded_selector(item.spec.selector), item.status
    return PodDisruptionBudget(
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        selector=None if selector is None else label_selector(selector),
        disruptions_allowed=status.disruptions_allowed or 0,
        up_to_date=(status.observed_generation or 0) >= (item.metadata.generation or 0),
    )


def service(item: workloads.Service) -> Service:
    """The Service; without a selector it selects no pod."""
    return Service(item.metadata.namespace, item.metadata.name, texts_of(item.spec.selector))


def _selector_bytes(item: workloads.PodDisruptionBudget | workloads.Service) -> int:
    return memoryview(item.spec.selector).nbytes


def namespace_labels(item: workloads.Namespace) -> tuple[str, Mapping[str, str]]:
    """The labels of a namespace by its name."""
    return item.metadata.name, texts_of(item.metadata.labels)


BUDGETS = Kind(access.LIST_BUDGETS, workloads.PodDisruptionBudget, budget, size_of=_selector_bytes)
SERVICES = Kind(access.LIST_SERVICES, workloads.Service, service, size_of=_selector_bytes)
PRIORITY_CLASSES = Kind(
    access.LIST_PRIORITY_CLASSES, workloads.PriorityClass, lambda it: (it.metadata.name, it.value)
)
NAMESPACES = Kind(
    access.LIST_NAMESPACES,
    workloads.Namespace,
    namespace_labels,
    size_of=lambda it: memoryview(it.metadata.labels).nbytes,
)
