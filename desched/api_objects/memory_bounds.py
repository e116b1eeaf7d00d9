"""Bounds for what is kept of objects, so that no tenant fills the memory.

Of an object at most 64 KiB of JSON and 512 KiB of memory are kept. Those with more than 8 KiB of
memory are large; all large ones of a namespace, of any kind, have a share of 32 MiB, and those of
all namespaces 192 MiB. What is beyond is not kept, and all pods of the namespace stay. Large parts
of pods have as much on their own. The number of objects is not bounded here.
"""

from collections import Counter
from collections.abc import Mapping
from sys import getsizeof
from threading import Lock
from typing import NamedTuple

import msgspec

from desched.api_objects.access import Access

LARGEST_JSON_BYTES = 64 * 2**10
"""The JSON of what is kept of an object; in memory it takes up to 25 times as much."""

LARGEST_BYTES = 512 * 2**10
"""The memory of what is kept of an object."""

ORDINARY_JSON_BYTES = 2**10
"""Up to here, it is not measured how much memory it takes."""

ORDINARY_BYTES = 8 * 2**10
"""The memory of an object that does not count as large."""

LARGEST_NAMESPACE_BYTES = 32 * 2**20
"""The memory of all large objects of a namespace."""

LARGEST_TOTAL_BYTES = 192 * 2**20
"""The memory of all large objects of all namespaces, of which a tenant may have many."""

_USUAL_GROWTH = 8
"""The memory of texts and numbers for each byte of JSON."""

BEYOND_SHARE = (
    f"large objects of its namespace take more than {LARGEST_NAMESPACE_BYTES >> 20} MiB, or those "
    f"of all namespaces more than {LARGEST_TOTAL_BYTES >> 20} MiB"
)


class TooLarge(NamedTuple):
    """An object that is not kept, and why."""

    kind: str
    namespace: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.why}"


ObjectKey = tuple[Access, str, str]
"""What lists its kind, its namespace and its name."""


def kept_bytes(value: object) -> int:
    """The memory that a value takes with all its parts; shared ones count each time."""
    if isinstance(value, msgspec.Raw):
        return memoryview(value).nbytes  # its own size is not what `getsizeof` returns
    size_bytes = getsizeof(value)
    if isinstance(value, msgspec.Struct):
        size_bytes += sum(kept_bytes(getattr(value, name)) for name in value.__struct_fields__)
    elif isinstance(value, Mapping):
        size_bytes += sum(kept_bytes(key) + kept_bytes(item) for key, item in value.items())
    elif isinstance(value, (tuple, list, frozenset)):
        size_bytes += sum(map(kept_bytes, value))
    return size_bytes


def memory_of(value: object, json_bytes: int) -> int:
    """The memory of a value that is made from so many bytes of JSON; of a small one, about."""
    return kept_bytes(value) if json_bytes > ORDINARY_JSON_BYTES else _USUAL_GROWTH * json_bytes


def has_room(taken: Counter[str], namespace: str, size_bytes: int) -> bool:
    """Whether a namespace may take so much more; `taken` is by namespace."""
    of_all = taken.total() + size_bytes
    return (
        of_all <= LARGEST_TOTAL_BYTES and taken[namespace] + size_bytes <= LARGEST_NAMESPACE_BYTES
    )


class NamespaceShares:
    """The memory of the large objects of each namespace; threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._bytes: dict[ObjectKey, int] = {}
        self._taken = Counter[str]()

    def admits(self, key: ObjectKey, size_bytes: int) -> bool:
        """Whether the object may be kept; if so, its size replaces that of its earlier version."""
        with self._lock:
            self._release(key)
            if size_bytes <= ORDINARY_BYTES:
                return True
            namespace = _namespace(key)
            if not has_room(self._taken, namespace, size_bytes):
                return False
            self._bytes[key] = size_bytes
            self._taken[namespace] += size_bytes
            return True

    def release(self, key: ObjectKey) -> None:
        """Forget an object that is gone."""
        with self._lock:
            self._release(key)

    def release_kind(self, access: Access) -> None:
        """Forget all objects of a kind, which is listed again."""
        with self._lock:
            for key in [key for key in self._bytes if key[0] == access]:
                self._release(key)

    def _release(self, key: ObjectKey) -> None:
        size_bytes = self._bytes.pop(key, 0)
        if size_bytes:
            self._taken[_namespace(key)] -= size_bytes


def _namespace(key: ObjectKey) -> str:
    """The namespace of an object; that of a Namespace is itself."""
    _, namespace, name = key
    return namespace or name
