"""Groups of pods that need each other, as the systems that made them mark their pods.

`SYSTEMS` is the whole knowledge about these systems; docs/plugins/gangs.md has it for users.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from desched.gangs.objects import DeclaredGroup, GangKey, GroupKey, GroupPart
from desched.gangs.topology import GroupTopology
from desched.model.checkpoints import checkpoints
from desched.model.cluster import Pod, Workload
from desched.planning.eligibility.controllers import VOLCANO_JOB

_NUMBER = re.compile(r" *[0-9]{1,9} *")


class PodGroup(msgspec.Struct, frozen=True, gc=False):
    """A group of pods of a namespace, or a part of one, of which at least `minimum` must run.

    `stays` is why no pod of it may leave, whatever runs; empty if the minimum decides. `topology`
    is how near to each other its pods must be, if its system says so. `whole`: its system creates
    and places all its pods again together, and what it needs is known, so that it may move whole.
    It does not if a disruption budget needs `budget` of its pods all the time.
    """

    system: str
    namespace: str
    name: str
    minimum: int = 0
    stays: str = ""
    placed_together: bool = False
    part: str = ""
    topology: GroupTopology | None = None
    whole: bool = False
    budget: int = 0

    @property
    def key(self) -> GangKey:
        """The same for all members."""
        return self.system, self.namespace, self.name, self.part

    @property
    def is_gang(self) -> bool:
        """Whether its pods need each other at all; other parts need even the only pod of a part."""
        if self.stays or self.topology is not None:
            return True
        return self.minimum > (0 if self.part else 1)

    def __str__(self) -> str:
        part = f", part {self.part}" if self.part else ""
        return f"gang {self.namespace}/{self.name} ({self.system}){part}"


class GroupSystem(NamedTuple):
    """How a system marks the pods of a group, with keys of labels and annotations alike.

    A pod with any of the `marks` is in a group; a mark that ends with a slash stands for all keys
    that begin with it. The values of `named_by`, or else of the first mark, are the name of the
    group; without any it is the name of the pod's owner. `size_by` has the number of its pods, if
    it needs them all. `minimum_by` has how many it needs, and the largest counts; if there is a
    `generated_prefix`, only in a group with that prefix or without a name, and there 1 is the
    default. `budget_by` has how many a disruption budget needs. With one of `stays_by` all its pods
    stay. `topology_by` has the mode and the highest tier of a network topology. `loss` is why they
    stay if nothing says how many are needed. `placed_together`: their scheduler places them all or
    none. `declared`: an object of the system may say how many it needs. `resumes`: if its pods save
    their work, its workload needs as many as it has replicas. `whole`: if all its pods
    leave, the system creates and places them again together, and counts no failure.
    """

    system: str
    marks: tuple[str, ...]
    loss: str
    named_by: tuple[str, ...] = ()
    size_by: str = ""
    minimum_by: tuple[str, ...] = ()
    generated_prefix: str = ""
    budget_by: str = ""
    stays_by: tuple[str, ...] = ()
    topology_by: tuple[str, ...] = ()
    placed_together: bool = False
    declared: bool = False
    resumes: bool = False
    whole: bool = False


TASK = "volcano.sh/task-spec"
"""The task of a pod in Volcano; the annotation counts before the label."""

SUB_GROUP = "kai.scheduler/subgroup-name"

NO_PART = "which of its parts the pod is in is not known"
NOT_KNOWN = "how many pods it needs is not known"
LOST = "nothing creates its pods again"
ENDED = "what runs in it ends with each of its pods"
"""The same for pods that a controller creates again."""

SCHEDULING_GROUP = "spec.schedulingGroup"
"""Stands for the group that the specification of a pod names."""

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
GENERATED_PREFIX = "podgroup-"
"""Volcano generates groups with this prefix for pods without one; these pods can run alone."""

LEAST_MEMBERS = "scheduling.volcano.sh/group-min-member"
BUDGET_LEAST = "volcano.sh/jdb-min-available"
BUDGET_MOST = "volcano.sh/jdb-max-unavailable"
"""A disruption budget of Volcano, on a pod, its workload or its PodGroup."""

NETWORK_MODE = "volcano.sh/network-topology-mode"
_HIGHEST_TIER = "volcano.sh/network-topology-highest-tier"

_OLDER_GROUP = "pod-group.scheduling.sigs.k8s.io"
"""Labels of older versions of coscheduling, which Koordinator still reads."""

_KOORDINATOR = "gang.scheduling.koordinator.sh/"
KOORDINATOR_STAYS_BY = (
    f"{_KOORDINATOR}match-policy",
    f"{_OLDER_GROUP}/match-policy",
    f"{_KOORDINATOR}network-topology-spec",
)
"""Annotations of pods and of PodGroups."""

LETS_ONE_START = frozenset({"once-satisfied", "waiting-and-running"})
"""Match policies by which one replacement starts; by `only-waiting` it waits for a whole gang."""

_KUEUE = "kueue.x-k8s.io/"
_WORKER_SET = "leaderworkerset.sigs.k8s.io/"


def _gang(system: str, *marks: str, **more: Any) -> GroupSystem:
    """A system that places all pods of a group or none, also again after all of them have left."""
    return GroupSystem(system, marks, NOT_KNOWN, placed_together=True, whole=True, **more)


SYSTEMS: tuple[GroupSystem, ...] = (
    _gang("Kubernetes", SCHEDULING_GROUP, declared=True),
    GroupSystem(
        VOLCANO_JOB,
        ("volcano.sh/job-name",),
        "one eviction may restart the whole job",
        placed_together=True,
        declared=True,
    ),
    _gang(
        "Volcano",
        VOLCANO_GROUP,
        LEAST_MEMBERS,
        NETWORK_MODE,
        minimum_by=(LEAST_MEMBERS, BUDGET_LEAST),
        budget_by=BUDGET_LEAST,
        generated_prefix=GENERATED_PREFIX,
        stays_by=(BUDGET_MOST,),
        topology_by=(NETWORK_MODE, _HIGHEST_TIER),
        declared=True,
    ),
    _gang("Volcano", "scheduling.volcano.sh/group-name", declared=True),
    _gang("coscheduling", "scheduling.x-k8s.io/pod-group", declared=True),
    _gang("coscheduling", f"{_OLDER_GROUP}/name", minimum_by=(f"{_OLDER_GROUP}/min-available",)),
    _gang("Koordinator", _OLDER_GROUP, stays_by=KOORDINATOR_STAYS_BY, declared=True),
    _gang(
        "Koordinator",
        f"{_KOORDINATOR}name",
        minimum_by=(f"{_KOORDINATOR}min-available",),
        stays_by=KOORDINATOR_STAYS_BY,
        declared=True,
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
    _gang("KAI", "pod-group-name", declared=True),
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
        whole=True,
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
    GroupSystem(
        "Determined AI",
        ("determined", "determined.ai/"),
        "one eviction may fail its task",
        resumes=True,
    ),
)
"""All systems that are known; for a Job of Kubernetes see `Workload.survives_disruption`."""

_INHERITED = (LEAST_MEMBERS, BUDGET_LEAST, BUDGET_MOST, NETWORK_MODE, _HIGHEST_TIER)
"""Annotations that Volcano reads from the workload, too."""

NAME_KEYS = frozenset(key for row in SYSTEMS for key in (*row.marks, *row.named_by)).union(
    (TASK, SUB_GROUP)
) - {LEAST_MEMBERS, NETWORK_MODE}
"""Keys of labels and annotations whose values may be names."""

GROUP_KEYS = NAME_KEYS.union(
    *((row.size_by, *row.minimum_by, *row.stays_by, *row.topology_by) for row in SYSTEMS)
) - {"", SCHEDULING_GROUP}
"""All keys of labels and annotations that decide about groups."""

_NONE: Mapping[GroupKey, DeclaredGroup] = {}

_Found = Sequence[Mapping[str, str]]
"""Labels and annotations."""

_Membership = tuple[GroupSystem, str, _Found]
"""A system, the name of the group, and what the pod has."""


_MARKS = frozenset(mark for row in SYSTEMS for mark in row.marks)
GROUP_PREFIXES = tuple(mark for mark in sorted(_MARKS) if mark.endswith("/"))
"""Prefixes of further keys of labels."""


def groups_of(
    pod: Pod, workload: Workload | None, declared: Mapping[GroupKey, DeclaredGroup] = _NONE
) -> Iterable[PodGroup]:
    """The gangs that the pod belongs to; none if it may run alone.

    `declared` is what objects of the systems say.
    """
    memberships = _memberships(pod, workload)
    return _groups(pod, workload, declared, memberships) if memberships else ()


def _groups(
    pod: Pod,
    workload: Workload | None,
    declared: Mapping[GroupKey, DeclaredGroup],
    memberships: Sequence[_Membership],
) -> Iterator[PodGroup]:
    of_known_job = any((VOLCANO_JOB, pod.namespace, name) in declared for _, name, _ in memberships)
    for row, name, found in memberships:
        key = row.system, pod.namespace, name
        known = declared.get(key) if row.declared and name else None
        if row.resumes and workload is not None and checkpoints(pod, workload):
            minimum, stays = workload.desired_replicas, ""
        else:
            minimum, stays = _needed(row, name, found, known)
        topology, unclear = _topology(row, found, known)
        if known is not None and known.together and stays == known.stays:
            minimum, clear = known.minimum, True
        else:  # pods of a group of fixed size stay because all of them are needed
            clear = not stays or bool(row.size_by and minimum)
        if stays == LOST and pod.owner is not None:
            stays = ENDED
        budgets, _ = numbers((row.budget_by,), found)
        budget = max((*budgets, known.budget if known is not None else 0))
        shown = name or (pod.owner.name if pod.owner is not None else pod.name)
        group = PodGroup(
            row.system,
            pod.namespace,
            shown,
            minimum,
            stays or unclear,
            row.placed_together,
            topology=topology,
            whole=row.whole and clear and not unclear and not budget,
            budget=budget,
        )
        if group.is_gang:
            yield group
        # Volcano copies the tasks of a job into its PodGroup; the job says which of them count.
        repeated = of_known_job and row.system != VOLCANO_JOB
        if known is not None and known.parts and not stays and not repeated:
            part = _part_of(group, known.parts, pod)
            if part.is_gang:
                yield part


def _part_of(group: PodGroup, parts: Iterable[GroupPart], pod: Pod) -> PodGroup:
    """The part of the group that the pod is in; Volcano, too, takes the first that matches."""
    task = pod.annotations.get(TASK)
    labels = {**pod.labels, TASK: task} if task else pod.labels
    for part in parts:
        values = [labels.get(key, "") for key in part.match_label_keys]
        if all(values) and part.selector.matches(labels):
            name = "/".join((part.name, *values))
            return replace(group, part=name, minimum=part.minimum)
    return replace(group, stays=NO_PART)


def declared_keys(pod: Pod, workload: Workload | None) -> Iterator[GroupKey]:
    """The groups of the pod of which an object may say how many pods they need."""
    for row, name, _ in _memberships(pod, workload):
        if row.declared and name:
            yield row.system, pod.namespace, name


def _memberships(pod: Pod, workload: Workload | None) -> Sequence[_Membership]:
    """The rows that the pod has a mark of, each with the name of the group, empty without any."""
    if not (
        pod.scheduling_group
        or _is_marked(pod.labels)
        or _is_marked(pod.annotations)
        or (workload is not None and _is_marked(workload.annotations))
    ):
        return ()  # nearly all pods
    found: list[Mapping[str, str]] = [pod.labels, pod.annotations]
    if workload is not None and workload.annotations:
        on_workload = workload.annotations
        found.append({key: on_workload[key] for key in _INHERITED if key in on_workload})
    if pod.scheduling_group:
        found.append({SCHEDULING_GROUP: pod.scheduling_group})
    marks = {mark for values in found for mark in _marks_in(values)}
    marked = (row for row in SYSTEMS if not marks.isdisjoint(row.marks))
    keyed = ((row, row.named_by or row.marks[:1]) for row in marked)
    return [
        (row, "-".join(v for key in keys for v in _values(key, found)[:1]), found)
        for row, keys in keyed
    ]


def _is_marked(values: Mapping[str, str]) -> bool:
    """Whether there is any mark, faster than which ones."""
    if not values:
        return False
    if not _MARKS.isdisjoint(values):
        return True
    for key in values:  # noqa: SIM110 (a generator takes twice as long)
        if key.startswith(GROUP_PREFIXES):
            return True
    return False


def _marks_in(values: Mapping[str, str]) -> Iterator[str]:
    yield from _MARKS.intersection(values)
    for prefix in GROUP_PREFIXES:
        if any(key.startswith(prefix) for key in values):
            yield prefix


def _needed(
    row: GroupSystem, name: str, found: _Found, declared: DeclaredGroup | None
) -> tuple[int, str]:
    """How many of its pods must run, or why all of them stay."""
    stays = keeping(row.stays_by, found)
    known, unclear = numbers((row.size_by, *row.minimum_by), found)
    stays += unclear
    generated = not name or name.startswith(row.generated_prefix)
    if declared is not None and declared.stays:
        stays.append(declared.stays)
    elif declared is None and row.generated_prefix and not generated:
        stays.append(row.loss)
    if stays:
        return 0, stays[0]
    if declared is not None:
        known.append(declared.minimum)
    elif row.generated_prefix:
        known.append(1)
    if not known:
        return 0, row.loss
    if row.size_by:
        return max(known), f"{max(known)} of {max(known)} needed" if max(known) > 1 else ""
    return max(known), ""


def keeping(keys: Iterable[str], found: _Found) -> list[str]:
    """The labels and annotations by these keys for which all pods of a group stay."""
    values = ((key, value) for key in keys for value in _values(key, found))
    return [f"{key}: {value}" for key, value in values if value not in LETS_ONE_START]


def numbers(keys: Iterable[str], found: _Found) -> tuple[list[int], list[str]]:
    """The numbers by these keys, and which values are none."""
    texts = [(key, text) for key in keys for text in _values(key, found)]
    wrong = [f"{key}: {text} is no number" for key, text in texts if not _NUMBER.fullmatch(text)]
    return [int(text) for _, text in texts if _NUMBER.fullmatch(text)], wrong


def _topology(
    row: GroupSystem, found: _Found, declared: DeclaredGroup | None
) -> tuple[GroupTopology | None, str]:
    """How near to each other its pods must be, and why all of them stay if that is not clear."""
    if declared is not None and declared.topology is not None:
        return declared.topology, ""
    mode_key, tier_key = row.topology_by or ("", "")
    mode, tier = (next(iter(_values(key, found)), "") for key in (mode_key, tier_key))
    unclear = ""
    if mode and mode not in NETWORK_MODES:
        unclear = f"{mode_key}: {mode} is not known"
    elif tier and not _NUMBER.fullmatch(tier):
        unclear = f"{tier_key}: {tier} is no number"
    if unclear or not mode:
        return None, unclear
    return GroupTopology(mode == "hard", int(tier) if tier else None), ""


NETWORK_MODES = frozenset({"hard", "soft"})


def _values(key: str, found: _Found) -> list[str]:
    return [values[key] for values in found if key in values]
