"""What a question is about: a node, a pod or a workload."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from desched.errors import ConfigurationError
from desched.planning.eligibility.controllers import VOLCANO_JOB


class SubjectKind(StrEnum):
    """The kinds that can be explained."""

    NODE = "node"
    POD = "pod"
    WORKLOAD = "workload"


_KINDS = {
    **dict.fromkeys(("node", "nodes", "no"), (SubjectKind.NODE, "")),
    **dict.fromkeys(("pod", "pods", "po"), (SubjectKind.POD, "")),
    **dict.fromkeys(("workload", "workloads"), (SubjectKind.WORKLOAD, "")),
    **dict.fromkeys(("deployment", "deployments", "deploy"), (SubjectKind.WORKLOAD, "Deployment")),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), (SubjectKind.WORKLOAD, "StatefulSet")),
    **dict.fromkeys(("job", "jobs"), (SubjectKind.WORKLOAD, "Job")),
    **dict.fromkeys(("vcjob", "vj", "volcano job"), (SubjectKind.WORKLOAD, VOLCANO_JOB)),
}
"""Words for each kind, as in kubectl, and the kind of workload that they name."""

_GROUPS = {"": "", "apps": "", "batch": "", "batch.volcano.sh": "vc"}
"""API groups that may follow a kind, as in deployment.apps; some distinguish it by a prefix."""


class Subject(NamedTuple):
    """A node by its name, or a pod or workload by its namespace and name.

    `workload_kind` is empty if any kind may have the name.
    """

    kind: SubjectKind
    name: str
    namespace: str = ""
    workload_kind: str = ""

    @property
    def words(self) -> Mapping[str, str]:
        """The kind and the name, of which `parse_subject` makes the subject again."""
        kind = self.workload_kind.lower() or self.kind.value
        return {
            "kind": kind,
            "name": f"{self.namespace}/{self.name}" if self.namespace else self.name,
        }

    def __str__(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.workload_kind or self.kind} {path}"


def parse_subject(
    kind: str, name: str = "", *, namespace: Callable[[], str] = lambda: ""
) -> Subject:
    """The subject of words such as `node te3`, `deployment.apps/web` or `pod shop/web-1`.

    `namespace` returns that of a name without one, empty if there is none.

    Raises:
        ConfigurationError: they name none.
    """
    if not name:
        kind, _, name = kind.partition("/")
    word, _, group = kind.lower().partition(".")
    group = re.sub(r"^v\d\w*\.", "", group)  # as in deployment.v1.apps
    known = _KINDS.get(_GROUPS[group] + word) if group in _GROUPS else None
    if known is None:
        raise ConfigurationError(
            f'"{kind}" is no kind that can be explained; write node NAME, pod NAMESPACE/NAME or '
            "workload NAMESPACE/NAME."
        )
    subject_kind, workload_kind = known
    if subject_kind is SubjectKind.NODE:
        if not name or "/" in name:
            raise ConfigurationError("Name the node, as in `desched explain node NAME`.")
        return Subject(subject_kind, name)
    place, slash, last = name.rpartition("/")
    if last and not slash:
        place = namespace()
    if not (place and last) or "/" in place:
        raise ConfigurationError(
            f"Name the {subject_kind} with its namespace, as in "
            f"`desched explain {subject_kind} NAMESPACE/NAME`."
        )
    return Subject(subject_kind, last, place, workload_kind)
