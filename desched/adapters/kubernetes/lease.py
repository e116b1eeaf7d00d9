"""The Lease object of leader election, through bounded requests.

Why not the library's LeaseLock: docs/decisions/0004-lease-through-our-own-connection.md.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Literal

import msgspec

from desched.adapters.kubernetes.client.access import CREATE_LEASE, GET_LEASE
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.api_objects.decoding import UNDECODABLE
from desched.api_objects.metadata import VersionedMetadata, Wire
from desched.errors import LeaseError, LeaseRefused, ObservationError
from desched.ports import LeaseRecord

DEADLINE_SECONDS = 2.5
"""For one request with all its retries."""


class _Spec(Wire):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None


class _Lease(Wire):
    kind: Literal["Lease"]
    metadata: VersionedMetadata
    spec: _Spec | None = None


_DECODER = msgspec.json.Decoder(_Lease)


@dataclass
class KubernetesLease:
    """The Lease port on an object of coordination.k8s.io.

    It has its own connection, which works while desched is stopping: the lease is kept until the
    last write has ended, and then released.
    """

    connection: KubernetesConnection
    namespace: str
    name: str = "desched"
    _: KW_ONLY
    deadline_seconds: float = DEADLINE_SECONDS

    def read(self) -> LeaseRecord | None:
        """The record as it is now, None if there is no such Lease."""
        return self._answered(
            "read", partial(self.connection.get, self._path), HTTPStatus.NOT_FOUND
        )

    def create(self, record: LeaseRecord) -> LeaseRecord | None:
        """Create the Lease and return it as stored; None if another was first."""
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "spec": _spec(record),
        }
        post = partial(self.connection.post, CREATE_LEASE.path(self.namespace), body)
        return self._answered("created", post, HTTPStatus.CONFLICT)

    def replace(self, record: LeaseRecord) -> LeaseRecord | None:
        """Change the Lease, provided that it still has the record's version.

        Other fields, such as labels, stay. Returns None, with nothing changed, if the Lease has
        another version or is gone.
        """
        if not record.version:
            raise ValueError("a record without a version would replace any stored one")
        body = {"metadata": {"resourceVersion": record.version}, "spec": _spec(record)}
        patch = partial(self.connection.patch, self._path, body)
        return self._answered("changed", patch, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)

    @property
    def _path(self) -> str:
        return GET_LEASE.path(self.namespace, self.name)

    def _answered(
        self, done: str, request: Callable[..., Answer], *not_there: HTTPStatus
    ) -> LeaseRecord | None:
        """The record in the answer; None if the server answers with one of these statuses."""
        lease = f"The Lease {self.namespace}/{self.name}"
        try:
            answer = request(deadline_seconds=self.deadline_seconds)
            if any(map(answer.is_from_server, not_there)):
                return None
            if answer.is_done:
                return _record(_DECODER.decode(answer.body))
        except (ObservationError, *UNDECODABLE) as error:
            raise LeaseError(f"{lease} could not be {done}: {error}") from error
        refused = answer.is_from_server(HTTPStatus.FORBIDDEN)
        raise (LeaseRefused if refused else LeaseError)(
            f"{lease} could not be {done}; the API server answered {answer.status}: "
            f"{answer.explanation}"
        )


def _record(lease: _Lease) -> LeaseRecord:
    spec = lease.spec or _Spec()
    return LeaseRecord(
        holder=spec.holder_identity or "",
        duration_seconds=spec.lease_duration_seconds or 0,
        transitions=spec.lease_transitions or 0,
        acquired_at=spec.acquire_time,
        renewed_at=spec.renew_time,
        version=lease.metadata.resource_version,
    )


def _spec(record: LeaseRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_seconds,
        "leaseTransitions": record.transitions,
        "acquireTime": _micro_time(record.acquired_at),
        "renewTime": _micro_time(record.renewed_at),
    }


def _micro_time(time: datetime | None) -> str | None:
    """As Kubernetes writes its MicroTime: always six digits, always UTC."""
    return None if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
