"""Which models a pod needs where it goes, and which nodes hold them."""

from collections.abc import Sequence

from desched.model.cluster import Pod
from desched.planning.eligibility.context import EligibilityContext
from desched.plugins.caches.models import CachedModel, models_of
from desched.plugins.caches.objects import CacheObjects

Models = tuple[CachedModel, ...]


def models_needed(pod: Pod, context: EligibilityContext) -> Models:
    """The models that the pod needs where it goes."""
    held = CacheObjects.of(context.cluster.extras).nodes_by_model
    return models_of(pod, context.cluster.workload_of(pod), held)


def is_elsewhere(models: Models, pod: Pod, context: EligibilityContext) -> bool:
    """Whether another schedulable node than that of the pod holds all these models."""
    holders = context.derived(_Holders)
    return any(name != pod.node for name in holders.of(models))


class _Holders:
    """The schedulable nodes with all models of a set, for each set that is asked for."""

    def __init__(self, context: EligibilityContext) -> None:
        nodes = context.cluster.nodes
        self._nodes = [node for node in nodes if node.ready and not node.unschedulable]
        self._known: dict[Models, Sequence[str]] = {}

    def of(self, models: Models) -> Sequence[str]:
        """The names of the nodes with all these models."""
        if models not in self._known:
            on_all = (n.name for n in self._nodes if all(model.is_on(n) for model in models))
            self._known[models] = tuple(on_all)
        return self._known[models]
