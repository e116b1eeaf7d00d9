"""PodDisruptionBudgets and Services, in the model's terms."""

from desched.adapters.kubernetes.client import api_types
from desched.adapters.kubernetes.objects.selectors import label_selector
from desched.model.cluster import PodDisruptionBudget, Service


def budget(item: api_types.PodDisruptionBudget) -> PodDisruptionBudget:
    """The budget; without a selector it covers no pod, with an empty one all of its namespace.

    Raises:
        ValueError: its selector cannot be read.
    """
    selector, status = item.spec.selector, item.status
    return PodDisruptionBudget(
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        selector=None if selector is None else label_selector(selector),
        disruptions_allowed=status.disruptions_allowed or 0,
        up_to_date=(status.observed_generation or 0) >= (item.metadata.generation or 0),
        always_allows_unhealthy=item.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )


def service(item: api_types.Service) -> Service:
    """The Service; without a selector it selects no pod."""
    return Service(item.metadata.namespace, item.metadata.name, item.spec.selector or {})
