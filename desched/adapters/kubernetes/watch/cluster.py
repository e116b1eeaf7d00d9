"""All kinds that planning needs, kept up to date by watches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from desched.adapters.bounded_http import Deadline
from desched.adapters.kubernetes.cluster_reader import KINDS
from desched.adapters.kubernetes.objects.pods import pods_kind
from desched.adapters.kubernetes.watch.loop import KindFrom, KindWatch, WatchClient
from desched.adapters.kubernetes.watch.store import Store
from desched.api_objects.access import Access
from desched.api_objects.kinds import Kind
from desched.api_objects.memory_bounds import NamespaceShares, TooLarge
from desched.errors import ObservationError, ObservationSource

W = TypeVar("W")
V = TypeVar("V")

FIRST_LIST_SECONDS = 240.0
"""How long a look waits for the first lists."""

REPAIR_SECONDS = 10.0
"""How long it waits for kinds whose watch is interrupted."""

_POLL_SECONDS = 0.02
_STOPPING_SECONDS = 2.0


class WatchedObjects:
    """The objects of all kinds at one moment."""

    def __init__(
        self, values: Mapping[Access, tuple[Any, ...]], too_large: Sequence[TooLarge]
    ) -> None:
        self._values = values
        self.too_large = too_large

    def all(self, kind: Kind[W, V]) -> tuple[V, ...]:
        """All objects of a kind."""
        return self._values[kind.access]


class ClusterWatch:
    """The watches of all kinds, which begin with the first look and last until `end`.

    So a replica that does not lead watches nothing.
    """

    def __init__(self, client: WatchClient) -> None:
        self._stop = client.stop
        self._lock = Lock()
        self._stores: dict[Access, Store[Any]] = {}
        self._watches: list[KindWatch[Any]] = []
        self._has_begun = False
        shares = NamespaceShares()
        for kind_from in (pods_kind, *map(_always, KINDS)):
            access = kind_from(()).access
            store = self._stores[access] = Store[Any](access.resource, self._lock)
            self._watches.append(KindWatch(client, kind_from, store, shares))

    def look(self, wait: Callable[[float], bool]) -> WatchedObjects:
        """The present objects; waits for those that are being read.

        Raises:
            ObservationError: some kind is not known, or desched is stopping.
        """
        if not self._has_begun:
            self._has_begun = True
            for watch in self._watches:
                watch.start()
        self._wait_for_all(wait)
        with self._lock:
            now = monotonic()
            # A kind with a problem first: others may only be late.
            for store in sorted(self._stores.values(), key=lambda it: not it.problem(now)):
                store.require(now)
            values = {access: store.values for access, store in self._stores.items()}
            too_large = [item for store in self._stores.values() for item in store.too_large]
            return WatchedObjects(values, too_large)

    def end(self) -> None:
        """End all watches, and wait a moment for their threads."""
        self._stop.set()
        if not self._has_begun:
            return
        for watch in self._watches:
            watch.interrupt()
        deadline = Deadline(_STOPPING_SECONDS)
        for watch in self._watches:
            watch.join(max(0.0, deadline.left_seconds))

    def _wait_for_all(self, wait: Callable[[float], bool]) -> None:
        stores = self._stores.values()
        first, repair = Deadline(FIRST_LIST_SECONDS), Deadline(REPAIR_SECONDS)
        while not all(store.is_watched(monotonic()) for store in stores):
            deadline = repair if any(store.problem(monotonic()) for store in stores) else first
            if deadline.left_seconds <= 0 or not all(s.is_worth_a_wait for s in stores):
                return
            if wait(_POLL_SECONDS):
                raise ObservationError(
                    ObservationSource.CLUSTER,
                    "Reading the cluster was given up: desched is stopping.",
                )


def _always(kind: Kind[Any, V]) -> KindFrom[V]:
    """The same kind, whatever values are there: its builder remembers nothing."""

    def kind_from(_: Iterable[V]) -> Kind[Any, V]:
        return kind

    return kind_from
