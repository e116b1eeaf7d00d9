"""Reads the state of a cluster in pages, never one request per pod or node."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TypeVar

import msgspec

from desched.adapters.kubernetes import access, nodes, objects, wire
from desched.adapters.kubernetes.access import Access
from desched.adapters.kubernetes.autoscalers import (
    Scaling,
    Target,
    scaling_by_target,
    scaling_of_target,
)
from desched.adapters.kubernetes.connection import DEADLINE_SECONDS, Answer, KubernetesConnection
from desched.adapters.kubernetes.decode import Decoder
from desched.adapters.kubernetes.pods import PodBuilder
from desched.adapters.kubernetes.workloads import (
    Controllers,
    owners_by_controller,
    selectors_by_controller,
    workloads_by_controller,
)
from desched.errors import ObservationError, ObservationSource
from desched.model.cluster import ClusterState, Pod, PodRef

PAGE_SIZE = 500
CLUSTER_DEADLINE_SECONDS = 240.0
"""For all lists together; a cycle should be over before the next one is due."""

_OK = 200
_NOT_FOUND = 404
_GONE = 410

W = TypeVar("W")
V = TypeVar("V")


class KubernetesReader:
    """The ClusterReader for a real API server.

    `deadline_seconds` is for each request with its retries.
    """

    def __init__(
        self,
        connection: KubernetesConnection,
        *,
        page_size: int = PAGE_SIZE,
        deadline_seconds: float = DEADLINE_SECONDS,
        cluster_deadline_seconds: float = CLUSTER_DEADLINE_SECONDS,
    ) -> None:
        self._connection = connection
        self._page_size = page_size
        self._deadline_seconds = deadline_seconds
        self._cluster_deadline_seconds = cluster_deadline_seconds

    def read_cluster(self) -> ClusterState:
        """All that deciding needs, a few lists of consistent reads.

        Budgets and controllers are read after the pods, so that what protects pods is the newest.

        Raises:
            ObservationError: something could not be read in time.
        """
        read = _Lists(self._connection, self._page_size, self._deadline_seconds, self._until())
        seen_nodes = read(access.LIST_NODES, wire.Node, nodes.node)
        seen_pods = read(access.LIST_PODS, wire.Pod, PodBuilder().pod)
        controllers = _controllers(read)
        return ClusterState(
            nodes=tuple(seen_nodes),
            pods=tuple(seen_pods),
            workloads=workloads_by_controller(controllers, _scaling(read)),
            controller_selectors=selectors_by_controller(controllers),
            controller_owners=owners_by_controller(controllers),
            budgets=tuple(read(access.LIST_BUDGETS, wire.PodDisruptionBudget, objects.budget)),
            priority_classes={
                item.metadata.name: item.value
                for item in read(access.LIST_PRIORITY_CLASSES, wire.PriorityClass, _same)
            },
            namespaces={
                item.metadata.name: item.metadata.labels or {}
                for item in read(access.LIST_NAMESPACES, wire.Namespace, _same)
            },
            claims={
                (each.namespace, each.name): each
                for each in read(access.LIST_CLAIMS, wire.PersistentVolumeClaim, objects.claim)
            },
            volumes={
                each.name: each
                for each in read(access.LIST_VOLUMES, wire.PersistentVolume, objects.volume)
            },
            storage_classes={
                each.name: each
                for each in read(
                    access.LIST_STORAGE_CLASSES,
                    wire.StorageClass,
                    objects.storage_class,
                    may_be_absent=True,
                )
            },
            csi_nodes={
                each.name: each
                for each in read(
                    access.LIST_CSI_NODES, wire.CSINode, objects.csi_node, may_be_absent=True
                )
            },
            services=tuple(read(access.LIST_SERVICES, wire.Service, objects.service)),
            server_version=self._server_version(),
        )

    def read_pod(self, ref: PodRef) -> Pod | None:
        """The pod of this namespace and name as it is now, None if there is none.

        Raises:
            ObservationError: it could not be read in time.
        """
        answer = self._connection.get(
            access.GET_POD.path(ref.namespace, ref.name), deadline_seconds=self._deadline_seconds
        )
        if answer.status == _NOT_FOUND:
            return None
        _require_ok(answer, access.GET_POD)
        return Decoder(wire.Pod, PodBuilder().pod).one(answer.body)

    def _until(self) -> float:
        return monotonic() + self._cluster_deadline_seconds

    def _server_version(self) -> str:
        """The version as text, empty if it is not told: only forecasts profit from it."""
        answer = self._connection.get("/version", deadline_seconds=self._deadline_seconds)
        if answer.status != _OK:
            return ""
        return Decoder(wire.Version, lambda version: version.git_version).one(answer.body)


class _Lists:
    """Reads whole lists, page by page, until a deadline in monotonic seconds for all of them."""

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

    def __call__(
        self, what: Access, kind: type[W], build: Callable[[W], V], *, may_be_absent: bool = False
    ) -> list[V]:
        """All objects of a kind; none if the server lacks the kind and may do so."""
        decoder = Decoder(kind, build)
        values = self._pages(what, decoder, may_be_absent=may_be_absent)
        if values is None:  # the list changed too much while it was read: once more, from the start
            values = self._pages(what, decoder, may_be_absent=may_be_absent)
        if values is None:
            raise ObservationError(
                ObservationSource.CLUSTER,
                f"The list of {what.resource} expired twice while it was being read; the API "
                "server is slow or compacts its history very often.",
            )
        return values

    def _pages(
        self, what: Access, decoder: Decoder[W, V], *, may_be_absent: bool
    ) -> list[V] | None:
        """All pages, None if the continue token expired on the way."""
        values: list[V] = []
        token = ""
        while True:
            answer = self._page(what, token)
            if answer.status == _NOT_FOUND and may_be_absent:
                return []
            if answer.status == _GONE and token:
                return None
            _require_ok(answer, what)
            page = decoder.page(answer.body)
            values += page.values
            token = page.continue_token
            if not token:
                return values

    def _page(self, what: Access, token: str) -> Answer:
        left_seconds = self._until - monotonic()
        if left_seconds <= 0:
            raise ObservationError(
                ObservationSource.CLUSTER,
                f"Reading the cluster took too long and was given up at the list of "
                f"{what.resource}; see whether the API server is overloaded.",
            )
        query = {"limit": str(self._page_size)} | ({"continue": token} if token else {})
        deadline_seconds = min(self._deadline_seconds, left_seconds)
        return self._connection.get(what.path(), query, deadline_seconds=deadline_seconds)


def _controllers(read: _Lists) -> Controllers:
    return Controllers(
        read(access.LIST_DEPLOYMENTS, wire.Deployment, _same),
        read(access.LIST_REPLICA_SETS, wire.ReplicaSet, _same),
        read(access.LIST_STATEFUL_SETS, wire.StatefulSet, _same),
        read(access.LIST_JOBS, wire.Job, _same),
    )


def _scaling(read: _Lists) -> Mapping[Target, Scaling]:
    return scaling_by_target(
        read(
            access.LIST_AUTOSCALERS,
            wire.HorizontalPodAutoscaler,
            scaling_of_target,
            may_be_absent=True,
        )
    )


def _require_ok(answer: Answer, what: Access) -> None:
    if answer.status == _OK:
        return
    match answer.status:
        case 401:
            why = "the credentials are not accepted (401); renew them"
        case 403:
            why = f"the account may not {what} (403); grant it, as the ClusterRole in deploy/ does"
        case 404:
            why = "the server does not have that kind (404); it is too old or not an API server"
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
        return msgspec.json.decode(body, type=wire.Status).message or "no message"
    except msgspec.DecodeError:
        return "an answer that no API server gives"


def _same(item: W) -> W:
    return item
