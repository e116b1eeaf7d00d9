"""Which volumes keep a pod where it is."""

import re

import pytest

from desched.model.cluster import PersistentVolume, PodVolume, VolumeKind
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.planning.eligibility.annotations import (
    OWN_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    SAFE_TO_EVICT_VOLUMES_ANNOTATION,
)
from desched.planning.eligibility.volumes import DRIVER_PATHS, SAME_ON_EVERY_NODE
from desched.plugins.gpus.keys import GpuPods
from desched.plugins.gpus.plugin import Gpus
from tests.builders import amounts, house, node
from tests.repository import ROOT
from tests.unit.planning.eligibility.candidate import Candidate

DOCUMENT = ROOT / "docs" / "eligibility.md"
KINDS = [VolumeKind.CLAIM, VolumeKind.EPHEMERAL_CLAIM]


def with_volume(volume: PersistentVolume | None, kind: VolumeKind = VolumeKind.CLAIM) -> Candidate:
    one = Candidate(volumes=(PodVolume(kind, "data"),))
    one.add_claim("data", volume, of="slow")
    return one


def bound_to(key: str, *values: str, operator: Operator = Operator.IN) -> PersistentVolume:
    term = NodeSelectorTerm((Requirement(key, operator, values),))
    return PersistentVolume("pv", node_affinity=(term,))


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_that_other_nodes_can_reach_does_not_keep_a_pod(kind: VolumeKind) -> None:
    assert with_volume(PersistentVolume("pv"), kind).reason is None


@pytest.mark.parametrize(
    ("storage_class", "reason"), [("fast", "pvc_pod"), ("slow", None), ("", "pvc_pod")]
)
def test_claims_are_protected_by_storage_class_and_those_without_class_too(
    storage_class: str, reason: str | None
) -> None:
    one = Candidate(volumes=(PodVolume(VolumeKind.CLAIM, "data"),))
    one.add_claim("data", PersistentVolume("pv"), of=storage_class)
    one.protections = {"pvc_pods": True, "protected_storage_classes": ("fast",)}
    assert one.reason == reason


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "volume",
    [
        PersistentVolume("pv", local=True),
        bound_to("kubernetes.io/hostname", "n1"),
        bound_to("kubernetes.io/hostname", "n1", "gone"),
        bound_to("kubernetes.io/hostname", "n1", "n1"),
        bound_to("topology.example.com/node", "n1"),
        PersistentVolume(
            "pv",
            node_affinity=(
                NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, ("n1",)),)),
            ),
        ),
    ],
)
def test_a_node_bound_volume_keeps_its_pod_whatever_policy_and_annotations_say(
    volume: PersistentVolume, kind: VolumeKind
) -> None:
    """R1.1, R1.4: data on the disk of a node."""
    one = with_volume(volume, kind).annotate(OWN_ANNOTATION, "true")
    one.nodes = tuple(
        node(name, labels={"kubernetes.io/hostname": name, "topology.example.com/node": name})
        for name in ("n1", "n2")
    )
    assert one.reason == "node_bound_volume"


@pytest.mark.parametrize(
    "volume",
    [
        bound_to("topology.kubernetes.io/zone", "a"),
        bound_to("topology.kubernetes.io/zone", operator=Operator.EXISTS),
        bound_to("kubernetes.io/hostname", "n1", operator=Operator.NOT_IN),
        bound_to("kubernetes.io/hostname", "n1", "n2"),
        PersistentVolume(
            "pv",
            node_affinity=(
                NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, ("n1", "n2")),)),
            ),
        ),
    ],
)
def test_a_volume_that_several_nodes_reach_does_not_keep_a_pod(volume: PersistentVolume) -> None:
    """R1.3: of a zone, or of a few nodes by their names."""
    one = with_volume(volume)
    one.nodes = tuple(
        node(name, labels={"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"})
        for name in ("n1", "n2")
    )
    assert one.reason is None


def test_a_volume_with_one_alternative_that_is_not_node_bound_does_not_keep_a_pod() -> None:
    terms = [bound_to("kubernetes.io/hostname", "n1"), bound_to("pool", "a")]
    one = with_volume(
        PersistentVolume("pv", node_affinity=tuple(t for v in terms for t in v.node_affinity or ()))
    )
    one.nodes = (node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "a"}))
    assert one.reason is None


def test_a_claim_or_volume_that_is_not_known_keeps_its_pod() -> None:
    unbound = with_volume(None)
    assert "not bound" in unbound.detail
    missing = Candidate(volumes=(PodVolume(VolumeKind.CLAIM, "data"),))
    assert missing.finding() == ("node_bound_volume", "claim data: it was not found")
    unseen = with_volume(PersistentVolume("pv"))
    unseen.volumes = {}
    assert "its volume pv was not found" in unseen.detail


@pytest.mark.parametrize(
    ("volume", "policy_opens", "asked", "reason"),
    [
        (PodVolume(VolumeKind.EMPTY_DIR, in_memory=True), False, False, None),
        (PodVolume(VolumeKind.EMPTY_DIR), False, False, "local_storage"),
        (PodVolume(VolumeKind.EMPTY_DIR), True, False, None),
        (PodVolume(VolumeKind.EMPTY_DIR), False, True, None),
        (PodVolume(VolumeKind.HOST_PATH, path="/data"), False, False, "host_path"),
        (PodVolume(VolumeKind.HOST_PATH, path="/data"), True, False, "host_path"),
        (PodVolume(VolumeKind.HOST_PATH, path="/data"), False, True, None),
    ],
)
def test_storage_of_the_node_is_told_apart(
    volume: PodVolume, reason: str | None, *, policy_opens: bool, asked: bool
) -> None:
    """R1.1: hostPaths may be caches of models."""
    one = Candidate(volumes=(volume,))
    one.protections["local_storage"] = not policy_opens
    if asked:
        one.annotate(OWN_ANNOTATION, "true")
    assert one.reason == reason


@pytest.mark.parametrize(
    "volume", [PodVolume(VolumeKind.EMPTY_DIR), PodVolume(VolumeKind.HOST_PATH, path="/data")]
)
def test_a_pod_that_cluster_autoscaler_may_evict_may_lose_its_local_storage(
    volume: PodVolume,
) -> None:
    one = Candidate(volumes=(volume,))
    one.annotate(SAFE_TO_EVICT_ANNOTATION, "true")
    assert one.reason is None
    odd = Candidate(volumes=(volume,)).annotate(SAFE_TO_EVICT_ANNOTATION, "True")
    assert odd.reason in {"local_storage", "host_path"}  # as Cluster Autoscaler reads it
    on_workload = Candidate(volumes=(volume,))
    on_workload.workload["annotations"] = {SAFE_TO_EVICT_ANNOTATION: "true"}
    assert on_workload.reason in {"local_storage", "host_path"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("data,logs", None),
        ("logs,data,others", None),
        ("logs", "local_storage"),
        ("data", "host_path"),
        ("data, logs", "host_path"),  # Cluster Autoscaler does not trim either
        ("", "local_storage"),
    ],
)
def test_volumes_that_cluster_autoscaler_may_lose_are_named(value: str, reason: str | None) -> None:
    on_disk = PodVolume(VolumeKind.EMPTY_DIR, name="data")
    of_host = PodVolume(VolumeKind.HOST_PATH, path="/data", name="logs")
    one = Candidate(volumes=(on_disk, of_host))
    one.annotate(SAFE_TO_EVICT_VOLUMES_ANNOTATION, value)
    assert one.reason == reason


def test_a_volume_without_a_name_is_never_named() -> None:
    one = Candidate(volumes=(PodVolume(VolumeKind.EMPTY_DIR),))
    one.annotate(SAFE_TO_EVICT_VOLUMES_ANNOTATION, "")
    assert one.reason == "local_storage"


def test_a_refusal_names_the_volumes_and_how_many_pods_stay_for_such() -> None:
    names = ("workload-socket", "credential-socket", "workload-certs", "istio-data", "logs")
    one = Candidate(volumes=tuple(PodVolume(VolumeKind.EMPTY_DIR, name=name) for name in names))
    one.annotate(SAFE_TO_EVICT_VOLUMES_ANNOTATION, "logs")
    assert one.finding() == (
        "local_storage",
        (
            "emptyDir credential-socket, istio-data, workload-certs and 1 more; "
            "1 of 1 pods of the cluster stay for such volumes"
        ),
    )


@pytest.mark.parametrize(
    ("path", "with_a_device", "reason"),
    [
        ("/sys", False, None),
        ("/sys/fs/cgroup/", False, None),
        ("/proc/sys", False, None),
        ("/etc/localtime", False, None),
        ("/system", False, "host_path"),
        ("/sys/../var/lib/data", False, "host_path"),
        ("", False, "host_path"),
        ("/", False, "host_path"),
        ("/dev", True, "host_path"),
        ("/dev/sda", True, "host_path"),
        ("/dev/nvidia0", True, None),
        ("/dev/nvidia0", False, "host_path"),
        ("/home/kubernetes/bin/nvidia/lib64", True, None),
        ("/home/kubernetes/bin/../data", True, "host_path"),
        ("/run/tcpx-daemon", True, None),
        ("/usr/local/nvidia", True, None),
        ("/var/run/nvidia-topologyd", True, None),
        ("/var/lib/models", True, "host_path"),
    ],
)
def test_paths_of_every_node_and_drivers_of_a_requested_device_do_not_keep_a_pod(
    path: str, reason: str | None, *, with_a_device: bool
) -> None:
    devices = {"nvidia.com/gpu": 1} if with_a_device else {"hugepages-2Mi": 2**21}
    one = Candidate(
        volumes=(PodVolume(VolumeKind.HOST_PATH, path=path),), request=amounts(0.1, 0.1, **devices)
    )
    one.plugins = house(Gpus(gpu_pods=GpuPods.ALLOW))
    assert one.reason == reason


def test_one_path_that_others_lack_among_several_keeps_a_pod() -> None:
    paths = ("/sys", "/dev/nvidia0", "/cache")
    one = Candidate(
        request=amounts(0.1, 0.1, **{"nvidia.com/gpu": 1}),
        volumes=tuple(PodVolume(VolumeKind.HOST_PATH, path=path) for path in paths),
    )
    one.plugins = house(Gpus(gpu_pods=GpuPods.ALLOW))
    assert one.finding() == ("host_path", "/cache")


def test_the_documented_paths_are_those_of_the_rule() -> None:
    text = DOCUMENT.read_text().partition("## Storage of the node")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`(/[^`]+)`", text))
    assert documented == {*SAME_ON_EVERY_NODE, *DRIVER_PATHS}
