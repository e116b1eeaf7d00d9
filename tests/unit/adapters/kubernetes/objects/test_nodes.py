from datetime import UTC, datetime

import msgspec
import pytest

from desched.adapters.kubernetes.client.api_types import nodes
from desched.adapters.kubernetes.objects.nodes import node
from desched.model.cluster import Node, Taint
from desched.model.resources import Amounts
from tests.unit.adapters.kubernetes import manifests

GI = 2**30


def built(document: manifests.Object) -> Node:
    return node(msgspec.json.decode(msgspec.json.encode(document), type=nodes.Node))


def test_a_realistic_node_comes_out_whole() -> None:
    assert built(manifests.node()) == Node(
        name="te1",
        uid="uid-te1",
        created_at=datetime(2026, 1, 10, 8, tzinfo=UTC),
        labels={"kubernetes.io/os": "linux"},
        capacity=Amounts(cpu_millicores=4000, memory_bytes=16 * GI, pods=110),
        allocatable=Amounts(cpu_millicores=3920, memory_bytes=16 * GI, pods=110),
        addresses=("10.0.0.7", "te1"),
        images={
            "registry.example/web@sha256:4f53": 120_000_000,
            "registry.example/web:1": 120_000_000,
        },
    )


def test_nodes_share_the_names_of_their_images() -> None:
    one, other = (built(manifests.node(name)).images for name in ("te1", "te2"))

    assert all(a is b for a, b in zip(one, other, strict=True))


def test_images_without_names_or_size_are_no_error() -> None:
    document = manifests.node()
    document["status"]["images"] = [{"names": None, "sizeBytes": 5}, {"names": ["a:1"]}]

    assert built(document).images == {"a:1": 0}


def test_a_node_that_is_being_removed_is_deleting_and_unschedulable() -> None:
    document = manifests.node()
    document["metadata"]["deletionTimestamp"] = manifests.CREATED
    document["spec"] = {
        "unschedulable": True,
        "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "gpu", "value": "yes", "effect": "NoExecute"},
        ],
    }
    found = built(document)

    assert found.deleting
    assert found.unschedulable
    assert found.taints == (
        Taint("node.kubernetes.io/unschedulable", "NoSchedule"),
        Taint("gpu", "NoExecute", "yes"),
    )


@pytest.mark.parametrize(
    "conditions",
    [None, [], [{"type": "Ready", "status": "Unknown"}], [{"type": "Ready", "status": "False"}]],
)
def test_a_node_is_ready_only_if_its_condition_is_true(conditions: object) -> None:
    document = manifests.node()
    document["status"]["conditions"] = conditions

    assert not built(document).ready


def test_a_new_node_without_status_has_nothing_to_offer() -> None:
    found = built({"metadata": manifests.metadata("new", "")})

    assert (found.ready, found.capacity, found.allocatable) == (False, Amounts(), Amounts())


@pytest.mark.parametrize(
    ("info", "label", "expected"),
    [("windows", "linux", "windows"), (None, "windows", "windows"), (None, "", "linux")],
)
def test_the_operating_system_is_the_kubelets_word_else_the_labels(
    info: str | None, label: str, expected: str
) -> None:
    document = manifests.node()
    document["status"]["nodeInfo"] = {"operatingSystem": info}
    document["metadata"]["labels"] = {"kubernetes.io/os": label}

    assert built(document).operating_system == expected


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        ([("Ready", "True", 1), ("DiskPressure", "False", 2)], None),
        ([("Ready", "Unknown", 3)], 3),
        ([("Ready", "False", 3), ("MemoryPressure", "Unknown", 2)], 3),
        ([("Ready", "True", 1), ("PIDPressure", "True", 2), ("DiskPressure", "True", 3)], 2),
        ([("Ready", "False", None)], None),
    ],
)
def test_trouble_begins_with_the_first_condition_that_is_wrong(
    conditions: list[tuple[str, str, int | None]], since: int | None
) -> None:
    document = manifests.node()
    document["status"]["conditions"] = [
        {
            "type": kind,
            "status": status,
            "lastTransitionTime": None if hour is None else f"2026-05-01T0{hour}:00:00Z",
        }
        for kind, status, hour in conditions
    ]

    expected = None if since is None else datetime(2026, 5, 1, since, tzinfo=UTC)
    assert built(document).troubled_since == expected
