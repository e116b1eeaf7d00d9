"""Reads objects of the API server, whole lists page by page or one by name, within one deadline."""

from collections.abc import Callable
from datetime import datetime
from time import monotonic
from typing import TypeVar

import msgspec

from desched.adapters.kubernetes.client import api_types
from desched.adapters.kubernetes.client.access import Access
from desched.adapters.kubernetes.client.connection import Answer, KubernetesConnection
from desched.adapters.kubernetes.client.decoding import UNDECODABLE, Decoder, status_of
from desched.errors import ObservationError, ObservationSource

_OK = 200
_NOT_FOUND = 404
_GONE = 410

W = TypeVar("W")
V = TypeVar("V")


class Reading:
    """Reads that belong together, until a deadline in monotonic seconds for all of them.

    `deadline_seconds` is for each request with its retries. `dates` are the server's clock at each
    answer that tells it.
    """

    def __init__(
        self,
        connection: KubernetesConnection,
        page_size: int,
        deadline_seconds: float,
        until: float,
    ) -> None:
        self._connection = connection
        self._page_size = page_size
        self._deadline_seconds = deadline_seconds
        self._until = until
        self.dates: list[datetime] = []

    def one(
        self, what: Access, kind: type[W], build: Callable[[W], V], name: str, namespace: str = ""
    ) -> V | None:
        """The object of this name as it is now, None if there is none.

        Raises:
            ObservationError: it could not be read in time.
        """
        answer = self._get(what, what.path(namespace, name), {})
        if answer.status == _NOT_FOUND and status_of(answer.body) is not None:
            return None
        _require_ok(answer, what)
        return Decoder(kind, build).one(answer.body)

    def named(
        self, what: Access, kind: type[W], build: Callable[[W], V], name: str, namespace: str = ""
    ) -> V | None:
        """The object of this name, None if there is none; for kinds that may only be listed.

        Raises:
            ObservationError: it could not be read in time.
        """
        selector = {"fieldSelector": f"metadata.name={name}"}
        answer = self._get(what, what.path(namespace), selector)
        _require_ok(answer, what)
        values = Decoder(kind, build).page(answer.body).values
        return values[0] if values else None

    def all(
        self,
        what: Access,
        kind: type[W],
        build: Callable[[W], V],
        namespace: str = "",
        *,
        may_be_absent: bool = False,
    ) -> list[V]:
        """All objects of a kind, of one namespace if it is given.

        None at all if the server lacks the API group of the kind and may do so.

        Raises:
            ObservationError: they could not be read in time.
        """
        decoder = Decoder(kind, build)
        path = what.path(namespace)
        values = self._pages(what, path, decoder, may_be_absent=may_be_absent)
        if values is None:  # the list changed too much while it was read: once more, from the start
            values = self._pages(what, path, decoder, may_be_absent=may_be_absent)
        if values is None:
            raise ObservationError(
                ObservationSource.CLUSTER,
                f"The list of {what.resource} expired twice while it was being read; the API "
                "server is slow or compacts its history very often.",
            )
        return values

    def _pages(
        self, what: Access, path: str, decoder: Decoder[W, V], *, may_be_absent: bool
    ) -> list[V] | None:
        """All pages, None if the continue token expired on the way."""
        values: list[V] = []
        token = ""
        while True:
            query = {"limit": str(self._page_size)} | ({"continue": token} if token else {})
            answer = self._get(what, path, query)
            if answer.status == _NOT_FOUND and may_be_absent and self._lacks_group(what):
                return []
            if answer.status == _GONE and token:
                return None
            _require_ok(answer, what)
            page = decoder.page(answer.body)
            values += page.values
            token = page.continue_token
            if not token:
                return values

    def _lacks_group(self, what: Access) -> bool:
        """Whether the server's own list of its API groups lacks the group of the kind.

        The 404 alone does not tell: a proxy may have said it. And where the group is there without
        the version, its objects may be there too, in another version.
        """
        answer = self._get(what, "/apis", {})
        if answer.status != _OK:
            return False
        groups = Decoder(api_types.APIGroupList, lambda found: found.groups).one(answer.body)
        return what.group not in {group.name for group in groups}

    def _get(self, what: Access, path: str, query: dict[str, str]) -> Answer:
        left_seconds = self._until - monotonic()
        if left_seconds <= 0:
            raise ObservationError(
                ObservationSource.CLUSTER,
                f"Reading the cluster took too long and was given up at `{what}`; see whether the "
                "API server is overloaded.",
            )
        deadline_seconds = min(self._deadline_seconds, left_seconds)
        answer = self._connection.get(path, query, deadline_seconds=deadline_seconds)
        if answer.date is not None:
            self.dates.append(answer.date)
        return answer


def _require_ok(answer: Answer, what: Access) -> None:
    if answer.status == _OK:
        return
    match answer.status:
        case 401:
            why = "the credentials are not accepted (401); renew them"
        case 403:
            why = f"the account may not {what} (403); grant it, as the ClusterRole in deploy/ does"
        case 404:
            why = (
                "the server does not have that kind (404); it is too old or not an API server, or "
                "a proxy answered"
            )
        case 429:
            why = "the server is throttling (429) and asks for more time than there was"
        case _:
            why = f"status {answer.status}: {_message(answer.body)}"
    raise ObservationError(
        ObservationSource.CLUSTER, f"The {what.resource} could not be read: {why}."
    )


def _message(body: bytes) -> str:
    """What the server says about it, if it says so in its own form."""
    try:
        return msgspec.json.decode(body, type=api_types.Status).message or "no message"
    except UNDECODABLE:
        return "an answer that no API server gives"
