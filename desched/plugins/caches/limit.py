"""Which nodes lack a model that a pod needs; there it would have to be downloaded again.

kube-scheduler does not know that, so that landings on them are bad ones.
"""

from collections.abc import Sequence

from desched.model.cluster import Pod
from desched.model.plan import RefusalReason
from desched.planning.arrays import Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.plugins import PlacementLimit
from desched.plugins.caches.models import CACHE_KEY, CachedModel
from desched.plugins.caches.needed import models_needed

MOST_NAMED = 5
"""The maximum number of nodes with a model that a refusal names."""


class ModelLimit(PlacementLimit):
    """The nodes without the models of a pod; with `may_download` those where it could not start.

    A pod that is `preferred` near its models may download them if it finds no place.
    """

    words = "node(s) do not hold its model"
    reason = RefusalReason.MODEL_CACHE

    def __init__(
        self,
        context: EligibilityContext,
        arrays: NodeArrays,
        *,
        preferred: bool,
        may_download: bool = False,
    ) -> None:
        self._context = context
        self._arrays = arrays
        self._preferred = preferred
        self._may_download = may_download
        self._cold: dict[tuple[CachedModel, ...], Mask] = {}

    def outside(self, pod: Pod) -> Mask:
        """The nodes that lack a model of the pod. Do not modify."""
        models = models_needed(pod, self._context)
        if self._may_download:
            models = tuple(model for model in models if model.needed_to_start)
        mask = self._cold.get(models)
        if mask is None:
            mask = self._arrays.none() if not models else self._without(models)
            self._cold[models] = mask
        return mask

    def relaxed(self, pod: Pod) -> "ModelLimit | None":
        """The limit where the pod may download its models, if the policy lets it."""
        models = models_needed(pod, self._context)
        may_not = not self._preferred or self._may_download
        if may_not or all(model.needed_to_start for model in models):
            return None
        return ModelLimit(self._context, self._arrays, preferred=True, may_download=True)

    def describe(self, pod: Pod) -> str:
        """Where its models are, as in `model llama-70b is on te4 and te9 only`."""
        return "; ".join(self._where(model) for model in models_needed(pod, self._context))

    def _without(self, models: Sequence[CachedModel]) -> Mask:
        return self._arrays.where(lambda node: not all(model.is_on(node) for model in models))

    def _where(self, model: CachedModel) -> str:
        if not model.is_named:
            return f"{CACHE_KEY} names no model"
        return f"model {model.name} is on {self._nodes_with(model)}"

    def _nodes_with(self, model: CachedModel) -> str:
        names = [node.name for node in self._arrays.nodes if model.is_on(node)]
        if not names:
            return "no node"
        named, others = names[:MOST_NAMED], len(names) - MOST_NAMED
        if others > 0:
            named.append(f"{others} other{'s' * (others > 1)}")
        *first, last = named
        return f"{', '.join(first)} and {last} only" if first else f"{last} only"
