"""Groups of pods that need each other, as the systems that made them mark their pods.

`SYSTEMS` is the whole knowledge about these systems; docs/ai-clusters.md has it for users.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from desched.model.cluster import Pod, Workload

_NUMBER = re.compile(r" *[0-9]{1,9} *")


GangKey = tuple[str, str, str]
"""The system, the namespace and the name of a gang."""


class PodGroup(msgspec.Struct, frozen=True, gc=False):
    """A group of pods of a namespace, of which at least `minimum` must run.

    `stays` is why no pod of it may leave, whatever runs; empty if the minimum decides.
    """

    system: str
    namespace: str
    name: str
    minimum: int = 0
    stays: str = ""
    placed_together: bool = False

    @property
    def key(self) -> GangKey:
        """The same for all members."""
        return self.system, self.namespace, self.name

    @property
    def is_gang(self) -> bool:
        """Whether its pods need each other at all."""
        return bool(self.stays) or self.minimum > 1

    def __str__(self) -> str:
        return f"gang {self.namespace}/{self.name} ({self.system})"


class GroupSystem(NamedTuple):
    """How a system marks the pods of a group, with keys of labels and annotations alike.

    A pod with any of the `marks` is in a group; a mark that ends with a slash stands for all keys
    that begin with it. The values of `named_by`, or else of the first mark, are the name of the
    group; without any it is the name of the pod's owner. `size_by` has the number of its pods, if
    it needs them all. `minimum_by` has how many it needs, and the largest counts; if there is a
    `generated_prefix`, only in a group with that prefix or without a name, and there 1 is the
    default. With one of `stays_by` all its pods stay. `loss` is why they stay if nothing says how
    many are needed. `placed_together`: their scheduler places them all or none.
    """

    system: str
    marks: tuple[str, ...]
    loss: str
    named_by: tuple[str, ...] = ()
    size_by: str = ""
    minimum_by: tuple[str, ...] = ()
    generated_prefix: str = ""
    stays_by: tuple[str, ...] = ()
    placed_together: bool = False


NOT_KNOWN = "how many pods it needs is not known"
LOST = "nothing creates its pods again"

SCHEDULING_GROUP = "spec.schedulingGroup"
"""Stands for the group that the specification of a pod names."""

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
GENERATED_PREFIX = "podgroup-"
"""Volcano generates groups with this prefix for pods without one; these pods can run alone."""

LEAST_MEMBERS = "scheduling.volcano.sh/group-min-member"
_BUDGET_LEAST = "volcano.sh/jdb-min-available"
_BUDGET_MOST = "volcano.sh/jdb-max-unavailable"
_NETWORK = "volcano.sh/network-topology-mode"

_KOORDINATOR = "gang.scheduling.koordinator.sh/"
_KUEUE = "kueue.x-k8s.io/"
_WORKER_SET = "leaderworkerset.sigs.k8s.io/"

SYSTEMS: tuple[GroupSystem, ...] = (
    GroupSystem("Kubernetes", (SCHEDULING_GROUP,), NOT_KNOWN, placed_together=True),
    GroupSystem(
        "Volcano",
        (VOLCANO_GROUP, LEAST_MEMBERS, _NETWORK),
        NOT_KNOWN,
        minimum_by=(LEAST_MEMBERS, _BUDGET_LEAST),
        generated_prefix=GENERATED_PREFIX,
        stays_by=(_BUDGET_MOST, _NETWORK),
        placed_together=True,
    ),
    GroupSystem("Volcano", ("scheduling.volcano.sh/group-name",), NOT_KNOWN, placed_together=True),
    GroupSystem(
        "Volcano Job",
        ("volcano.sh/job-name",),
        "one eviction may restart the whole job",
        placed_together=True,
    ),
    GroupSystem(
        "coscheduling", ("scheduling.x-k8s.io/pod-group",), NOT_KNOWN, placed_together=True
    ),
    GroupSystem(
        "Koordinator",
        (f"{_KOORDINATOR}name",),
        NOT_KNOWN,
        minimum_by=(f"{_KOORDINATOR}min-available",),
        placed_together=True,
    ),
    GroupSystem(
        "Kueue",
        (f"{_KUEUE}pod-group-name",),
        NOT_KNOWN,
        size_by=f"{_KUEUE}pod-group-total-count",
        placed_together=True,
    ),
    GroupSystem(
        "Kueue",
        (
            f"{_KUEUE}podset-required-topology",
            f"{_KUEUE}podset-preferred-topology",
            f"{_KUEUE}podset-unconstrained-topology",
            f"{_KUEUE}podset-slice-required-topology",
            f"{_KUEUE}podset-slice-required-topology-constraints",
        ),
        "only Kueue can assign another node to its pods",
        named_by=(f"{_KUEUE}workload",),
        placed_together=True,
    ),
    GroupSystem("KAI", ("pod-group-name",), NOT_KNOWN, placed_together=True),
    GroupSystem(
        "KAI",
        ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "runai-gpu-group"),
        "fractions of a GPU are not evaluated",
        named_by=("runai-gpu-group",),
    ),
    GroupSystem(
        "LeaderWorkerSet",
        (f"{_WORKER_SET}name",),
        "one eviction may recreate the whole group",
        named_by=(f"{_WORKER_SET}name", f"{_WORKER_SET}group-index"),
        size_by=f"{_WORKER_SET}size",
    ),
    GroupSystem(
        "JobSet", ("jobset.sigs.k8s.io/jobset-name",), "one eviction may restart all its jobs"
    ),
    GroupSystem("KubeRay", ("ray.io/cluster",), "which of its pods it can lose is not known"),
    GroupSystem(
        "Kubeflow",
        ("training.kubeflow.org/job-name",),
        "one eviction may restart all its replicas",
    ),
    GroupSystem("SkyPilot", ("skypilot-cluster-name", "skypilot-cluster"), LOST),
    GroupSystem("dstack", ("k8s.dstack.ai/project",), LOST),
    GroupSystem("GPUStack", ("runtime.gpustack.ai/",), LOST),
)
"""All systems that are known; for a Job of Kubernetes see `Workload.survives_disruption`."""

_INHERITED = (LEAST_MEMBERS, _BUDGET_LEAST, _BUDGET_MOST, _NETWORK)
"""Annotations that Volcano reads from the workload, too."""

NAME_KEYS = frozenset(
    key for row in SYSTEMS for key in (*row.marks, *row.named_by) if key != LEAST_MEMBERS
)
"""Keys of labels and annotations whose values may be names."""

GROUP_KEYS = NAME_KEYS.union(
    *((row.size_by, *row.minimum_by, *row.stays_by) for row in SYSTEMS)
) - {"", SCHEDULING_GROUP}
"""All keys of labels and annotations that decide about groups."""

_MARKS = frozenset(mark for row in SYSTEMS for mark in row.marks)
GROUP_PREFIXES = tuple(mark for mark in sorted(_MARKS) if mark.endswith("/"))
"""Prefixes of further keys of labels."""


def groups_of(pod: Pod, workload: Workload | None) -> Iterator[PodGroup]:
    """The gangs that the pod belongs to; none if it may run alone."""
    found: list[Mapping[str, str]] = [pod.labels, pod.annotations]
    if workload is not None and workload.annotations:
        on_workload = workload.annotations
        found.append({key: on_workload[key] for key in _INHERITED if key in on_workload})
    if pod.scheduling_group:
        found.append({SCHEDULING_GROUP: pod.scheduling_group})
    marks = {mark for values in found if values for mark in _marks_in(values)}
    if not marks:
        return  # nearly all pods
    for row in SYSTEMS:
        if not marks.isdisjoint(row.marks):
            group = _group(row, pod, found)
            if group.is_gang:
                yield group


def _marks_in(values: Mapping[str, str]) -> Iterator[str]:
    yield from _MARKS.intersection(values)
    for prefix in GROUP_PREFIXES:
        if any(key.startswith(prefix) for key in values):
            yield prefix


def _group(row: GroupSystem, pod: Pod, found: Sequence[Mapping[str, str]]) -> PodGroup:
    parts = [each for key in row.named_by or row.marks[:1] for each in _values(key, found)[:1]]
    owner = pod.owner.name if pod.owner is not None else pod.name
    name = "-".join(parts) or owner
    minimum, stays = _needed(row, "-".join(parts), found)
    return PodGroup(row.system, pod.namespace, name, minimum, stays, row.placed_together)


def _needed(row: GroupSystem, name: str, found: Sequence[Mapping[str, str]]) -> tuple[int, str]:
    """How many of its pods must run, or why all of them stay."""
    stays = [f"{key}: {value}" for key in row.stays_by for value in _values(key, found)]
    texts = [(k, v) for k in (row.size_by, *row.minimum_by) for v in _values(k, found)]
    stays += [f"{key}: {text} is no number" for key, text in texts if not _NUMBER.fullmatch(text)]
    generated = not name or name.startswith(row.generated_prefix)
    if row.generated_prefix and not generated:
        stays.append(row.loss)
    if stays:
        return 0, stays[0]
    largest = max((int(text) for _, text in texts), default=1 if row.generated_prefix else None)
    if largest is None:
        return 0, row.loss
    if row.size_by:
        return 0, f"{largest} of {largest} needed" if largest > 1 else ""
    return largest, ""


def _values(key: str, found: Sequence[Mapping[str, str]]) -> list[str]:
    return [values[key] for values in found if key in values]
