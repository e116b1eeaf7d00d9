"""Whether desched's account has a right, by the API server's own judgement."""

import msgspec

from desched.adapters.kubernetes.client.access import CREATE_ACCESS_REVIEW, Access
from desched.adapters.kubernetes.client.api_types.metadata import Wire
from desched.adapters.kubernetes.client.connection import DEADLINE_SECONDS, KubernetesConnection
from desched.adapters.kubernetes.client.decoding import UNDECODABLE
from desched.errors import ObservationError


class _Status(Wire):
    allowed: bool


class _Review(Wire):
    status: _Status


def has_right(
    connection: KubernetesConnection, access: Access, deadline_seconds: float = DEADLINE_SECONDS
) -> bool:
    """Whether the account has this right in the whole cluster; false if that cannot be known."""
    attributes = {"verb": access.verb, "group": access.group, "resource": access.resource}
    body = {
        "apiVersion": f"{CREATE_ACCESS_REVIEW.group}/{CREATE_ACCESS_REVIEW.version}",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = CREATE_ACCESS_REVIEW.path()
    try:
        answer = connection.post(path, body, deadline_seconds=deadline_seconds)
        return msgspec.json.decode(answer.body, type=_Review).status.allowed
    except (ObservationError, *UNDECODABLE):
        return False
