from typing import Any

import pytest

from desched.adapters.kubernetes.objects.budgets import BUDGETS, SERVICES
from desched.adapters.kubernetes.objects.storage import CLAIMS, CSI_NODES, STORAGE_CLASSES, VOLUMES
from desched.api_objects.kinds import Kind
from desched.errors import ObservationError
from desched.model.cluster import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    Service,
    StorageClass,
)
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from tests.unit.adapters.kubernetes import manifests


def built(kind: Kind[Any, Any], document: Any) -> Any:
    return manifests.built(kind, [document])[0]


def budget(selector: dict[str, Any] | None, **status: int) -> PodDisruptionBudget:
    found: PodDisruptionBudget = built(BUDGETS, manifests.budget(selector, **status))
    return found


def test_a_budget_without_a_selector_covers_nothing_and_an_empty_one_everything() -> None:
    assert budget(None).selector is None
    assert budget({}).selector == LabelSelector()
    assert budget({"matchLabels": None, "matchExpressions": None}).selector == LabelSelector()


def test_a_budgets_selector_is_the_conjunction_of_labels_and_expressions() -> None:
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front", "back"]},
            {"key": "canary", "operator": "DoesNotExist"},
        ],
    }

    assert budget(selector) == PodDisruptionBudget(
        "shop",
        "web",
        LabelSelector(
            (
                Requirement("app", Operator.IN, ("web",)),
                Requirement("tier", Operator.IN, ("front", "back")),
                Requirement("canary", Operator.DOES_NOT_EXIST),
            )
        ),
        disruptions_allowed=2,
    )


def test_a_budget_that_its_controller_has_not_seen_is_not_up_to_date() -> None:
    assert not budget({}, observedGeneration=0).up_to_date
    assert budget({}, observedGeneration=1).up_to_date


def test_a_budget_with_an_operator_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ObservationError, match="Like"):
        budget({"matchExpressions": [{"key": "a", "operator": "Like"}]})


def test_claims_name_their_class_and_volume_and_whether_they_are_for_one_pod() -> None:
    bound = {
        "metadata": manifests.metadata("data"),
        "spec": {"storageClassName": "fast", "volumeName": "pv-1"},
    }
    fresh = {"metadata": manifests.metadata("data"), "spec": {"storageClassName": None}}
    alone = {"metadata": manifests.metadata("data"), "spec": {"accessModes": ["ReadWriteOncePod"]}}

    assert built(CLAIMS, bound) == PersistentVolumeClaim(
        "shop", "data", "fast", "pv-1", for_one_node=True
    )
    assert built(CLAIMS, fresh) == PersistentVolumeClaim("shop", "data", for_one_node=True)
    assert built(CLAIMS, alone).for_one_pod


@pytest.mark.parametrize("source", ["local", "hostPath"])
def test_a_volume_on_a_nodes_own_disk_is_local(source: str) -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    document = {
        "metadata": manifests.metadata("pv-1", ""),
        "spec": {
            "storageClassName": "disk",
            source: {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [zone]}},
        },
    }

    assert built(VOLUMES, document) == PersistentVolume(
        "pv-1",
        "disk",
        (NodeSelectorTerm((Requirement("zone", Operator.IN, ("a",)),)),),
        local=True,
    )


def test_a_network_volume_can_be_reached_from_every_node() -> None:
    document = {
        "metadata": manifests.metadata(
            "pv-1", "", labels={"topology.kubernetes.io/zone": "a__b", "team": "shop"}
        ),
        "spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"}, "nodeAffinity": None},
    }

    assert built(VOLUMES, document) == PersistentVolume(
        "pv-1",
        csi_driver="ebs.csi.aws.com",
        csi_handle="v",
        labels={"topology.kubernetes.io/zone": "a__b"},
    )


@pytest.mark.parametrize(
    ("mode", "waits"), [("WaitForFirstConsumer", True), ("Immediate", False), (None, False)]
)
def test_a_storage_class_has_whether_volumes_wait_for_their_pod(
    mode: str | None, *, waits: bool
) -> None:
    document = {
        "metadata": manifests.metadata("fast", ""),
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": mode,
    }

    assert built(STORAGE_CLASSES, document) == StorageClass("fast", "ebs.csi.aws.com", waits)


def test_a_storage_class_may_name_where_its_volumes_can_be_made() -> None:
    in_zone = {"key": "zone", "values": ["a", "b"]}
    document = {
        "metadata": manifests.metadata("fast", ""),
        "provisioner": "ebs.csi.aws.com",
        "allowedTopologies": [{"matchLabelExpressions": [in_zone]}, {}],
    }

    found = built(STORAGE_CLASSES, document)
    assert found.topologies == (
        NodeSelectorTerm((Requirement("zone", Operator.IN, ("a", "b")),)),
        NodeSelectorTerm(),
    )


def test_a_driver_without_a_count_has_no_limit() -> None:
    document = {
        "metadata": manifests.metadata("te1", ""),
        "spec": {
            "drivers": [
                {"name": "ebs", "nodeID": "i", "allocatable": {"count": 25}},
                {"name": "nfs", "nodeID": "i", "allocatable": None},
                {"name": "efs", "nodeID": "i", "allocatable": {}},
            ]
        },
    }

    assert built(CSI_NODES, document) == CSINode("te1", {"ebs": 25})


@pytest.mark.parametrize(
    ("spec", "selector"), [({"selector": {"app": "web"}}, {"app": "web"}), ({}, {})]
)
def test_a_service_has_a_selector_or_selects_nothing(
    spec: dict[str, Any], selector: dict[str, str]
) -> None:
    document = {"metadata": manifests.metadata("web"), "spec": spec}

    found = built(SERVICES, document)

    assert found == Service("shop", "web", selector)


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (["ReadWriteOnce"], True),
        (["ReadWriteOncePod"], True),
        (["ReadWriteOnce", "ReadWriteMany"], False),
        (["ReadOnlyMany"], False),
        (None, True),
    ],
)
def test_a_claim_is_for_one_node_without_a_mode_for_several(
    modes: list[str] | None, *, expected: bool
) -> None:
    document = {"metadata": {"name": "data", "namespace": "shop"}, "spec": {"accessModes": modes}}
    assert built(CLAIMS, document).for_one_node is expected
