"""A right at the Kubernetes API, with the reason to grant it."""

from typing import NamedTuple
from urllib.parse import quote


class Access(NamedTuple):
    """One verb on one resource, for the person who reviews the Roles of `deploy/`.

    `reason` is what it is for, `without` what happens where it is not granted.
    """

    verb: str
    group: str
    resource: str
    reason: str
    without: str
    version: str = "v1"

    def path(self, namespace: str = "", name: str = "") -> str:
        """The URL path of the collection, or of one object with the subresource after its name."""
        kind, _, subresource = self.resource.partition("/")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        steps = ["namespaces", namespace, kind] if namespace else [kind]
        steps += [step for step in (name, subresource) if step]
        return "/".join([root, *(quote(step, safe="*") for step in steps)])

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" in group {self.group}" if self.group else "")


NO_CYCLE = "no cycle runs: the cluster cannot be observed"
KEPT_UP_TO_DATE = "kept up to date between the cycles of a service"


def right(what: str, reason: str, without: str = NO_CYCLE, version: str = "v1") -> Access:
    """The right `verb resource` or `verb group resource`."""
    verb, *group, resource = what.split()
    return Access(verb, "".join(group), resource, reason, without, version)


def list_and_watch(
    kind: str, reason: str, without: str, version: str = "v1"
) -> tuple[Access, Access]:
    """The rights to list and to watch the kind `resource` or `group resource`."""
    return (
        right(f"list {kind}", reason, without, version),
        right(f"watch {kind}", KEPT_UP_TO_DATE, without, version),
    )
