"""What the JSON of all kinds has in common."""
# ruff: noqa: D101  (the classes mirror the API's own, which its reference documents)

from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

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
    name: Word
    namespace: str = ""
    uid: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    generation: Int64 | None = None
    labels: Strings = None
    annotations: Strings = None
    owner_references: list[OwnerReference] | None = None


class Named(Wire):
    """What all objects have; an error message needs no more."""

    metadata: Metadata


class VersionedMetadata(Wire):
    """What a write needs that must not overwrite another."""

    resource_version: str
    name: str = ""
    annotations: Strings = None


class Condition(Wire):
    type: str
    status: str = ""
    reason: str | None = None
