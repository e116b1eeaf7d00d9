"""R2.1: each row of the table of systems, and what makes a pod of it no gang."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pytest

from desched.gangs.objects import DeclaredGroup, GroupPart
from desched.gangs.pod_groups import (
    GROUP_KEYS,
    GROUP_PREFIXES,
    SYSTEMS,
    TASK,
    PodGroup,
    groups_of,
)
from desched.gangs.topology import GroupTopology
from desched.model.checkpoints import CHECKPOINTS
from desched.model.cluster import Pod
from desched.model.selectors import LabelSelector, Operator, Requirement
from tests.builders import pod, workload
from tests.repository import ROOT

DOCUMENT = (ROOT / "docs" / "plugins" / "gangs.md").read_text().partition("\n## Volcano Jobs")[0]
"""What it says of groups."""

VOLCANO = "scheduling.k8s.io/group-name"
LEAST = "scheduling.volcano.sh/group-min-member"
BUDGET = "volcano.sh/jdb-min-available"
NETWORK = "volcano.sh/network-topology-mode"
HIGHEST_TIER = "volcano.sh/network-topology-highest-tier"
OLDER = "pod-group.scheduling.sigs.k8s.io"
GANG = "gang.scheduling.koordinator.sh/"
KUEUE = "kueue.x-k8s.io/"
WORKERS = "leaderworkerset.sigs.k8s.io/"
UNKNOWN = "how many pods it needs is not known"


class Row(NamedTuple):
    """Labels or annotations of a pod, the gang in reports, and why its pods stay or how many do."""

    marks: Mapping[str, str]
    gang: str
    needed: str | int


ROWS = [
    Row({VOLCANO: "llama-2f1c"}, "llama-2f1c (Volcano)", UNKNOWN),
    Row({VOLCANO: "llama-2f1c", LEAST: "1"}, "llama-2f1c (Volcano)", UNKNOWN),
    Row({VOLCANO: "podgroup-2f1c", LEAST: "6"}, "podgroup-2f1c (Volcano)", 6),
    Row({VOLCANO: "podgroup-2f1c", LEAST: "6", BUDGET: "8"}, "podgroup-2f1c (Volcano)", 8),
    Row({VOLCANO: "podgroup-2f1c", BUDGET: "2"}, "podgroup-2f1c (Volcano)", 2),
    Row(
        {VOLCANO: "podgroup-2f1c", BUDGET: "50%"},
        "podgroup-2f1c (Volcano)",
        f"{BUDGET}: 50% is no number",
    ),
    Row(
        {VOLCANO: "podgroup-2f1c", "volcano.sh/jdb-max-unavailable": "1"},
        "podgroup-2f1c (Volcano)",
        "volcano.sh/jdb-max-unavailable: 1",
    ),
    Row({VOLCANO: "podgroup-2f1c", NETWORK: "soft"}, "podgroup-2f1c (Volcano)", 1),
    Row(
        {VOLCANO: "podgroup-2f1c", NETWORK: "near"},
        "podgroup-2f1c (Volcano)",
        f"{NETWORK}: near is not known",
    ),
    Row(
        {VOLCANO: "podgroup-2f1c", NETWORK: "hard", HIGHEST_TIER: "rack"},
        "podgroup-2f1c (Volcano)",
        f"{HIGHEST_TIER}: rack is no number",
    ),
    Row({"scheduling.volcano.sh/group-name": "llama"}, "llama (Volcano)", UNKNOWN),
    Row({LEAST: "2"}, "web-1 (Volcano)", 2),
    Row({LEAST: "two"}, "web-1 (Volcano)", f"{LEAST}: two is no number"),
    Row(
        {"volcano.sh/job-name": "llama"},
        "llama (Volcano Job)",
        "one eviction may restart the whole job",
    ),
    Row({"scheduling.x-k8s.io/pod-group": "llama"}, "llama (coscheduling)", UNKNOWN),
    Row({f"{OLDER}/name": "llama"}, "llama (coscheduling)", UNKNOWN),
    Row({f"{OLDER}/name": "llama", f"{OLDER}/min-available": "6"}, "llama (coscheduling)", 6),
    Row({OLDER: "llama"}, "llama (Koordinator)", UNKNOWN),
    Row({f"{GANG}name": "llama"}, "llama (Koordinator)", UNKNOWN),
    Row({f"{GANG}name": "llama", f"{GANG}min-available": "6"}, "llama (Koordinator)", 6),
    Row(
        {
            f"{GANG}name": "llama",
            f"{GANG}min-available": "2",
            f"{GANG}match-policy": "only-waiting",
        },
        "llama (Koordinator)",
        f"{GANG}match-policy: only-waiting",
    ),
    Row(
        {OLDER: "llama", f"{GANG}network-topology-spec": "{}"},
        "llama (Koordinator)",
        f"{GANG}network-topology-spec: {{}}",
    ),
    Row({f"{KUEUE}pod-group-name": "llama"}, "llama (Kueue)", UNKNOWN),
    Row(
        {f"{KUEUE}pod-group-name": "llama", f"{KUEUE}pod-group-total-count": "8"},
        "llama (Kueue)",
        "8 of 8 needed",
    ),
    Row({"pod-group-name": "llama"}, "llama (KAI)", UNKNOWN),
    Row({"gpu-fraction": "0.5"}, "web-1 (KAI)", "fractions of a GPU are not evaluated"),
    Row(
        {f"{WORKERS}name": "llama", f"{WORKERS}group-index": "1", f"{WORKERS}size": "8"},
        "llama-1 (LeaderWorkerSet)",
        "8 of 8 needed",
    ),
    Row(
        {f"{WORKERS}name": "llama"},
        "llama (LeaderWorkerSet)",
        "one eviction may recreate the whole group",
    ),
    Row(
        {"jobset.sigs.k8s.io/jobset-name": "llama"},
        "llama (JobSet)",
        "one eviction may restart all its jobs",
    ),
    Row(
        {"ray.io/cluster": "llama"}, "llama (KubeRay)", "which of its pods it can lose is not known"
    ),
    Row(
        {"training.kubeflow.org/job-name": "llama"},
        "llama (Kubeflow)",
        "one eviction may restart all its replicas",
    ),
    Row(
        {"parent": "skypilot", "skypilot-cluster-name": "llama"},
        "llama (SkyPilot)",
        "what runs in it ends with each of its pods",
    ),
    Row(
        {"k8s.dstack.ai/project": "llama"},
        "llama (dstack)",
        "what runs in it ends with each of its pods",
    ),
    Row(
        {"runtime.gpustack.ai/name": "x"},
        "web-1 (GPUStack)",
        "what runs in it ends with each of its pods",
    ),
    Row({"determined": "1.2f1c.1"}, "1.2f1c.1 (Determined AI)", "one eviction may fail its task"),
    Row(
        {"determined.ai/task_id": "1.2f1c"},
        "web-1 (Determined AI)",
        "one eviction may fail its task",
    ),
    *(
        Row(
            {f"{KUEUE}{kind}-topology": "rack", f"{KUEUE}workload": "llama"},
            "llama (Kueue)",
            "only Kueue can assign another node to its pods",
        )
        for kind in ("podset-required", "podset-preferred", "podset-slice-required")
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{i}-{row.gang}" for i, row in enumerate(ROWS)])
def test_each_system_is_known_by_labels_and_by_annotations(row: Row) -> None:
    """R2.1: every carrier of gangs."""
    for one in (pod("a", labels=row.marks), pod("a", annotations=row.marks)):
        (group,) = groups_of(one, None)
        assert str(group) == f"gang apps/{row.gang}"
        assert (group.stays or group.minimum) == row.needed


def test_every_system_has_a_row_here() -> None:
    named = {re.findall(r"\((.+)\)", row.gang)[0] for row in ROWS}
    assert named | {"Kubernetes"} == {row.system for row in SYSTEMS}


def test_a_group_of_the_specification_is_a_gang() -> None:
    """R2.1: `schedulingGroup` of Kubernetes itself."""
    (group,) = groups_of(pod("a", scheduling_group="llama"), None)
    assert (str(group), group.stays) == ("gang apps/llama (Kubernetes)", UNKNOWN)


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {"app": "web", "volcano.sh/queue-name": "default"},
        {VOLCANO: "podgroup-2f1c"},
        {VOLCANO: "podgroup-2f1c", LEAST: "1"},
        {VOLCANO: "podgroup-2f1c", LEAST: " 0 "},
        {f"{GANG}name": "llama", f"{GANG}min-available": "1"},
        {f"{GANG}name": "x", f"{GANG}min-available": "1", f"{GANG}match-policy": "once-satisfied"},
        {f"{KUEUE}pod-group-name": "llama", f"{KUEUE}pod-group-total-count": "1"},
        {f"{WORKERS}name": "llama", f"{WORKERS}size": "1"},
    ],
)
def test_a_group_that_needs_one_pod_is_no_gang(marks: Mapping[str, str]) -> None:
    """R2.1: a minimum of 1 is no gang."""
    assert not list(groups_of(pod("a", labels=marks), None))


def determined(**annotations: str) -> Pod:
    return pod("a", labels={"determined": "1.2f1c.1"}, annotations=annotations)


def test_a_task_of_determined_with_one_pod_that_saves_its_work_may_leave() -> None:
    """R4.5: protected unless the owner opts in."""
    opted_in = determined(**{CHECKPOINTS: "true"})
    assert not list(groups_of(opted_in, workload("web", replicas=1)))
    (several,) = groups_of(opted_in, workload("web", replicas=4))
    assert (several.stays, several.minimum, several.whole) == ("", 4, False)
    on_owner = workload("web", replicas=1, annotations={CHECKPOINTS: "true"})
    assert not list(groups_of(determined(), on_owner))


def test_a_pod_of_determined_that_nothing_creates_again_stays() -> None:
    (group,) = groups_of(determined(**{CHECKPOINTS: "true"}), None)
    assert group.stays == "one eviction may fail its task"


def test_checkpoints_do_not_lift_what_other_systems_need() -> None:
    saved = pod("a", labels={"ray.io/cluster": "llama"}, annotations={CHECKPOINTS: "true"})
    (group,) = groups_of(saved, workload("web", replicas=1))
    assert group.stays


DECLARED = [
    ({VOLCANO: "llama"}, "Volcano"),
    ({VOLCANO: "podgroup-1"}, "Volcano"),
    ({"scheduling.volcano.sh/group-name": "llama"}, "Volcano"),
    ({"scheduling.x-k8s.io/pod-group": "llama"}, "coscheduling"),
    ({OLDER: "llama"}, "Koordinator"),
    ({f"{GANG}name": "llama"}, "Koordinator"),
    ({"pod-group-name": "llama"}, "KAI"),
]


def declared(system: str, name: str, minimum: int, stays: str = "") -> dict[Any, DeclaredGroup]:
    found = DeclaredGroup(system, "apps", name, minimum, stays)
    return {(system, "apps", name): found}


@pytest.mark.parametrize(("marks", "system"), DECLARED)
def test_an_object_says_how_many_pods_a_named_group_needs(
    marks: Mapping[str, str], system: str
) -> None:
    """R2.1, R2.2: 1 is no gang, so that Deployments on KAI and Volcano move."""
    one, (name,) = pod("a", annotations=marks), marks.values()
    assert not list(groups_of(one, None, declared(system, name, 1)))
    for least in (2, 6):
        (group,) = groups_of(one, None, declared(system, name, least))
        assert (group.minimum, group.stays) == (least, "")
    (group,) = groups_of(one, None, declared(system, name, 1, "it is being assembled"))
    assert group.stays == "it is being assembled"


@pytest.mark.parametrize(("marks", "system"), DECLARED)
def test_only_the_object_of_the_group_itself_counts(marks: Mapping[str, str], system: str) -> None:
    one, (name,) = pod("a", annotations=marks), marks.values()
    alone = [(g.minimum, g.stays) for g in groups_of(one, None)]
    other_name = declared(system, "other", 9)
    other_place = {(system, "default", name): DeclaredGroup(system, "default", name, 9)}
    other_system = declared("Kueue", name, 9)
    for each in (other_name, other_place, other_system):
        assert [(g.minimum, g.stays) for g in groups_of(one, None, each)] == alone


def of_key(key: str, *minima: tuple[str, int]) -> tuple[GroupPart, ...]:
    """Parts by the values of one label."""
    return tuple(
        GroupPart(value, least, LabelSelector((Requirement(key, Operator.IN, (value,)),)))
        for value, least in minima
    )


def with_parts(minimum: int, parts: tuple[GroupPart, ...]) -> dict[Any, DeclaredGroup]:
    return {
        ("Volcano", "apps", "llama"): DeclaredGroup("Volcano", "apps", "llama", minimum, "", parts)
    }


def needs(found: Iterable[PodGroup]) -> list[tuple[str, int | str]]:
    return [(str(group).partition("(Volcano)")[2], group.stays or group.minimum) for group in found]


def test_a_pod_is_in_its_group_and_in_one_part_of_it() -> None:
    """R2.2: the minimum of a task; the annotation counts before the label."""
    known = with_parts(6, of_key(TASK, ("head", 1), ("worker", 4)))
    for labels, annotations in (({TASK: "worker"}, {}), ({TASK: "head"}, {TASK: "worker"})):
        one = pod("a", labels=labels, annotations={VOLCANO: "llama", **annotations})
        assert needs(groups_of(one, None, known)) == [("", 6), (", part worker", 4)]


def test_the_only_pod_of_a_part_is_needed_too() -> None:
    """R2.2: the others of the gang need the head, and a part that needs none has no minimum."""
    known = with_parts(0, of_key(TASK, ("head", 1), ("extra", 0)))
    for task, expected in (("head", [(", part head", 1)]), ("extra", [])):
        one = pod("a", labels={TASK: task}, annotations={VOLCANO: "llama"})
        assert needs(groups_of(one, None, known)) == expected


@pytest.mark.parametrize("labels", [{}, {TASK: "other"}, {"app": "web"}])
def test_a_pod_in_no_part_of_a_group_with_parts_stays(labels: Mapping[str, str]) -> None:
    """R2.2, X4: nothing says how many of its like are needed."""
    one = pod("a", labels=labels, annotations={VOLCANO: "llama"})
    (group,) = groups_of(one, None, with_parts(0, of_key(TASK, ("head", 1))))
    assert str(group) == "gang apps/llama (Volcano)"
    assert group.stays == "which of its parts the pod is in is not known"


def test_pods_with_the_same_values_of_labels_are_a_part_of_their_own() -> None:
    """R2.2: subgroups of Volcano; the first policy that matches counts."""
    (first,) = of_key("role", ("train", 4))
    partition = "volcano.sh/partition-id"
    parts = (
        GroupPart("train", 4, first.selector, (partition,)),
        GroupPart("rest", 2, LabelSelector(), ("app",)),
    )
    expected = {
        "train/0": {"role": "train", partition: "0", "app": "x"},
        "train/1": {"role": "train", partition: "1"},
        "rest/x": {"role": "train", "app": "x"},
    }
    for name, labels in expected.items():
        one = pod("a", labels=labels, annotations={VOLCANO: "llama"})
        (group,) = groups_of(one, None, with_parts(1, parts))
        assert group.key == ("Volcano", "apps", "llama", name)


def test_a_group_that_stays_has_no_parts() -> None:
    one = pod("a", labels={TASK: "head"}, annotations={VOLCANO: "llama"})
    parts = of_key(TASK, ("head", 1))
    stays = DeclaredGroup("Volcano", "apps", "llama", 1, "it is being assembled", parts)
    (group,) = groups_of(one, None, {("Volcano", "apps", "llama"): stays})
    assert (group.part, group.stays) == ("", "it is being assembled")


def test_a_group_of_the_specification_needs_what_its_object_says() -> None:
    """R2.1: `schedulingGroup` of Kubernetes itself."""
    one = pod("a", scheduling_group="llama")
    assert not list(groups_of(one, None, declared("Kubernetes", "llama", 0)))
    (group,) = groups_of(one, None, declared("Kubernetes", "llama", 4))
    assert (group.minimum, group.stays) == (4, "")


def test_the_largest_of_object_and_annotations_counts() -> None:
    """R2.2: minMember, and min-available of a job disruption budget."""
    marks = {VOLCANO: "llama", BUDGET: "8"}
    for least, expected in ((6, 8), (9, 9)):
        (group,) = groups_of(pod("a", labels=marks), None, declared("Volcano", "llama", least))
        assert group.minimum == expected


@pytest.mark.parametrize(
    ("marks", "topology"),
    [
        ({NETWORK: "soft"}, GroupTopology(hard=False)),
        ({NETWORK: "hard"}, GroupTopology(hard=True)),
        ({NETWORK: "hard", HIGHEST_TIER: "2"}, GroupTopology(hard=True, highest_tier=2)),
    ],
)
def test_annotations_and_objects_say_how_near_pods_must_be(
    marks: Mapping[str, str], topology: GroupTopology
) -> None:
    """R2.4: on the pod or its workload; the object of the group counts before them."""
    named = {VOLCANO: "podgroup-1"}
    for one, owner in (
        (pod("a", annotations={**named, **marks}), None),
        (pod("a", annotations=named), workload("web", annotations=marks)),
    ):
        (group,) = groups_of(one, owner)
        assert group.topology == topology
        assert topology.is_hard == (len(marks) == 2)
    said = DeclaredGroup("Volcano", "apps", "podgroup-1", 2, topology=GroupTopology(hard=False))
    (group,) = groups_of(one, owner, {("Volcano", "apps", "podgroup-1"): said})
    assert group.topology == said.topology


@pytest.mark.parametrize("key", ["volcano.sh/job-name", "gpu-fraction"])
def test_other_systems_of_the_pod_keep_it_all_the_same(key: str) -> None:
    """R2.3, R2.6: a job that restarts as a whole, and a share of a GPU."""
    one = pod("a", annotations={VOLCANO: "llama", "pod-group-name": "llama", key: "llama"})
    known = declared("Volcano", "llama", 1) | declared("KAI", "llama", 1)
    (group,) = groups_of(one, None, known)
    assert group.stays


def test_volcano_also_reads_the_minimum_of_the_workload() -> None:
    """R2.2: the largest of what pod and workload say."""
    owner = workload("web", annotations={LEAST: "3", f"{GANG}name": "not of pods"})
    for marks, least in (({}, 3), ({VOLCANO: "podgroup-1", LEAST: "2"}, 3), ({LEAST: "4"}, 4)):
        (group,) = groups_of(pod("a", annotations=marks), owner)
        assert group.minimum == least


def test_a_pod_may_be_in_several_gangs() -> None:
    found = groups_of(
        pod("a", labels={f"{WORKERS}name": "llama"}, annotations={VOLCANO: "llama-0"}), None
    )
    assert [group.system for group in found] == ["Volcano", "LeaderWorkerSet"]


def test_the_documented_keys_are_those_of_the_table() -> None:
    documented = set(
        re.findall(
            r"`([a-z0-9.-]+/[a-z-]*|[a-z0-9.-]+\.io|[a-z]+(?:-[a-z]+)+|determined)`", DOCUMENT
        )
    )
    assert documented == {*GROUP_KEYS, *GROUP_PREFIXES}


def test_the_documented_systems_are_those_of_the_table_in_its_order() -> None:
    table = "".join(re.findall(r"^\| \*\*.+", DOCUMENT, re.MULTILINE))
    systems = re.findall(r"\*\*(.+?)\*\*", table)
    assert systems == [*dict.fromkeys(row.system for row in SYSTEMS), "Job"]
