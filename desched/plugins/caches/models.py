"""Which models and data a pod needs that only some nodes hold.

Labels of the nodes have it, or objects of KServe and GPUStack, see `CacheObjects.nodes_by_model`.
"""

from collections.abc import Iterator, Mapping

import msgspec

from desched.model.cluster import Node, Pod, VolumeKind, Workload
from desched.model.selectors import Operator, Requirement
from desched.plugins.caches.objects import NodesByModel

CACHE_KEY = "desched.io/cache-key"
"""An annotation of a pod or workload: the label of nodes that hold its model, as `KEY[=VALUE]`."""

LABEL_PREFIX = "cache.desched.io/"
"""The prefix of a key that is written without one."""

HELD = ("", "Ready", "true")
"""Values of a label that mean that the node holds the model, if none is written."""

CACHE_LABELS: Mapping[str, str] = {"fluid.io/s-": "Fluid", "models.ome.io/": "OME"}
"""Prefixes of labels with which systems mark nodes; their webhooks make pods prefer these."""

KSERVE = "KServe"
GPUSTACK = "GPUStack"
"""Systems whose objects list the nodes that hold each model."""

KSERVE_MODEL = "internal.serving.kserve.io/localmodel"
KSERVE_NAMESPACE = "internal.serving.kserve.io/localmodel-namespace"
KSERVE_CLAIM = "internal.serving.kserve.io/localmodel-pvc-name"
"""Labels of a pod with the name of its LocalModelCache, or of its LocalModelNamespaceCache, which
is not read, and an annotation with the claim through which it mounts the model."""

KSERVE_LABELS = frozenset({KSERVE_MODEL, KSERVE_NAMESPACE})

_DIGEST = "sha256:"
_SHOWN_OF_DIGEST = len(_DIGEST) + 12

_NONE: NodesByModel = {}


class CachedModel(msgspec.Struct, frozen=True, gc=False):
    """A model or dataset, with the label of the nodes that hold it.

    If an object of its system lists them, `nodes` are these nodes, and `label` is its name there.
    `needed_to_start`: the pod cannot start on another node, because nothing downloads it there.
    """

    label: str
    values: tuple[str, ...] = HELD
    nodes: frozenset[str] | None = None
    needed_to_start: bool = False

    @property
    def is_named(self) -> bool:
        """Whether the annotation names a model at all."""
        return self.label != LABEL_PREFIX

    @property
    def system(self) -> str:
        """The system that marks the nodes that hold it, empty if none is known to label them."""
        if self.nodes is not None:
            return KSERVE if self.needed_to_start else GPUSTACK
        systems = (name for key, name in CACHE_LABELS.items() if self.label.startswith(key))
        return next(systems, "")

    @property
    def name(self) -> str:
        """Its name for people, as in `llama-70b`."""
        name = self.label.removeprefix(LABEL_PREFIX)
        if name.startswith(_DIGEST):
            return name[:_SHOWN_OF_DIGEST]
        return name if set(self.values) <= set(HELD) else f"{name}={'|'.join(self.values)}"

    def is_on(self, node: Node) -> bool:
        """Whether the node holds it."""
        if self.nodes is not None:
            return node.name in self.nodes
        return node.labels.get(self.label) in self.values


def models_of(
    pod: Pod, workload: Workload | None, held: NodesByModel = _NONE
) -> tuple[CachedModel, ...]:
    """The models that the pod needs; the annotation of the pod counts before the workload's."""
    on_workload = workload.annotations if workload is not None else {}
    text = pod.annotations.get(CACHE_KEY, on_workload.get(CACHE_KEY))
    models = [] if text is None else [_written(text)]
    if pod.scheduling.preferred_node_affinity:
        models += _preferred(pod)
    if held:
        models += _listed(pod, held)
    return tuple(dict.fromkeys(models))


def kserve_claim(pod: Pod, held: NodesByModel) -> str:
    """The claim through which the pod mounts a model of a LocalModelCache, empty if none does."""
    return pod.annotations.get(KSERVE_CLAIM, "") if any(_of_kserve(pod, held)) else ""


def _listed(pod: Pod, held: NodesByModel) -> Iterator[CachedModel]:
    """The models whose nodes objects list."""
    yield from _of_kserve(pod, held)
    of_gpustack = held.get(GPUSTACK)
    if of_gpustack is None:
        return
    for volume in pod.volumes:
        if volume.kind is VolumeKind.MODEL:
            yield CachedModel(volume.model, nodes=of_gpustack.get(volume.model, frozenset()))


def _of_kserve(pod: Pod, held: NodesByModel) -> Iterator[CachedModel]:
    of_kserve, name = held.get(KSERVE), pod.labels.get(KSERVE_MODEL)
    if of_kserve is not None and name is not None and KSERVE_NAMESPACE not in pod.labels:
        yield CachedModel(name, nodes=of_kserve.get(name, frozenset()), needed_to_start=True)


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
    return requirement.operator is Operator.IN and requirement.key.startswith(tuple(CACHE_LABELS))
