"""How caches of models take part in a decision."""

from collections.abc import Iterable, Mapping
from typing import Any

from desched.model.cluster import Pod
from desched.model.model_caches import CACHE_KEY
from desched.model.plan import Plan, RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.plugins import Plugin
from desched.plugins.caches.holders import holders
from desched.plugins.caches.limit import ModelLimit
from desched.plugins.caches.needed import is_elsewhere, models_needed
from desched.policy.compatibility import CacheAffinity

FOR_MODEL = 0.5
FOR_DOWNLOAD = 2.0


class Caches(Plugin, frozen=True):
    """Keeps pods on nodes that hold their models."""

    annotations = frozenset({CACHE_KEY})

    def limit(self, context: EligibilityContext, arrays: NodeArrays) -> ModelLimit:
        """No pod lands where its models would have to be downloaded, unless it may."""
        return ModelLimit(context, arrays)

    def extra_cost(self, pod: Pod, context: EligibilityContext) -> float:
        """A model that must be loaded costs half an eviction, a download two."""
        models = models_needed(pod, context)
        if not models:
            return 0.0
        return FOR_MODEL if is_elsewhere(models, pod, context) else FOR_DOWNLOAD

    def remedies(
        self, reason: RefusalReason, pod: Pod, context: EligibilityContext
    ) -> Iterable[str]:
        """How more nodes would hold the models, or need not."""
        models = models_needed(pod, context) if reason is RefusalReason.MODEL_CACHE else ()
        for model in models:
            if not model.is_named:
                yield f"Name the model in {CACHE_KEY}, or remove that annotation."
            elif model.system:
                yield f"Let {model.system} put model {model.name} on another node."
            else:
                label = f"{model.label}={model.values[-1]}"
                yield f"Put model {model.name} on another node, and label that node {label}."
        affinity = context.policy.cache_affinity
        if affinity is CacheAffinity.REQUIRE and not all(each.needed_to_start for each in models):
            yield "With cacheAffinity: Prefer, it may also move to other nodes."

    def facts(self, context: EligibilityContext, _: Plan) -> Mapping[str, Any]:
        """How many nodes hold each model."""
        return {"models": tuple(holders(context))}
