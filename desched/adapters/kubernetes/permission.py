"""Whether desched's account has a right, by the API server's own judgement."""

import msgspec

from desched.adapters.kubernetes.client.access import CREATE_ACCESS_REVIEW, CREATE_SELF_REVIEW
from desched.adapters.kubernetes.client.connection import DEADLINE_SECONDS, KubernetesConnection
from desched.api_objects.access import Access
from desched.api_objects.decoding import UNDECODABLE
from desched.api_objects.metadata import Wire
from desched.errors import ObservationError


class _Status(Wire):
    allowed: bool


class _Review(Wire):
    status: _Status


class _UserInfo(Wire):
    username: str


class _SelfStatus(Wire, rename="camel"):
    user_info: _UserInfo


class _SelfReview(Wire):
    status: _SelfStatus


_DECODER = msgspec.json.Decoder(_Review)
_SELF_DECODER = msgspec.json.Decoder(_SelfReview)


def account_name(
    connection: KubernetesConnection, deadline_seconds: float = DEADLINE_SECONDS
) -> str:
    """The name of the account to the API server; empty if that cannot be known."""
    version = f"{CREATE_SELF_REVIEW.group}/{CREATE_SELF_REVIEW.version}"
    body = {"apiVersion": version, "kind": "SelfSubjectReview"}
    path = CREATE_SELF_REVIEW.path()
    try:
        answer = connection.post(path, body, deadline_seconds=deadline_seconds)
        return _SELF_DECODER.decode(answer.body).status.user_info.username
    except (ObservationError, *UNDECODABLE):
        return ""


def has_right(
    connection: KubernetesConnection, access: Access, deadline_seconds: float = DEADLINE_SECONDS
) -> bool:
    """Whether the account has this right in the whole cluster; false if that cannot be known."""
    return reviewed(connection, access, deadline_seconds=deadline_seconds) is True


def reviewed(
    connection: KubernetesConnection,
    access: Access,
    namespace: str = "",
    name: str = "",
    *,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> bool | None:
    """Whether the account has this right, None if that cannot be known.

    Without a namespace in the whole cluster; `name` is the one object that it is about.
    """
    kind, _, subresource = access.resource.partition("/")
    attributes = {
        "verb": access.verb,
        "group": access.group,
        "resource": kind,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    body = {
        "apiVersion": f"{CREATE_ACCESS_REVIEW.group}/{CREATE_ACCESS_REVIEW.version}",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {k: v for k, v in attributes.items() if v or k == "group"}},
    }
    path = CREATE_ACCESS_REVIEW.path()
    try:
        answer = connection.post(path, body, deadline_seconds=deadline_seconds)
        return _DECODER.decode(answer.body).status.allowed
    except (ObservationError, *UNDECODABLE):
        return None
