"""PodGroups of each system: how many pods they need, and what keeps all of them."""

from typing import Any

import msgspec
import pytest

from desched.gangs.objects import DeclaredGroup, GroupPart
from desched.gangs.pod_groups import SUB_GROUP, SYSTEMS, TASK
from desched.gangs.topology import GroupTopology
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.plugins.gangs.kinds import DECLARED_GROUPS
from desched.plugins.gangs.pod_groups import POD_GROUPS

NOT_SAID = "its PodGroup does not say how many pods it needs"


def read(
    system: str, spec: Any, status: Any = None, annotations: Any = None, labels: Any = None
) -> DeclaredGroup:
    metadata = {"namespace": "apps", "name": "llama", "annotations": annotations, "labels": labels}
    document = {"metadata": metadata, "spec": spec, "status": status}
    body = msgspec.json.encode({"metadata": {}, "items": [document]})
    (found,) = POD_GROUPS[system][0].decoder().page(body).values
    assert (found.system, found.namespace, found.name) == (system, "apps", "llama")
    return found


@pytest.mark.parametrize(
    ("system", "spec"),
    [
        ("Volcano", {"minMember": 6, "queue": "default", "minTaskMember": {}}),
        ("coscheduling", {"minMember": 6, "scheduleTimeoutSeconds": 10}),
        ("Koordinator", {"minMember": 6, "minResources": {"cpu": "1"}}),
        ("KAI", {"minMember": 6, "queue": "team", "subGroups": []}),
        ("Kubernetes", {"schedulingPolicy": {"gang": {"minCount": 6}}}),
        (
            "Kubernetes",
            {"schedulingPolicy": {"gang": {"minCount": 6}}, "disruptionMode": {"single": {}}},
        ),
    ],
)
def test_each_system_says_how_many_pods_a_group_needs(system: str, spec: Any) -> None:
    """R2.2: the minimum of a PodGroup."""
    assert (read(system, spec).minimum, read(system, spec).stays) == (6, "")


def test_a_group_of_kubernetes_without_a_gang_needs_none() -> None:
    """R2.1: the policy basic is no gang."""
    found = read("Kubernetes", {"schedulingPolicy": {"basic": {}}})
    assert (found.minimum, found.stays) == (0, "")


@pytest.mark.parametrize(
    ("system", "phase"),
    [
        ("Volcano", "Pending"),
        ("Volcano", "Inqueue"),
        ("coscheduling", "Scheduling"),
        ("Koordinator", "Pending"),
        ("Koordinator", "PreScheduling"),
        ("Koordinator", "Scheduling"),
    ],
)
def test_a_group_that_is_being_assembled_stays(system: str, phase: str) -> None:
    """R2.5: its scheduler has not placed all that it needs."""
    found = read(system, {"minMember": 1}, {"phase": phase})
    assert found.stays == f"it is being assembled ({phase})"
    assert not read(system, {"minMember": 1}, {"phase": "Running"}).stays


@pytest.mark.parametrize(
    ("key", "value", "keeps"),
    [
        ("gang.scheduling.koordinator.sh/match-policy", "only-waiting", True),
        ("pod-group.scheduling.sigs.k8s.io/match-policy", "only-waiting", True),
        ("gang.scheduling.koordinator.sh/match-policy", "once-satisfied", False),
        ("gang.scheduling.koordinator.sh/network-topology-spec", "{}", True),
        ("gang.scheduling.koordinator.sh/total-number", "8", False),
    ],
)
def test_annotations_of_koordinator_can_keep_all_pods(key: str, value: str, *, keeps: bool) -> None:
    """R2.2, R2.4: a replacement that would wait for a whole gang, and a topology."""
    found = read("Koordinator", {"minMember": 2}, annotations={key: value})
    assert found.stays == (f"{key}: {value}" if keeps else "")


@pytest.mark.parametrize(
    ("budget", "minimum", "stays"),
    [
        ({"volcano.sh/jdb-min-available": "8"}, 8, ""),
        ({"volcano.sh/jdb-min-available": "2"}, 6, ""),
        (
            {"volcano.sh/jdb-min-available": "50%"},
            6,
            "volcano.sh/jdb-min-available: 50% is no number",
        ),
        ({"volcano.sh/jdb-max-unavailable": "1"}, 6, "volcano.sh/jdb-max-unavailable: 1"),
        (None, 6, ""),
    ],
)
def test_a_group_of_volcano_has_its_disruption_budget_as_annotations(
    budget: Any, minimum: int, stays: str
) -> None:
    """R2.2: Volcano's scheduler reads it there; the larger minimum counts, also beside parts."""
    for spec in ({"minMember": 6}, {"minMember": 6, "minTaskMember": {"worker": 4}}):
        found = read("Volcano", spec, annotations=budget)
        assert (found.minimum, found.stays) == (minimum, stays)
        assert found.budget == (int(next(iter(budget.values()))) if budget and not stays else 0)
    policy = {"minMember": 6, "subGroupPolicy": [{"matchLabelKeys": ["partition"]}]}
    found = read("Volcano", policy, annotations=budget)
    assert (found.minimum, found.stays) == (minimum, stays)


def test_a_disruption_budget_alone_says_how_many_pods_a_group_needs() -> None:
    """R2.2: Volcano takes no minimum as 0."""
    found = read("Volcano", {}, annotations={"volcano.sh/jdb-min-available": "3"})
    assert (found.minimum, found.stays, found.budget) == (3, "", 3)


PREEMPTABLE = "volcano.sh/preemptable"


@pytest.mark.parametrize(
    ("annotation", "label", "said"),
    [
        (None, None, None),
        ("true", None, None),
        ("True", "false", None),
        (None, "1", None),
        ("false", "true", "false"),
        (None, "false", "false"),
        ("soon", None, "soon"),
    ],
)
def test_a_group_of_volcano_that_is_not_preemptable_stays(
    annotation: str | None, label: str | None, said: str | None
) -> None:
    """R2.5: the annotation counts before the label; what is no boolean forbids."""
    found = read(
        "Volcano",
        {"minMember": 1},
        annotations=annotation and {PREEMPTABLE: annotation},
        labels=label and {PREEMPTABLE: label},
    )
    assert found.stays == (f'{PREEMPTABLE}: "{said}" on its PodGroup' if said else "")


def part(name: str, minimum: int, key: str, *match_label_keys: str) -> GroupPart:
    selector = LabelSelector((Requirement(key, Operator.IN, (name,)),))
    return GroupPart(name, minimum, selector, match_label_keys)


PARTS = [
    (
        "Volcano",
        {"minMember": 5, "minTaskMember": {"head": 1, "worker": 4}},
        5,
        (part("head", 1, TASK), part("worker", 4, TASK)),
    ),
    ("Volcano", {"minTaskMember": {"worker": 4}}, 0, (part("worker", 4, TASK),)),
    (
        "Volcano",
        {
            "minMember": 8,
            "subGroupPolicy": [
                {
                    "name": "train",
                    "subGroupSize": 4,
                    "minSubGroups": 1,
                    "labelSelector": {"matchLabels": {"role": "train"}},
                    "matchLabelKeys": ["partition"],
                },
                {"matchLabelKeys": ["app"]},
            ],
        },
        8,
        (
            GroupPart("train", 4, part("train", 0, "role").selector, ("partition",)),
            GroupPart("subgroup", 1, LabelSelector(), ("app",)),
        ),
    ),
    (
        "KAI",
        {
            "minMember": 3,
            "subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 2}],
        },
        3,
        (part("a", 1, SUB_GROUP), part("b", 2, SUB_GROUP)),
    ),
    (
        "KAI",
        {
            "minSubGroup": 1,
            "subGroups": [
                {"name": "all", "minSubGroup": 1},
                {"name": "a", "parent": "all", "minMember": 2},
            ],
        },
        0,
        (part("a", 2, SUB_GROUP),),
    ),
]


@pytest.mark.parametrize(("system", "spec", "minimum", "parts"), PARTS)
def test_parts_of_a_group_have_minima_of_their_own(
    system: str, spec: Any, minimum: int, parts: tuple[GroupPart, ...]
) -> None:
    """R2.2: tasks and subgroups."""
    found = read(system, spec)
    assert (found.minimum, found.stays, found.parts) == (minimum, "", parts)


POLICY = {"name": "a", "matchLabelKeys": ["app"]}
NOT_EVALUATED = "of its PodGroup is not evaluated"


@pytest.mark.parametrize(
    ("system", "fields", "stays"),
    [
        (
            "Volcano",
            {"minTaskMember": {"a": 1}, "subGroupPolicy": [POLICY]},
            f"minTaskMember with subGroupPolicy {NOT_EVALUATED}",
        ),
        (
            "Volcano",
            {"subGroupPolicy": [{"name": "a"}]},
            f"a subGroupPolicy without matchLabelKeys {NOT_EVALUATED}",
        ),
        (
            "Volcano",
            {"subGroupPolicy": [POLICY | {"networkTopology": {"mode": "soft"}}]},
            f"networkTopology of a subGroupPolicy {NOT_EVALUATED}",
        ),
        (
            "Volcano",
            {"subGroupPolicy": [POLICY, POLICY]},
            "several of its subgroups have one name",
        ),
        (
            "Volcano",
            {"minTaskMember": {f"task-{i}": 1 for i in range(1000)}},
            f"more than 8192 bytes of minTaskMember {NOT_EVALUATED}",
        ),
        (
            "Volcano",
            {"minTaskMember": {f"task-{i}": 1 for i in range(65)}},
            f"more than 64 parts {NOT_EVALUATED}",
        ),
        ("Volcano", {"minTaskMember": {"a": "one"}}, "its PodGroup cannot be read: "),
        (
            "Volcano",
            {
                "subGroupPolicy": [
                    POLICY
                    | {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
                ]
            },
            "its PodGroup cannot be read: ",
        ),
        (
            "KAI",
            {"subGroups": [{"name": "a", "minMember": 1, "topologyConstraint": {"topology": "t"}}]},
            f"topologyConstraint of a subGroup {NOT_EVALUATED}",
        ),
        (
            "KAI",
            {"subGroups": [{"name": "a"}]},
            "one of its subGroups does not say how many pods it needs",
        ),
        (
            "KAI",
            {"subGroups": [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 2}]},
            "several of its subgroups have one name",
        ),
        (
            "KAI",
            {"subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]},
            "its subGroups are a circle",
        ),
        ("KAI", {"subGroups": [{"minMember": 1}]}, "its PodGroup cannot be read: "),
    ],
)
def test_parts_that_are_not_understood_keep_all_pods(system: str, fields: Any, stays: str) -> None:
    """R2.2, R2.4, X4: unknown means no eviction."""
    found = read(system, {"minMember": 1, **fields})
    assert found.stays.startswith(stays)
    assert not found.parts


@pytest.mark.parametrize(
    ("said", "topology", "stays"),
    [
        ({}, None, ""),
        ({"highestTierAllowed": 1}, GroupTopology(hard=True, highest_tier=1), ""),
        ({"mode": "soft"}, GroupTopology(hard=False), ""),
        (
            {"mode": "hard", "highestTierName": "rack"},
            GroupTopology(hard=True, highest_tier_name="rack"),
            "",
        ),
        (
            {"mode": "near"},
            None,
            "the mode near of its networkTopology is not known",
        ),
    ],
)
def test_a_group_says_how_near_its_pods_must_be(
    said: Any, topology: GroupTopology | None, stays: str
) -> None:
    """R2.4: the mode is hard by default; what is not known keeps all pods."""
    found = read("Volcano", {"minMember": 1, "networkTopology": said})
    assert (found.topology, found.stays) == (topology, stays)


def test_a_topology_that_cannot_be_read_keeps_all_pods() -> None:
    """X4: a tier that is no number."""
    found = read("Volcano", {"minMember": 1, "networkTopology": {"highestTierAllowed": "1"}})
    assert found.stays.startswith("its PodGroup cannot be read: ")


@pytest.mark.parametrize(
    ("mode", "together"), [({"all": {}}, True), ("PodGroup", True), ({"later": {}}, False)]
)
def test_pods_that_are_only_disrupted_together_stay(mode: Any, *, together: bool) -> None:
    """R2.3: a mode that is not known is like `all`, but that the pods never leave together."""
    found = read(
        "Kubernetes", {"schedulingPolicy": {"gang": {"minCount": 1}}, "disruptionMode": mode}
    )
    assert found.stays == "disruptionMode: its pods are only disrupted together"
    assert found.together is together


def test_a_group_of_unknown_minimum_never_leaves_together() -> None:
    """R2.3, X4."""
    assert not read("Kubernetes", {"disruptionMode": "PodGroup"}).together


@pytest.mark.parametrize("system", POD_GROUPS)
@pytest.mark.parametrize(
    ("spec", "stays"),
    [
        (None, NOT_SAID),
        ({}, NOT_SAID),
        ({"minMember": None, "schedulingPolicy": {}}, NOT_SAID),
        ({"minMember": "6", "schedulingPolicy": 7}, "its PodGroup cannot be read: "),
        ({"minMember": 2**40, "schedulingPolicy": []}, "its PodGroup cannot be read: "),
        ([], "its PodGroup cannot be read: "),
    ],
)
def test_a_group_that_is_not_understood_keeps_its_own_pods_only(
    system: str, spec: Any, stays: str
) -> None:
    """X4: unknown means no eviction, and no object of a tenant ends a cycle."""
    assert read(system, spec).stays.startswith(stays)


def test_the_systems_are_those_of_the_table() -> None:
    assert set(DECLARED_GROUPS) == {row.system for row in SYSTEMS if row.declared}
    assert all(kind.is_optional for kinds in DECLARED_GROUPS.values() for kind in kinds)


REQUIRED, PREFERRED = "requiredTopologyLevel", "preferredTopologyLevel"


@pytest.mark.parametrize(
    ("said", "topology", "stays"),
    [
        (None, None, ""),
        ({REQUIRED: "rack"}, None, ""),
        (
            {"topology": "net", REQUIRED: "rack"},
            GroupTopology(hard=True, level="rack", topology="net"),
            "",
        ),
        (
            {"topology": "net", PREFERRED: "rack", REQUIRED: ""},
            GroupTopology(hard=False, preferred_level="rack", topology="net"),
            "",
        ),
        (
            {"topology": "net", REQUIRED: "block", PREFERRED: "rack"},
            GroupTopology(hard=True, level="block", preferred_level="rack", topology="net"),
            "",
        ),
        ({"topology": "net"}, None, "the topologyConstraint of its PodGroup names no level"),
        (
            {"topology": "net", REQUIRED: "rack", "sliceSize": 2},
            None,
            f"sliceSize in the topologyConstraint {NOT_EVALUATED}",
        ),
        ({"topology": 7}, None, "its PodGroup cannot be read: "),
    ],
)
def test_a_group_of_kai_names_a_level_of_a_topology(
    said: Any, topology: GroupTopology | None, stays: str
) -> None:
    """R2.4: without a Topology KAI ignores it, and without a level it places no pod."""
    found = read("KAI", {"minMember": 1, "topologyConstraint": said})
    assert found.topology == topology
    assert found.stays.startswith(stays)
    assert bool(found.stays) == bool(stays)


@pytest.mark.parametrize(
    ("said", "topology", "stays"),
    [
        (None, None, ""),
        ({"topology": []}, None, ""),
        ({"topology": [{"key": "rack"}]}, GroupTopology(hard=True, level="rack"), ""),
        (
            {"topology": [{"key": "rack"}, {"key": "block"}]},
            None,
            f"more than one topology {NOT_EVALUATED}",
        ),
        ({"topology": [{}]}, None, "the topology of its PodGroup names no label"),
        (
            {"topology": [{"key": "rack", "mode": "Preferred"}]},
            None,
            f"mode in the topology {NOT_EVALUATED}",
        ),
        ({"spread": {"key": "rack"}}, None, f"spread in the schedulingConstraints {NOT_EVALUATED}"),
        ({"topology": [7]}, None, "its PodGroup cannot be read: "),
    ],
)
def test_a_group_of_kubernetes_names_a_label(
    said: Any, topology: GroupTopology | None, stays: str
) -> None:
    """R2.4: all its pods have one value of it."""
    policy = {"gang": {"minCount": 1}}
    found = read("Kubernetes", {"schedulingPolicy": policy, "schedulingConstraints": said})
    assert found.stays.startswith(stays)
    assert bool(found.stays) == bool(stays)
    if not stays:
        assert found.topology == topology
