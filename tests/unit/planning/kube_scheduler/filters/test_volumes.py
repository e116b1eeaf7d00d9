"""On which nodes a pod fits because of its volumes."""

from typing import Any

import pytest

from desched.model.cluster import (
    ClusterState,
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodVolume,
    StorageClass,
    VolumeKind,
)
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.planning.placement.free_capacity import FreeCapacity
from tests.builders import free_capacity, node, pod
from tests.schedulable import planned_for

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

NODES = (node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"}), node("nowhere", labels={}))


def with_claims(name: str, *claims: str, on: str = "") -> Pod:
    return pod(name, on=on, volumes=tuple(PodVolume(VolumeKind.CLAIM, c) for c in claims))


def claimed(*volumes: PersistentVolume) -> dict[str, Any]:
    """A claim of the same name for each volume."""
    return {
        "claims": {
            ("apps", v.name): PersistentVolumeClaim("apps", v.name, "fast", v.name) for v in volumes
        },
        "volumes": {v.name: v for v in volumes},
    }


def free(*pods: Pod, nodes: tuple[Node, ...] = NODES, **cluster: Any) -> FreeCapacity:
    return free_capacity(ClusterState(nodes, pods, **cluster))


def destinations(one: Pod, *others: Pod, **cluster: Any) -> list[str]:
    return planned_for(one, ClusterState(NODES, others, **cluster))


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ({}, ["a", "b", "nowhere"]),
        ({ZONE: "a"}, ["a", "nowhere"]),
        ({ZONE: "b__c"}, ["b", "nowhere"]),
        ({ZONE: "a__b"}, ["a", "b", "nowhere"]),
        ({BETA_ZONE: "a"}, ["a", "nowhere"]),
        ({REGION: "x"}, ["nowhere"]),
        ({ZONE: "a__"}, ["a", "b", "nowhere"]),
    ],
)
def test_a_volume_of_a_zone_is_attached_there_or_where_no_zone_is_known(
    labels: dict[str, str], fits: list[str]
) -> None:
    cluster = claimed(PersistentVolume("v", labels=labels))
    assert destinations(with_claims("p", "v"), **cluster) == fits


def test_a_claim_that_waits_for_its_consumer_fits_anywhere_and_another_unbound_one_nowhere() -> (
    None
):
    claims = {("apps", "v"): PersistentVolumeClaim("apps", "v", "fast")}
    waits = {"fast": StorageClass("fast", "csi.lab", waits_for_consumer=True)}
    at_once = {"fast": StorageClass("fast", "csi.lab")}
    one = with_claims("p", "v")
    assert len(destinations(one, claims=claims, storage_classes=waits)) == 3
    assert destinations(one, claims=claims, storage_classes=at_once) == []


IN_A = NodeSelectorTerm((Requirement(ZONE, Operator.IN, ("a",)),))
IN_B = NodeSelectorTerm((Requirement(ZONE, Operator.IN, ("b",)),))


def test_a_bound_claim_fits_on_the_nodes_of_its_volume() -> None:
    """R1.3: the node affinity of every bound volume counts."""
    cluster = claimed(
        PersistentVolume("v", node_affinity=(IN_A, IN_B)),
        PersistentVolume("w", node_affinity=(IN_B,)),
    )
    assert destinations(with_claims("p", "v"), **cluster) == ["a", "b"]
    assert destinations(with_claims("p", "v", "w"), **cluster) == ["b"]


def test_a_claim_that_is_not_bound_fits_where_its_class_makes_volumes() -> None:
    claims = {("apps", "v"): PersistentVolumeClaim("apps", "v", "fast")}
    only_in_a = {
        "fast": StorageClass("fast", "csi.lab", waits_for_consumer=True, topologies=(IN_A,))
    }
    assert destinations(with_claims("p", "v"), claims=claims, storage_classes=only_in_a) == ["a"]


@pytest.mark.parametrize(
    ("made", "bound_to", "fits"),
    [
        (StorageClass("fast", "csi.lab", waits_for_consumer=True), IN_A, ["a", "b", "nowhere"]),
        (
            StorageClass("fast", "csi.lab", waits_for_consumer=True, topologies=(IN_A, IN_B)),
            IN_A,
            ["a", "b"],
        ),
        (StorageClass("fast", "csi.lab"), IN_A, []),
        (StorageClass("fast", "csi.lab"), None, ["a", "b", "nowhere"]),
    ],
)
def test_a_replacement_gets_a_new_ephemeral_volume_where_its_class_makes_one(
    made: StorageClass, bound_to: NodeSelectorTerm | None, fits: list[str]
) -> None:
    cluster = claimed(PersistentVolume("v", node_affinity=(bound_to,) if bound_to else None))
    victim = pod("p", on="a", volumes=(PodVolume(VolumeKind.EPHEMERAL_CLAIM, "v"),))
    found = free(victim, storage_classes={"fast": made}, **cluster)
    feasible = found.feasible(victim, "a")
    assert [n for n, fit in zip(found.names, feasible, strict=True) if fit] == fits


def csi(name: str, handle: str = "") -> PersistentVolume:
    return PersistentVolume(name, csi_driver="csi.lab", csi_handle=handle or name)


def limits(**by_node: int) -> dict[str, CSINode]:
    return {name: CSINode(name, {"csi.lab": limit}) for name, limit in by_node.items()}


def test_a_node_attaches_no_more_volumes_of_a_driver_than_its_limit() -> None:
    cluster = claimed(csi("v"), csi("w"), csi("x"))
    cluster["csi_nodes"] = limits(a=1, b=2)
    holders = [with_claims("h", "w", on="a"), with_claims("i", "w", on="b")]
    assert destinations(with_claims("p", "v"), *holders, **cluster) == ["b", "nowhere"]
    assert destinations(with_claims("p", "v", "x"), *holders, **cluster) == ["nowhere"]


def test_a_volume_that_is_attached_already_counts_once() -> None:
    cluster = claimed(csi("v"), csi("w", handle="v"))
    cluster["csi_nodes"] = limits(a=1)
    holders = [with_claims("h", "v", on="a"), with_claims("i", "v", on="a")]
    assert destinations(with_claims("p", "w"), *holders, **cluster) == ["a", "b", "nowhere"]


def test_a_volume_without_a_csi_handle_is_not_counted() -> None:
    cluster = claimed(csi("v"), PersistentVolume("w"))
    cluster["csi_nodes"] = limits(a=0)
    assert "a" not in destinations(with_claims("p", "v"), **cluster)
    assert "a" in destinations(with_claims("p", "w"), **cluster)


def test_a_victims_volumes_leave_with_it_unless_another_pod_holds_them() -> None:
    cluster = claimed(csi("v"), csi("w"))
    cluster["csi_nodes"] = limits(a=1, b=1)
    victim, other = with_claims("p", "v", on="a"), with_claims("q", "w", on="b")
    found = free(victim, other, **cluster)
    assert found.feasible(victim, "a").tolist() == [True, False, True]
    found.reserve("nowhere", victim, {}, leaving=victim)
    assert found.feasible(other, "b").tolist() == [True, True, True]
    shared = free(victim, with_claims("r", "v", on="a"), other, **cluster)
    shared.reserve("nowhere", victim, {}, leaving=victim)
    assert shared.feasible(other, "b").tolist() == [False, True, True]


def for_one_pod(name: str) -> dict[str, Any]:
    """A claim with the access mode ReadWriteOncePod, bound to a volume that every node reaches."""
    cluster = claimed(PersistentVolume(name))
    claim = PersistentVolumeClaim("apps", name, "fast", name, for_one_pod=True)
    return cluster | {"claims": {("apps", name): claim}}


def test_a_claim_for_one_pod_lets_no_second_pod_in_anywhere() -> None:
    holder, other = with_claims("h", "v", on="a"), with_claims("p", "v")
    assert destinations(other, **for_one_pod("v")) == ["a", "b", "nowhere"]
    assert destinations(other, holder, **for_one_pod("v")) == []
    assert len(destinations(other, holder, **claimed(PersistentVolume("v")))) == 3
    victim = with_claims("q", "v", on="b")
    found = free(holder, victim, **for_one_pod("v")).fit(victim, "b", {})
    assert "3 node has pod using PersistentVolumeClaim" in found.explanation


def test_a_victim_with_a_claim_for_one_pod_is_replaced_when_it_is_gone() -> None:
    victim = with_claims("p", "v", on="a")
    found = free(victim, **for_one_pod("v"))
    assert not found.feasible_beside(victim, "a").any()
    assert found.feasible(victim, "a").all()
    found.reserve("b", victim, {}, leaving=victim)
    assert not found.schedulable(with_claims("q", "v")).any()
