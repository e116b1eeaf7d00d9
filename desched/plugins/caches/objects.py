"""What objects of KServe and GPUStack say about the nodes that hold models."""

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import msgspec

from desched.model.extras import Objects
from desched.model.names import LabeledName, NodeName, Plain

NodesByModel = Mapping[str, Mapping[str, frozenset[str]]]
"""The names of the nodes that hold each model, by system. A system that is not read is missing."""


class ModelCopies(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Models that nodes hold, as an object of a system says: each of these is on each of those."""

    system: Plain
    models: tuple[LabeledName, ...] = ()
    nodes: tuple[NodeName, ...] = ()


class CacheObjects(Objects, frozen=True):
    """The models that nodes hold."""

    plugin: ClassVar[str] = "caches"

    copies: tuple[ModelCopies, ...] = ()

    @cached_property
    def nodes_by_model(self) -> NodesByModel:
        """The names of the nodes that hold each model, by the system whose objects say so."""
        nodes_of: dict[str, dict[str, set[str]]] = {}
        for copies in self.copies:
            of_system = nodes_of.setdefault(copies.system, {})
            for model in copies.models:
                of_system.setdefault(model, set()).update(copies.nodes)
        return {
            system: {model: frozenset(nodes) for model, nodes in models.items()}
            for system, models in nodes_of.items()
        }
