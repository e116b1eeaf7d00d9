"""What the plugin for caches of models observes."""

from typing import ClassVar

import msgspec

from desched.model.facts import Facts


class ModelNodes(msgspec.Struct, frozen=True, gc=False):
    """How many nodes hold a model that pods need, and how many `workloads` these are."""

    model: str
    nodes: int
    workloads: int


class CacheFacts(Facts, frozen=True):
    """How many nodes hold each of up to 20 models that pods need."""

    plugin: ClassVar[str] = "caches"

    models: tuple[ModelNodes, ...] = ()
