"""Objects that say which nodes hold which models; their schemas are those of the systems."""

from msgspec import Raw

from desched.api_objects.metadata import Condition, Named, Wire


class ModelCache(Named):
    """A LocalModelCache of KServe, or a NodeModelStore of GPUStack."""

    status: Raw = Raw()


class LocalModelCacheStatus(Wire):
    node_status: dict[str, str] | None = None


class StoredModel(Wire):
    digest: str = ""
    state: str = ""


class NodeModelStoreStatus(Wire):
    models: list[StoredModel] | None = None
    conditions: list[Condition] | None = None
