"""What the API server reports about a request and about itself."""

from typing import Literal

from desched.api_objects.metadata import Wire


class Cause(Wire):
    reason: str | None = None
    message: str | None = None


class StatusDetails(Wire):
    causes: list[Cause] | None = None


class Status(Wire):
    """The API server's account of a request that it refused or carried out."""

    kind: str
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    details: StatusDetails | None = None


class Version(Wire):
    git_version: str


class APIVersion(Wire):
    version: str


class APIGroup(Wire):
    name: str
    versions: list[APIVersion] | None = None


class APIResource(Wire):
    name: str
    kind: str
    namespaced: bool


class APIResourceList(Wire):
    """What the API server has in one version of a group."""

    kind: Literal["APIResourceList"]
    resources: list[APIResource]


class APIGroupList(Wire):
    """What the API server has beside the core group."""

    kind: Literal["APIGroupList"]
    groups: list[APIGroup]
