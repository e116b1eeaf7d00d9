"""What the JSON of several kinds has in common: metadata, conditions and selectors."""

from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta, Raw

T = TypeVar("T")

Strings = dict[str, str] | None
Word = Annotated[str, Meta(min_length=1)]
Time = Annotated[datetime, Meta(tz=True)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""As wide as the API's own fields, so that arithmetic on them cannot overflow."""


class Wire(msgspec.Struct, gc=False, rename="camel"):
    """Decoded JSON is a tree, so the garbage collector need not search it for cycles."""


class ListMeta(Wire):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: Int64 | None = None


class Items(Wire, Generic[T]):
    """One page of a list; `items` is null where there are none, and its absence an error."""

    items: list[T] | None
    metadata: ListMeta | None = None


class OwnerReference(Wire):
    kind: str
    name: str
    uid: str
    api_version: str = ""
    controller: bool | None = None


class Metadata(Wire):
    """Tenants may fill the raw parts; each kind decodes only those that it reads."""

    name: Word
    namespace: str = ""
    uid: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    generation: Int64 | None = None
    labels: Raw = Raw()
    annotations: Raw = Raw()
    owner_references: Raw = Raw()


class Named(Wire):
    """What all objects have; an error message needs no more."""

    metadata: Metadata


class VersionedMetadata(Wire):
    """What a write needs that must not overwrite another, and a watch that must not miss any."""

    resource_version: Word
    name: str = ""
    namespace: str = ""
    annotations: Strings = None


class Condition(Wire):
    type: str
    status: str = ""
    reason: str | None = None


class SelectorRequirement(Wire):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Wire):
    match_labels: Strings = None
    match_expressions: list[SelectorRequirement] | None = None


class NodeSelectorTerm(Wire):
    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(Wire):
    node_selector_terms: list[NodeSelectorTerm] | None = None
