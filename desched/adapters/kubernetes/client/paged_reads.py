"""Reads objects from the API server within one deadline: lists page by page, or one by name."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Generic, NamedTuple, TypeVar

import structlog

from desched.adapters.bounded_http import Deadline
from desched.adapters.kubernetes.client.access import LIST_PRIORITY_CLASSES, owners_access
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.api_types.status import (
    APIGroup,
    APIGroupList,
    APIResourceList,
)
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.api_objects.access import Access
from desched.api_objects.decoding import Decoder
from desched.api_objects.kinds import JSON, Kind
from desched.api_objects.memory_bounds import (
    NamespaceShares,
    TooLarge,
)
from desched.errors import AnswerTooLarge, ObservationError, ObservationSource

W = TypeVar("W")
V = TypeVar("V")

_log = structlog.get_logger(__name__)


class Listing(NamedTuple, Generic[V]):
    """All values of a kind at one version; the version is "" if the server lacks the kind.

    `may_be_read` is false if the account may not read an optional kind.
    """

    values: Sequence[V]
    version: str
    may_be_read: bool = True


GROUPS_OF_EVERY_SERVER = frozenset({LIST_PRIORITY_CLASSES.group})
"""API groups that are there, whether or not a further kind of them is."""


class UnreadKinds:
    """Logs why an optional kind is not read: once for each reason."""

    def __init__(self) -> None:
        self._logged: set[tuple[Access, int]] = set()

    def add(
        self, what: Access, status: int, served: Callable[[], frozenset[str] | None] = lambda: None
    ) -> None:
        """Note an answer with this status to a request for the kind.

        `served` gives the versions of its group that the server has, None if that is not known.
        """
        if not self._is_new(what, status):
            return
        versions = served()
        if versions is not None and what.version not in versions:
            self.add_unserved(what, versions)
        elif status == HTTPStatus.FORBIDDEN:
            _log.warning("right.not_granted", right=str(what), meaning=what.without)
        else:
            # Most clusters lack it, and one without VerticalPodAutoscalers lacks nothing.
            _log.debug("kind.not_served", resource=what.resource, group=what.group)

    def add_unserved(self, what: Access, served: Collection[str]) -> None:
        """Note that the server has only these versions of the kind's group, perhaps none."""
        is_there = bool(served) and what.group not in GROUPS_OF_EVERY_SERVER
        if self._is_new(what, is_there):
            log = _log.info if is_there else _log.debug  # most clusters lack most systems
            log("kind.not_served", resource=what.resource, group=what.group, version=what.version)

    def _is_new(self, what: Access, reason: int) -> bool:
        is_known = (what, reason) in self._logged
        self._logged.add((what, reason))
        return not is_known


_NOT_READ = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


@dataclass
class Reading:
    """Reads that belong together, with one deadline for all of them.

    `request_seconds` is for each request with its retries. `dates` are the server's clock at each
    answer that has it. `unread` takes the optional kinds that are not read, `too_large` the objects
    that are not kept. Each read raises ObservationError unless it is complete in time.
    """

    connection: KubernetesConnection
    page_size: int
    request_seconds: float
    deadline: Deadline
    dates: list[datetime] = field(default_factory=list)
    unread: UnreadKinds = field(default_factory=UnreadKinds)
    too_large: list[TooLarge] = field(default_factory=list)
    shares: NamespaceShares = field(default_factory=NamespaceShares)
    _groups: Sequence[APIGroup] | None = field(default=None, init=False)

    def one(self, kind: Kind[W, V], name: str, namespace: str = "") -> V | None:
        """The object of this name as it is now, None if there is none."""
        answer = self._get(kind.access, kind.access.path(namespace, name), {})
        if answer.is_from_server(HTTPStatus.NOT_FOUND):
            return None
        _require_ok(answer, kind.access)
        return self._first([kind.decoder_within(self.shares).one(answer.body)])

    def answer(self, what: Access, name: str, namespace: str) -> Answer:
        """The answer to a request for one object, whatever it is."""
        return self._get(what, what.path(namespace, name), {})

    def named(self, kind: Kind[W, V], name: str, namespace: str = "") -> V | None:
        """The object of this name, None if there is none; for kinds that may only be listed."""
        selector = {"fieldSelector": f"metadata.name={name}"}
        answer = self._get(kind.access, kind.access.path(namespace), selector)
        _require_ok(answer, kind.access)
        return self._first(kind.decoder_within(self.shares).page(answer.body).values)

    def by_name(self, kind: Kind[W, V], name: str, namespace: str = "") -> V | None:
        """The same for kinds that the server may lack."""
        selector = {"fieldSelector": f"metadata.name={name}"}
        return next(iter(self.listing(kind, namespace, selector).values), None)

    def all(self, kind: Kind[W, V], namespace: str = "", *, on_node: str = "") -> tuple[V, ...]:
        """All objects of a kind, of one namespace if it is given, or the pods on a node."""
        selector = {"fieldSelector": f"spec.nodeName={on_node}"} if on_node else {}
        return tuple(self.listing(kind, namespace, selector).values)

    def listing(
        self, kind: Kind[W, V], namespace: str = "", selector: Mapping[str, str] | None = None
    ) -> Listing[V]:
        """All objects of a kind, of which a selector may choose some, and their common version."""
        if kind.is_discovered:
            served = self.served_versions(kind.access)
            if served is not None and kind.access.version not in served:
                self.unread.add_unserved(kind.access, served)
                return Listing((), "")
        for _ in range(2):  # a list that changed too much meanwhile: once more, from the start
            pages = self._pages(kind, kind.access.path(namespace), selector or {})
            if pages is not None:
                return pages
        raise ObservationError(
            ObservationSource.CLUSTER,
            f"The list of {kind.access.resource} expired twice while it was being read; the API "
            "server is slow or compacts its history very often.",
        )

    def _pages(self, kind: Kind[W, V], path: str, selector: Mapping[str, str]) -> Listing[V] | None:
        """All pages, None if the continue token expired on the way."""
        decoder = kind.decoder_within(self.shares)
        values: list[V] = []
        token = ""
        limit = self.page_size
        while True:
            query = {**selector, "limit": str(limit)} | ({"continue": token} if token else {})
            try:
                answer = self._get(kind.access, path, query, kind.accept)
            except AnswerTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // 4)  # the largest objects may be next to each other
                continue
            limit = min(self.page_size, 2 * limit)
            if kind.is_optional and answer.status in _NOT_READ:
                served = partial(self.served_versions, kind.access)
                self.unread.add(kind.access, answer.status, served)
                return Listing((), "", answer.status != HTTPStatus.FORBIDDEN)
            if (
                answer.status == HTTPStatus.NOT_FOUND
                and kind.may_be_absent
                and self._lacks_group(kind.access)
            ):
                return Listing((), "")
            if answer.status == HTTPStatus.GONE and token:
                return None
            _require_ok(answer, kind.access)
            page = decoder.page(answer.body)
            values += self._kept(page.values)
            token = page.token
            if not token:
                return Listing(values, page.version)

    def _first(self, items: Sequence[V | TooLarge]) -> V | None:
        return next(iter(self._kept(items)), None)

    def _kept(self, items: Sequence[V | TooLarge]) -> Sequence[V]:
        """Those that are kept."""
        self.too_large += (item for item in items if isinstance(item, TooLarge))
        return [item for item in items if not isinstance(item, TooLarge)]

    def _lacks_group(self, what: Access) -> bool:
        """Whether the server's own list of its API groups lacks the group of the kind.

        A 404 is not enough: it may come from a proxy. A group that is listed without the version
        may have its objects in another version.
        """
        groups = self._served_groups(what)
        return groups is not None and what.group not in {group.name for group in groups}

    def served_versions(self, what: Access) -> frozenset[str] | None:
        """The versions of the kind's group, none if the server lacks it; None if not known."""
        try:
            groups = self._groups = self._groups or self._served_groups(what)
        except ObservationError:  # an answer to the list itself then decides
            groups = None
        return None if groups is None else frozenset(_versions(groups, what.group))

    def resource_of(self, kind: str) -> tuple[Access, bool] | None:
        """The right to list a kind as in policies, and whether it is in namespaces; None if absent.

        Of several versions the first one counts: the API server names the preferred one first.
        """
        group, _, name = kind.rpartition("/")
        seek = owners_access(group, name, "v1")
        if group and self._groups is None:
            self._groups = self._served_groups(seek)
            if self._groups is None:
                raise ObservationError(
                    ObservationSource.CLUSTER, "The API groups of the server could not be read."
                )
        for version in _versions(self._groups or (), group) if group else ["v1"]:
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            answer = self._get(seek, path, {})
            _require_ok(answer, seek)
            for resource in Decoder(APIResourceList, lambda listed: listed.resources).one(
                answer.body
            ):
                if resource.kind == name and "/" not in resource.name:
                    return owners_access(group, resource.name, version), resource.namespaced
        return None

    def _served_groups(self, what: Access) -> Sequence[APIGroup] | None:
        answer = self._get(what, "/apis", {})
        if answer.status != HTTPStatus.OK:
            return None
        return Decoder(APIGroupList, lambda listed: listed.groups).one(answer.body)

    def _get(self, what: Access, path: str, query: dict[str, str], accept: str = JSON) -> Answer:
        left_seconds = self.deadline.left_seconds
        if left_seconds <= 0:
            raise ObservationError(
                ObservationSource.CLUSTER,
                f"Reading the cluster took too long and was given up at `{what}`; check whether "
                "the API server is overloaded.",
            )
        deadline_seconds = min(self.request_seconds, left_seconds)
        answer = self.connection.get(path, query, accept=accept, deadline_seconds=deadline_seconds)
        if answer.date is not None:
            self.dates.append(answer.date)
        return answer


def _versions(groups: Sequence[APIGroup], of: str) -> Iterator[str]:
    """The versions of a group, in the order of the API server."""
    for group in groups:
        if group.name == of:
            yield from (version.version for version in group.versions or ())


def _require_ok(answer: Answer, what: Access) -> None:
    if answer.status != HTTPStatus.OK:
        raise ObservationError(
            ObservationSource.CLUSTER,
            f"The {what.resource} could not be read: {why_refused(answer, what)}.",
        )


def why_refused(answer: Answer, what: Access, namespace: str = "") -> str:
    """Why a request was not carried out, and what to do about it; without a period."""
    match answer.status:
        case HTTPStatus.UNAUTHORIZED:
            return "the credentials are not accepted (401); renew them"
        case HTTPStatus.FORBIDDEN:
            where = f" in namespace {namespace}" if namespace else ""
            role = "Role" if namespace else "ClusterRole"
            return (
                f"the account may not {what}{where} (403); grant it, as the {role} in deploy/ does"
            )
        case HTTPStatus.NOT_FOUND:
            return (
                "the server does not have that kind (404); it is too old or not an API server, or "
                "a proxy answered"
            )
        case HTTPStatus.TOO_MANY_REQUESTS:
            return "the server is throttling (429) and Retry-After is longer than the time left"
        case _:
            return f"status {answer.status}: {answer.explanation}"
