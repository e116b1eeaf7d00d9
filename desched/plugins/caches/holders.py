"""How many nodes hold each model that pods need, for reports."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest

from desched.model.cluster import Pod
from desched.model.groups import grouped
from desched.planning.eligibility.context import EligibilityContext
from desched.plugins.caches.facts import ModelNodes
from desched.plugins.caches.models import CachedModel
from desched.plugins.caches.needed import models_needed

MOST_MODELS = 20
"""Models whose nodes are counted. Tenants decide how many there are, so each namespace takes its
turn."""

MOST_CHARACTERS = 80
"""Of the name of a model, which tenants write."""


def holders(context: EligibilityContext) -> Iterator[ModelNodes]:
    """The models with the most workloads first, so that no namespace leaves others without."""
    workloads: dict[object, Pod] = {}
    for pod in context.cluster.pods:
        if pod.node and not pod.finished:
            workloads.setdefault((pod.namespace, pod.controller or pod.uid), pod)
    needed = grouped(
        (pod.namespace, model)
        for pod in workloads.values()
        for model in models_needed(pod, context)
    )
    users = Counter(model for models in needed.values() for model in models if model.is_named)
    for model in islice(_in_turn(needed, users), MOST_MODELS):
        held = sum(map(model.is_on, context.cluster.nodes))
        yield ModelNodes(model.name[:MOST_CHARACTERS], held, users[model])


def _in_turn(
    needed: Mapping[str, Sequence[CachedModel]], users: Mapping[CachedModel, int]
) -> Iterator[CachedModel]:
    """The models, those of most workloads first, so that no namespace leaves others without."""
    by_namespace = [
        sorted({m for m in models if m in users}, key=lambda m: (-users[m], m.name, m.label))
        for _, models in sorted(needed.items())
    ]
    names = set[str]()
    for model in chain.from_iterable(zip_longest(*by_namespace)):
        if model is not None and model.name[:MOST_CHARACTERS] not in names:
            names.add(model.name[:MOST_CHARACTERS])
            yield model
