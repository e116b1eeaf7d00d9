"""Which nodes hold which models, as objects of KServe and GPUStack say it.

An object that cannot be read says that no node holds its models, so that their pods stay.

Sources: kserve serving/v1alpha1 LocalModelCache (cluster-scoped), gpustack-operator worker/v1alpha1
NodeModelStore (cluster-scoped, named as its node).
"""

from collections.abc import Callable, Mapping
from functools import partial
from sys import intern
from typing import Any

from msgspec import Raw

from desched.adapters.kubernetes.client.access import LIST_KSERVE_CACHES, LIST_MODEL_STORES
from desched.adapters.kubernetes.client.api_types import model_caches
from desched.api_objects.access import Access
from desched.api_objects.decoding import UNDECODABLE, RawDecoder
from desched.api_objects.kinds import Kind
from desched.model.cluster import ModelCopies
from desched.model.model_caches import GPUSTACK, KSERVE

GPUSTACK_DRIVER = "model.csi.gpustack.ai"
GPUSTACK_DIGEST = "manifestDigest"
"""The CSI driver that mounts a model from the node, and the attribute that names the model."""

_DOWNLOADED = "NodeDownloaded"
_READY = "Ready"

_CACHE = RawDecoder(model_caches.LocalModelCacheStatus)
_STORE = RawDecoder(model_caches.NodeModelStoreStatus)

_Read = Callable[[str, Raw], ModelCopies]


def _kserve(name: str, status: Raw) -> ModelCopies:
    cache = _CACHE(status) or model_caches.LocalModelCacheStatus()
    states = cache.node_status or {}
    nodes = tuple(sorted(node for node, state in states.items() if state == _DOWNLOADED))
    return ModelCopies(KSERVE, (name,), nodes)


def _gpustack(node: str, status: Raw) -> ModelCopies:
    store = _STORE(status) or model_caches.NodeModelStoreStatus()
    ready = {condition.type: condition.status for condition in store.conditions or ()}.get(
        _READY
    ) == "True"
    models = sorted({intern(model.digest) for model in store.models or () if model.state == _READY})
    return ModelCopies(GPUSTACK, tuple(models) if ready else (), (node,))


def _copies(system: str, read: _Read, item: model_caches.ModelCache) -> ModelCopies:
    try:
        return read(item.metadata.name, item.status)
    except UNDECODABLE:
        return ModelCopies(system)


def _kind(system: str, access: Access, read: _Read) -> Kind[Any, ModelCopies]:
    build = partial(_copies, system, read)
    return Kind(access, model_caches.ModelCache, build, is_optional=True, is_discovered=True)


MODEL_CACHES: Mapping[str, Kind[Any, ModelCopies]] = {
    KSERVE: _kind(KSERVE, LIST_KSERVE_CACHES, _kserve),
    GPUSTACK: _kind(GPUSTACK, LIST_MODEL_STORES, _gpustack),
}
"""The kind of object of each system."""
