"""Which models and data a pod needs that only some nodes hold, by labels of these nodes."""

from collections.abc import Iterator

import msgspec

from desched.model.cluster import Node, Pod, Workload
from desched.model.selectors import Operator, Requirement

CACHE_KEY = "desched.io/cache-key"
"""An annotation of a pod or workload: the label of nodes that hold its model, as `KEY[=VALUE]`."""

LABEL_PREFIX = "cache.desched.io/"
"""The prefix of a key that is written without one."""

HELD = ("", "Ready", "true")
"""Values of a label that mean that the node holds the model, if none is written."""

CACHE_LABELS = ("fluid.io/s-", "models.ome.io/")
"""Prefixes of labels with which Fluid and OME mark nodes; their webhooks make pods prefer these."""


class CachedModel(msgspec.Struct, frozen=True, gc=False):
    """A model or dataset, with the label that nodes have which hold it."""

    label: str
    values: tuple[str, ...] = HELD

    @property
    def name(self) -> str:
        """Its name for people, as in `llama-70b`."""
        name = self.label.removeprefix(LABEL_PREFIX)
        return name if set(self.values) <= set(HELD) else f"{name}={'|'.join(self.values)}"

    def is_on(self, node: Node) -> bool:
        """Whether the node holds it."""
        return node.labels.get(self.label) in self.values


def models_of(pod: Pod, workload: Workload | None) -> tuple[CachedModel, ...]:
    """The models that the pod needs; the annotation of the pod counts before the workload's."""
    on_workload = workload.annotations if workload is not None else {}
    text = pod.annotations.get(CACHE_KEY, on_workload.get(CACHE_KEY))
    found = [] if text is None else [_written(text)]
    if pod.scheduling.preferred_node_affinity:
        found += _preferred(pod)
    return tuple(dict.fromkeys(found))


def _written(text: str) -> CachedModel:
    key, is_equal, value = (part.strip() for part in text.partition("="))
    label = key if "/" in key else LABEL_PREFIX + key
    return CachedModel(label, (value,)) if is_equal else CachedModel(label)


def _preferred(pod: Pod) -> Iterator[CachedModel]:
    """The models whose nodes the pod prefers."""
    for _, term in pod.scheduling.preferred_node_affinity:
        for requirement in term.labels:
            if _names_nodes(requirement):
                yield CachedModel(requirement.key, requirement.values)


def _names_nodes(requirement: Requirement) -> bool:
    return requirement.operator is Operator.IN and requirement.key.startswith(CACHE_LABELS)
