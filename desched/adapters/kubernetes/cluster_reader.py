"""Reads the state of a cluster in pages, never one request per pod or node."""

from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import TypeVar

from desched.adapters.kubernetes.client import access, api_types
from desched.adapters.kubernetes.client.connection import DEADLINE_SECONDS, KubernetesConnection
from desched.adapters.kubernetes.client.decoding import Decoder
from desched.adapters.kubernetes.client.paged_reads import Reading
from desched.adapters.kubernetes.fresh_look import look_around
from desched.adapters.kubernetes.objects import budgets, nodes, storage
from desched.adapters.kubernetes.objects.autoscalers import (
    Scaling,
    Target,
    scaling_by_target,
    scaling_of_target,
)
from desched.adapters.kubernetes.objects.pods import PodBuilder
from desched.adapters.kubernetes.objects.workloads import (
    Controllers,
    owners_by_controller,
    selectors_by_controller,
    workloads_by_controller,
)
from desched.errors import ObservationError, ObservationSource
from desched.model.cluster import ClusterState, PodRef
from desched.ports import FreshLook

PAGE_SIZE = 500
CLUSTER_DEADLINE_SECONDS = 240.0
"""For all lists together; a cycle should be over before the next one is due."""

_OK = 200

W = TypeVar("W")


class KubernetesReader:
    """The ClusterReader for a real API server.

    `own_pod` is where desched itself runs, None outside the cluster. `deadline_seconds` is for each
    request with its retries.
    """

    def __init__(
        self,
        connection: KubernetesConnection,
        *,
        own_pod: PodRef | None = None,
        page_size: int = PAGE_SIZE,
        deadline_seconds: float = DEADLINE_SECONDS,
        cluster_deadline_seconds: float = CLUSTER_DEADLINE_SECONDS,
    ) -> None:
        self._connection = connection
        self._own_pod = own_pod
        self._page_size = page_size
        self._deadline_seconds = deadline_seconds
        self._cluster_deadline_seconds = cluster_deadline_seconds

    def read_cluster(self) -> ClusterState:
        """All that deciding needs, a few lists of consistent reads.

        Budgets and controllers are read after the pods, so that what protects pods is the newest.

        Raises:
            ObservationError: something could not be read in time.
        """
        read = self._reading(self._cluster_deadline_seconds)
        seen_nodes = read.all(access.LIST_NODES, api_types.Node, nodes.node)
        seen_pods = read.all(access.LIST_PODS, api_types.Pod, PodBuilder().pod)
        controllers = _controllers(read)
        return ClusterState(
            nodes=tuple(seen_nodes),
            pods=tuple(seen_pods),
            workloads=workloads_by_controller(controllers, _scaling(read)),
            controller_selectors=selectors_by_controller(controllers),
            controller_owners=owners_by_controller(controllers),
            budgets=tuple(
                read.all(access.LIST_BUDGETS, api_types.PodDisruptionBudget, budgets.budget)
            ),
            priority_classes={
                item.metadata.name: item.value
                for item in read.all(access.LIST_PRIORITY_CLASSES, api_types.PriorityClass, _same)
            },
            namespaces={
                item.metadata.name: item.metadata.labels or {}
                for item in read.all(access.LIST_NAMESPACES, api_types.Namespace, _same)
            },
            claims={
                (each.namespace, each.name): each
                for each in read.all(
                    access.LIST_CLAIMS, api_types.PersistentVolumeClaim, storage.claim
                )
            },
            volumes={
                each.name: each
                for each in read.all(
                    access.LIST_VOLUMES, api_types.PersistentVolume, storage.volume
                )
            },
            storage_classes={
                each.name: each
                for each in read.all(
                    access.LIST_STORAGE_CLASSES,
                    api_types.StorageClass,
                    storage.storage_class,
                    may_be_absent=True,
                )
            },
            csi_nodes={
                each.name: each
                for each in read.all(
                    access.LIST_CSI_NODES,
                    api_types.CSINode,
                    storage.csi_node,
                    may_be_absent=True,
                )
            },
            services=tuple(read.all(access.LIST_SERVICES, api_types.Service, budgets.service)),
            server_version=self._server_version(),
            own_pod=self._own_pod,
            server_times=_server_times(read),
        )

    def read_around(self, ref: PodRef) -> FreshLook | None:
        """The pod of this namespace and name with its surroundings, None if there is none.

        Five or six requests, all within one deadline.

        Raises:
            ObservationError: something could not be read in time.
        """
        return look_around(self._reading(self._deadline_seconds), ref)

    def _reading(self, seconds: float) -> Reading:
        until = monotonic() + seconds
        return Reading(self._connection, self._page_size, self._deadline_seconds, until)

    def _server_version(self) -> str:
        """The version as text, empty if it is not told: only forecasts profit from it."""
        answer = self._connection.get("/version", deadline_seconds=self._deadline_seconds)
        if answer.status != _OK:
            return ""
        return Decoder(api_types.Version, lambda version: version.git_version).one(answer.body)


def _controllers(read: Reading) -> Controllers:
    return Controllers(
        read.all(access.LIST_DEPLOYMENTS, api_types.Deployment, _same),
        read.all(access.LIST_REPLICA_SETS, api_types.ReplicaSet, _same),
        read.all(access.LIST_STATEFUL_SETS, api_types.StatefulSet, _same),
        read.all(access.LIST_JOBS, api_types.Job, _same),
    )


def _scaling(read: Reading) -> Mapping[Target, Scaling]:
    return scaling_by_target(
        read.all(
            access.LIST_AUTOSCALERS,
            api_types.HorizontalPodAutoscaler,
            scaling_of_target,
            may_be_absent=True,
        )
    )


def _server_times(read: Reading) -> tuple[datetime, datetime]:
    if not read.dates:
        raise ObservationError(
            ObservationSource.CLUSTER,
            "No answer of the API server tells its time, so nobody knows how old anything is; let "
            "what is in between pass the header Date on.",
        )
    return min(read.dates), max(read.dates)


def _same(item: W) -> W:
    return item
