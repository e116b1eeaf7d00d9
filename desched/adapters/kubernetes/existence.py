"""Whether there is a namespace or a workload of a name, for the person who typed the name."""

from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from desched.adapters.kubernetes.client.access import LIST_NAMESPACES
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.api_objects.decoding import UNDECODABLE
from desched.errors import ObservationError

DEADLINE_SECONDS = 10.0

_WORKLOADS = (
    ("apis/apps/v1", "deployments"),
    ("apis/apps/v1", "statefulsets"),
    ("apis/apps/v1", "replicasets"),
    ("apis/batch/v1", "jobs"),
)


class _Namespaces(msgspec.Struct):
    items: list[msgspec.Raw]


_DECODER = msgspec.json.Decoder(_Namespaces)


def is_absent_namespace(kubernetes: KubernetesConnection, name: str) -> bool:
    """Whether the API server knows no such namespace; false if it does not say so."""
    selector = {"fieldSelector": f"metadata.name={name}"}  # desched may list, but not get them
    try:
        answer = kubernetes.get(LIST_NAMESPACES.path(), selector, deadline_seconds=DEADLINE_SECONDS)
        return answer.is_done and not _DECODER.decode(answer.body).items
    except (ObservationError, *UNDECODABLE):
        return False  # what follows finds out what is wrong


def is_absent_workload(kubernetes: KubernetesConnection, namespace: str, name: str) -> bool:
    """Whether there is no Deployment, StatefulSet, ReplicaSet or Job of this name, for certain."""
    paths = (f"/{group}/namespaces/{namespace}/{kind}/{name}" for group, kind in _WORKLOADS)
    return _are_absent(kubernetes, paths)


def _are_absent(kubernetes: KubernetesConnection, paths: Iterable[str]) -> bool:
    """Whether all of these are."""
    try:
        return all(
            kubernetes.get(path, deadline_seconds=DEADLINE_SECONDS).is_from_server(
                HTTPStatus.NOT_FOUND
            )
            for path in paths
        )
    except ObservationError:
        return False
