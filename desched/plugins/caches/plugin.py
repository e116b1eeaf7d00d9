"""How caches of models take part in a decision."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from desched.api_objects.plugin_kinds import ReadingPlugin
from desched.model.cluster import ClusterState, Pod, PodVolume
from desched.model.names import Form, Mark, Name
from desched.model.plan import Plan, RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.plugins.caches.facts import CacheFacts
from desched.plugins.caches.holders import holders
from desched.plugins.caches.keys import CacheAffinity, CacheKeys
from desched.plugins.caches.kinds import CACHE_KINDS
from desched.plugins.caches.limit import ModelLimit
from desched.plugins.caches.models import (
    CACHE_KEY,
    KSERVE_CLAIM,
    KSERVE_LABELS,
    kserve_claim,
    models_of,
)
from desched.plugins.caches.needed import Models, is_elsewhere, models_needed
from desched.plugins.caches.objects import CacheObjects
from desched.plugins.caches.views import CacheViews

FOR_MODEL = 0.5
FOR_DOWNLOAD = 2.0


class Caches(ReadingPlugin, frozen=True):
    """Keeps pods on nodes that hold their models."""

    cache_affinity: CacheAffinity = CacheAffinity.REQUIRE
    keys = CacheKeys
    kinds = CACHE_KINDS
    annotations: ClassVar[Mapping[str, Mark]] = {CACHE_KEY: Form.LABEL, KSERVE_CLAIM: Name.VOLUME}
    labels = KSERVE_LABELS
    views = CacheViews()

    def node_labels(self, cluster: ClusterState) -> Iterable[str]:
        """The labels that mark the nodes with the models of pods."""
        return {m.label for pod in cluster.pods for m in models_of(pod, cluster.workload_of(pod))}

    def strict(self) -> "Caches":
        """Caches do not count."""
        return Caches(CacheAffinity.IGNORE)

    @property
    def _counts(self) -> bool:
        return self.cache_affinity is not CacheAffinity.IGNORE

    def _models(self, pod: Pod, context: EligibilityContext) -> Models:
        return models_needed(pod, context) if self._counts else ()

    def has_copies(self, pod: Pod, volume: PodVolume, context: EligibilityContext) -> bool:
        """Whether it has a model of KServe, which each node with a copy offers at the same path."""
        if not self._counts or not volume.claim:
            return False
        held = CacheObjects.of(context.cluster.extras).nodes_by_model
        return volume.claim == kserve_claim(pod, held)

    def placement_limit(self, context: EligibilityContext, arrays: NodeArrays) -> ModelLimit | None:
        """No pod lands where its models would have to be downloaded, unless it may."""
        prefers = self.cache_affinity is CacheAffinity.PREFER
        return ModelLimit(context, arrays, preferred=prefers) if self._counts else None

    def extra_cost(self, pod: Pod, context: EligibilityContext) -> float:
        """A model that must be loaded costs half an eviction, a download two."""
        models = self._models(pod, context)
        if not models:
            return 0.0
        return FOR_MODEL if is_elsewhere(models, pod, context) else FOR_DOWNLOAD

    def remedies(
        self, reason: RefusalReason, pod: Pod, context: EligibilityContext
    ) -> Iterable[str]:
        """How more nodes would hold the models, or need not."""
        models = self._models(pod, context) if reason is RefusalReason.MODEL_CACHE else ()
        for model in models:
            if not model.is_named:
                yield f"Name the model in {CACHE_KEY}, or remove that annotation."
            elif model.system:
                yield f"Let {model.system} put model {model.name} on another node."
            else:
                label = f"{model.label}={model.values[-1]}"
                yield f"Put model {model.name} on another node, and label that node {label}."
        requires = self.cache_affinity is CacheAffinity.REQUIRE
        if requires and not all(each.needed_to_start for each in models):
            yield "With cacheAffinity: Prefer, it may also move to other nodes."

    def facts(self, context: EligibilityContext, _: Plan) -> CacheFacts:
        """How many nodes hold each model."""
        return CacheFacts(tuple(holders(context)) if self._counts else ())
