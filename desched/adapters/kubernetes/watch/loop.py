"""Keeps the store of one kind up to date: lists, then watches, again and again."""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from threading import Event, Thread
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

import structlog

from desched.adapters.bounded_http import RETRIED_STATUSES, Deadline
from desched.adapters.kubernetes.client.connection import DEADLINE_SECONDS, KubernetesConnection
from desched.adapters.kubernetes.client.paged_reads import Reading, UnreadKinds, why_refused
from desched.adapters.kubernetes.client.stream import LineStream, StreamSilent, broken
from desched.adapters.kubernetes.watch.events import (
    Change,
    Key,
    WatchLost,
    change_of,
    key_of,
    version_number,
)
from desched.adapters.kubernetes.watch.store import SHORTEST_WATCH_SECONDS, Store
from desched.api_objects.access import Access
from desched.api_objects.decoding import Decoder
from desched.api_objects.kinds import Kind
from desched.api_objects.memory_bounds import NamespaceShares, TooLarge
from desched.errors import ObservationError, ObservationSource

V = TypeVar("V")

KindFrom = Callable[[Iterable[V]], Kind[Any, V]]
"""The kind, with a builder that goes on with these values."""

PAGE_SIZE = 500
LIST_SECONDS = 240.0
"""For all pages of a list together."""

WATCH_SECONDS = 300
"""The API server ends a watch after once to twice this time, so that its load spreads."""

SILENCE_SECONDS = 130.0
"""After this time without a line, the kind is listed again.

Bookmarks arrive every minute, the first one after two. Something between may hold them back. A
server older than 1.31 has none of a kind that does not change, unless etcd tells of its progress.
"""

SHORTEST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_OF_LISTS_SECONDS = 20.0
"""Each failure in a row doubles the pause."""

STEADY_SECONDS = 10.0
"""A watch that lasts as long ends a row of failures."""

ABSENT_SECONDS = 60.0
"""The pause before the next look for a kind that the API server lacks."""

DISCOVERY_SECONDS = 3600.0
"""The same for the systems that most clusters lack."""

MOST_BUILT = 10_000
"""After as many new objects, and two more for each in the store, the builder is replaced."""

MOST_REMEMBERED_BYTES = 48 * 2**20
"""The builder is replaced, too, when it remembers as much more than right after a list."""

_log = structlog.get_logger(__name__)


class _RefusedError(ObservationError):
    """The API server does not have the kind any more, or does not let this account watch it."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(ObservationSource.CLUSTER, reason)
        self.status = status


class WatchClient(NamedTuple):
    """What all watches have in common.

    `connection` waits on `stop`, which ends them. `random` returns numbers from 0 to 1, which
    spread requests over time. `request_seconds` is for each request of a list with its retries. The
    first lists begin within `spread_seconds`.
    """

    connection: KubernetesConnection
    stop: Event
    random: Callable[[], float]
    request_seconds: float = DEADLINE_SECONDS
    spread_seconds: float = 0.0


class KindWatch(Generic[V]):
    """The list and the watch of one kind, in a thread of its own."""

    def __init__(
        self,
        client: WatchClient,
        kind_from: KindFrom[V],
        store: Store[V],
        shares: NamespaceShares | None = None,
    ) -> None:
        self._client = client
        self._kind_from = kind_from
        self._store = store
        kind = kind_from(())
        self._access: Access = kind.access
        self._is_optional = kind.is_optional
        self._absent_seconds = DISCOVERY_SECONDS if kind.is_discovered else ABSENT_SECONDS
        self._unread = UnreadKinds()
        self._decoder: Decoder[Any, tuple[Key, V | TooLarge]] | None = None
        self._shares = shares or NamespaceShares()
        self._remembered_bytes: Callable[[], int] = lambda: 0
        self._built = 0
        self._remembered_of_list = 0
        self._failures = 0
        self._asked_seconds = 0.0
        self._stream: LineStream | None = None
        name = f"watch-{self._access.resource}"
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def interrupt(self) -> None:
        """End a watch that is under way."""
        stream = self._stream
        if stream is not None:
            stream.close()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended; if that takes longer, it ends with the process."""
        self._thread.join(seconds)

    def _run(self) -> None:
        self._client.stop.wait(self._client.spread_seconds * self._client.random())
        while not self._client.stop.is_set():
            try:
                pause_seconds = self.step()
            except Exception as error:  # noqa: BLE001  (the thread must live as long as the process)
                self._decoder = None
                bug = f"{type(error).__name__}: {error}; this is a bug in desched, please report it"
                pause_seconds = self._failed(
                    broken(bug), LONGEST_PAUSE_OF_LISTS_SECONDS, soon=False
                )
            self._client.stop.wait(pause_seconds)

    def step(self) -> float:
        """List if necessary, watch until the watch ends, and return the pause in seconds."""
        try:
            decoder = self._decoder or self._list()
        except ObservationError as error:
            return self._failed(error, LONGEST_PAUSE_OF_LISTS_SECONDS, soon=False)
        if decoder is None:
            return self._absent_seconds
        try:
            self._watch(decoder)
        except (WatchLost, StreamSilent) as error:
            self._decoder = None
            return self._failed(error, LONGEST_PAUSE_OF_LISTS_SECONDS, soon=True)
        except _RefusedError as error:
            return self._refused(error)
        except ObservationError as error:
            if self._store.age_seconds(monotonic()) > SILENCE_SECONDS:
                self._decoder = None  # a proxy may break it off each time before a bookmark arrives
            return self._failed(error, LONGEST_PAUSE_SECONDS, soon=True)
        return 0.0

    def _list(self) -> Decoder[Any, tuple[Key, V | TooLarge]] | None:
        """Put a list into the store; return None if the API server lacks the kind."""
        began = monotonic()
        client = self._client
        deadline = Deadline(LIST_SECONDS)
        read = Reading(client.connection, PAGE_SIZE, client.request_seconds, deadline)
        read.unread = self._unread
        self._shares.release_kind(self._access)
        kind = _keyed(self._kind_from(()), self._shares)
        listed = read.listing(kind)
        if not listed.version:
            # Absence counts until the next look, however long the store would trust a list.
            confirmed_at = began + self._absent_seconds - ABSENT_SECONDS
            self._store.replace(dict(listed.values), 0, confirmed_at)
            self._store.begin(monotonic())
            return None
        self._store.replace(dict(listed.values), version_number(listed.version), began)
        self._go_on_with(kind)
        self._remembered_of_list = self._remembered_bytes()
        return self._decoder

    def _go_on_with(self, kind: Kind[Any, tuple[Key, V | TooLarge]]) -> None:
        self._decoder = kind.decoder()
        self._remembered_bytes = kind.remembered_bytes
        self._built = 0

    def _watch(self, decoder: Decoder[Any, tuple[Key, V | TooLarge]]) -> None:
        began = monotonic()
        stream = self._open()
        self._stream = stream
        try:
            if self._client.stop.is_set():  # and so nobody may have seen the stream
                return
            self._store.begin(monotonic())
            for line in stream:
                change = change_of(line, decoder)
                self._store.apply(change, monotonic())
                if change.key is not None and change.value is None:
                    self._shares.release((self._access, *change.key))
                decoder = self._renewed(decoder, change)
        finally:
            self._stream = None
            stream.release()
            lasted_seconds = monotonic() - began
            if lasted_seconds >= STEADY_SECONDS:
                self._failures = 0
        if lasted_seconds < SHORTEST_WATCH_SECONDS:  # it would be asked again and again
            raise broken("the API server ended the watch at once")

    def _open(self) -> LineStream:
        seconds = WATCH_SECONDS * (1 + self._client.random())
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self._store.version),
            "timeoutSeconds": str(round(seconds)),
        }
        answer = self._client.connection.stream(
            self._access.path(),
            query,
            silence_seconds=SILENCE_SECONDS,
            deadline_seconds=self._client.request_seconds,
        )
        if isinstance(answer, LineStream):
            return answer
        if answer.status == HTTPStatus.GONE:
            raise WatchLost("the API server no longer has the changes since the last event (410)")
        reason = (
            f"the watch was refused: {why_refused(answer, self._access._replace(verb='watch'))}"
        )
        if answer.status not in RETRIED_STATUSES:
            raise _RefusedError(reason, answer.status)
        self._asked_seconds = answer.retry_after_seconds or 0.0
        raise broken(reason)

    def _renewed(
        self, decoder: Decoder[Any, tuple[Key, V | TooLarge]], change: Change[V | TooLarge]
    ) -> Decoder[Any, tuple[Key, V | TooLarge]]:
        """The decoder after a change; a new one if it may remember too much of the past."""
        self._built += change.value is not None
        most_bytes = self._remembered_of_list + MOST_REMEMBERED_BYTES
        is_small = self._remembered_bytes() <= most_bytes
        if is_small and self._built <= MOST_BUILT + 2 * len(self._store):
            return decoder
        self._go_on_with(_keyed(self._kind_from(self._store.values), self._shares))
        return self._decoder or decoder

    def _refused(self, error: _RefusedError) -> float:
        """Go on without an optional kind; return the pause before the next attempt."""
        if not self._is_optional:
            return self._failed(error, LONGEST_PAUSE_SECONDS, soon=False)
        self._unread.add(self._access._replace(verb="watch"), error.status)
        self._decoder = None
        self._store.replace({}, 0, monotonic())
        self._store.begin(monotonic())
        return ABSENT_SECONDS

    def _failed(
        self, error: ObservationError, longest_pause_seconds: float, *, soon: bool
    ) -> float:
        """Note why the kind is not watched, and return the pause before the next attempt.

        `soon`: that attempt is likely to succeed.
        """
        if self._client.stop.is_set():
            return 0.0
        reason = str(error)
        self._store.lose(reason, is_worth_a_wait=soon)
        pause_seconds = min(longest_pause_seconds, SHORTEST_PAUSE_SECONDS * 2.0**self._failures)
        self._failures = min(self._failures + 1, 10)
        pause_seconds = max(self._asked_seconds, pause_seconds * (0.5 + self._client.random() / 2))
        self._asked_seconds = 0.0
        log = _log.debug if isinstance(error, StreamSilent) else _log.info  # it may just be quiet
        log(
            "watch.interrupted",
            resource=self._access.resource,
            why=reason,
            pause_seconds=round(pause_seconds, 1),
        )
        return pause_seconds


def _keyed(kind: Kind[Any, V], shares: NamespaceShares) -> Kind[Any, tuple[Key, V | TooLarge]]:
    build = kind.builder_within(shares)
    return Kind(
        kind.access,
        kind.wire,
        lambda item: (key_of(item.metadata), build(item)),
        kind.may_be_absent,
        kind.accept,
        kind.is_optional,
        kind.is_discovered,
        remembered_bytes=kind.remembered_bytes,
    )
