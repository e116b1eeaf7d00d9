"""The lines of a watch, from JSON to changes of single objects."""

from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from desched.adapters.kubernetes.client.api_types.pods import PodMetadata
from desched.adapters.kubernetes.client.api_types.status import Status
from desched.api_objects.decoding import UNDECODABLE, Decoder
from desched.api_objects.metadata import Metadata, VersionedMetadata, Wire
from desched.errors import ObservationError, ObservationSource

W = TypeVar("W")
V = TypeVar("V")

Key = tuple[str, str]
"""Namespace and name of an object."""


class WatchLost(ObservationError):  # noqa: N818  (named for what the caller reads)
    """Changes may be missing, so the kind must be listed again."""

    def __init__(self, reason: str) -> None:
        super().__init__(ObservationSource.CLUSTER, reason)


class EventType(StrEnum):
    """The types of events, as the API names them."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class Change(NamedTuple, Generic[V]):
    """What an event changes: no object if `key` is None, and it is gone if `value` is None."""

    version: int
    key: Key | None = None
    value: V | None = None


class _Event(Wire):
    type: EventType
    object: Raw


class _Version(Wire):
    resource_version: str


class _Bookmark(Wire):
    """An object of which only the version is set."""

    metadata: _Version


class _Versioned(Wire):
    metadata: VersionedMetadata


_EVENT = msgspec.json.Decoder(_Event)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)
_VERSIONED = msgspec.json.Decoder(_Versioned)
_STATUS = msgspec.json.Decoder(Status)


def key_of(metadata: Metadata | PodMetadata) -> Key:
    """The key of an object."""
    return metadata.namespace, metadata.name


def version_number(text: str) -> int:
    """A resource version; API servers count them, so they can be compared.

    Raises:
        WatchLost: it is no number.
    """
    if not (text.isascii() and text.isdigit()):
        raise WatchLost(f'the resource version "{text[:40]}" is no number')
    return int(text)


def change_of(line: bytes, decoder: Decoder[W, tuple[Key, V]]) -> Change[V]:
    """What a line of a watch changes.

    Raises:
        WatchLost: the API server ends the watch, or the line cannot be understood.
    """
    try:
        return _change(_EVENT.decode(line), decoder)
    except UNDECODABLE as error:
        raise WatchLost(f"a line of the watch is no event ({error})") from error
    except WatchLost:
        raise
    except ObservationError as error:
        raise WatchLost(str(error)) from error


def _change(event: _Event, decoder: Decoder[W, tuple[Key, V]]) -> Change[V]:
    match event.type:
        case EventType.ERROR:
            status = _STATUS.decode(event.object)
            reason = (status.message or status.reason or "without a reason").rstrip(".")
            raise WatchLost(f"the API server ended the watch: {reason}")
        case EventType.BOOKMARK:
            version = _BOOKMARK.decode(event.object).metadata.resource_version
            return Change(version_number(version))
        case EventType.DELETED:
            metadata = _VERSIONED.decode(event.object).metadata
            key = metadata.namespace, metadata.name
            return Change(version_number(metadata.resource_version), key)
        case EventType.ADDED | EventType.MODIFIED:
            metadata = _VERSIONED.decode(event.object).metadata
            key, value = decoder.one(bytes(event.object))
            return Change(version_number(metadata.resource_version), key, value)
