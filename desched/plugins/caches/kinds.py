"""Which nodes hold which models, as objects of KServe and GPUStack say it.

An object that cannot be read says that no node holds its models, so that their pods stay.

Sources: kserve serving/v1alpha1 LocalModelCache (cluster-scoped), gpustack-operator worker/v1alpha1
NodeModelStore (cluster-scoped, named as its node).
"""

from collections.abc import Callable, Sequence
from functools import partial
from sys import intern

from msgspec import Raw

from desched.api_objects.access import Access, list_and_watch
from desched.api_objects.decoding import UNDECODABLE, RawDecoder
from desched.api_objects.kinds import Kind, Lists
from desched.api_objects.plugin_kinds import PluginKinds, SystemRights
from desched.model.cluster import Node
from desched.plugins.caches import wire
from desched.plugins.caches.models import GPUSTACK, KSERVE
from desched.plugins.caches.objects import CacheObjects, ModelCopies


def _rights(kind: str) -> tuple[Access, Access]:
    """The rights to read which nodes hold which models."""
    without = "local volumes keep their pods, and other pods move as if they needed no model"
    return list_and_watch(kind, "which nodes hold a model", without, "v1alpha1")


_RIGHTS = {
    KSERVE: _rights("serving.kserve.io localmodelcaches"),
    GPUSTACK: _rights("worker.gpustack.ai nodemodelstores"),
}

_DOWNLOADED = "NodeDownloaded"
_READY = "Ready"

_CACHE = RawDecoder(wire.LocalModelCacheStatus)
_STORE = RawDecoder(wire.NodeModelStoreStatus)

_Read = Callable[[str, Raw], ModelCopies]


def _kserve(name: str, status: Raw) -> ModelCopies:
    cache = _CACHE(status) or wire.LocalModelCacheStatus()
    states = cache.node_status or {}
    nodes = tuple(sorted(node for node, state in states.items() if state == _DOWNLOADED))
    return ModelCopies(KSERVE, (name,), nodes)


def _gpustack(node: str, status: Raw) -> ModelCopies:
    store = _STORE(status) or wire.NodeModelStoreStatus()
    ready = {condition.type: condition.status for condition in store.conditions or ()}.get(
        _READY
    ) == "True"
    models = sorted({intern(model.digest) for model in store.models or () if model.state == _READY})
    return ModelCopies(GPUSTACK, tuple(models) if ready else (), (node,))


def _copies(system: str, read: _Read, item: wire.ModelCache) -> ModelCopies:
    try:
        return read(item.metadata.name, item.status)
    except UNDECODABLE:
        return ModelCopies(system)


def _kind(system: str, read: _Read) -> Kind[wire.ModelCache, ModelCopies]:
    build, (listed, _) = partial(_copies, system, read), _RIGHTS[system]
    return Kind(listed, wire.ModelCache, build, is_optional=True, is_discovered=True)


MODEL_CACHES = {KSERVE: _kind(KSERVE, _kserve), GPUSTACK: _kind(GPUSTACK, _gpustack)}
"""The kind of object of each system."""


def _all(lists: Lists, _: Sequence[Node]) -> CacheObjects:
    return CacheObjects(
        tuple(copies for kind in MODEL_CACHES.values() for copies in lists.all(kind))
    )


CACHE_KINDS = PluginKinds(
    CacheObjects,
    tuple(MODEL_CACHES.values()),
    SystemRights(
        name="model-caches",
        title="model caches",
        unread="Local volumes keep their pods, and other pods move as if they needed no model.",
        read={system: rights[:1] for system, rights in _RIGHTS.items()},
        granted={system.lower(): rights for system, rights in sorted(_RIGHTS.items())},
    ),
    _all,
)
