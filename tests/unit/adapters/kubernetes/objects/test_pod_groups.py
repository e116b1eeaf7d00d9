"""PodGroups of each system: how many pods they need, and what keeps all of them."""

from typing import Any

import msgspec
import pytest

from desched.adapters.kubernetes.objects.pod_groups import POD_GROUPS
from desched.model.cluster import DeclaredGroup
from desched.model.pod_groups import SYSTEMS

NOT_SAID = "its PodGroup does not say how many pods it needs"


def read(system: str, spec: Any, status: Any = None) -> DeclaredGroup:
    document = {"metadata": {"namespace": "apps", "name": "llama"}, "spec": spec, "status": status}
    body = msgspec.json.encode({"metadata": {}, "items": [document]})
    (found,) = POD_GROUPS[system][0].decoder().page(body).values
    assert (found.system, found.namespace, found.name) == (system, "apps", "llama")
    return found


@pytest.mark.parametrize(
    ("system", "spec"),
    [
        ("Volcano", {"minMember": 6, "queue": "default", "minTaskMember": {}}),
        ("coscheduling", {"minMember": 6, "scheduleTimeoutSeconds": 10}),
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


@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_a_group_that_is_being_assembled_stays(phase: str) -> None:
    """R2.5: its scheduler has not placed all that it needs."""
    found = read("Volcano", {"minMember": 1}, {"phase": phase})
    assert found.stays == f"it is being assembled ({phase})"
    assert not read("Volcano", {"minMember": 1}, {"phase": "Running"}).stays


@pytest.mark.parametrize(
    ("system", "field", "value"),
    [
        ("Volcano", "minTaskMember", {"worker": 2}),
        ("Volcano", "networkTopology", {"mode": "hard", "highestTierAllowed": 1}),
        ("Volcano", "subGroupPolicy", [{"name": "a"}]),
        ("KAI", "subGroups", [{"name": "a", "minMember": 1}]),
        ("KAI", "topologyConstraint", {"requiredTopologyLevel": "rack"}),
        ("Kubernetes", "schedulingConstraints", {"topology": [{"key": "rack"}]}),
    ],
)
def test_what_is_not_evaluated_keeps_all_pods(system: str, field: str, value: Any) -> None:
    """R2.2, R2.4, X4: minima of parts, and topologies."""
    policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    found = read(system, {"minMember": 1, **policy, field: value})
    assert found.stays == f"{field} of its PodGroup is not evaluated"


@pytest.mark.parametrize("mode", [{"all": {}}, "PodGroup", {"later": {}}])
def test_pods_that_are_only_disrupted_together_stay(mode: Any) -> None:
    """R2.3: a mode that is not known is like `all`."""
    found = read(
        "Kubernetes", {"schedulingPolicy": {"gang": {"minCount": 1}}, "disruptionMode": mode}
    )
    assert found.stays == "disruptionMode: its pods are only disrupted together"


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
    assert set(POD_GROUPS) == {row.system for row in SYSTEMS if row.declared}
    assert all(kind.is_optional for kinds in POD_GROUPS.values() for kind in kinds)
