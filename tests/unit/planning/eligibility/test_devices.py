"""Pods with GPUs stay by default, and so do pods whose networks or claims are not known."""

import pytest

from desched.model.cluster import PodVolume, VolumeKind
from desched.plugins import HOUSE
from desched.plugins.gpus.keys import GpuPods
from desched.plugins.gpus.plugin import Gpus
from tests.builders import amounts, house
from tests.unit.planning.eligibility.candidate import Candidate

GPUS_MOVE = house(Gpus(gpu_pods=GpuPods.ALLOW))
GPUS = amounts(0.1, 0.1, **{"nvidia.com/gpu": 8})


def test_the_policy_or_an_annotation_lets_it_move() -> None:
    by_policy = Candidate(request=GPUS)
    by_policy.plugins = GPUS_MOVE
    assert by_policy.reason is None
    assert Candidate(request=GPUS).annotate("desched.io/evict", "true").reason is None


@pytest.mark.parametrize(
    "name",
    [
        "volcano.sh/vgpu-memory",
        "volcano.sh/vgpu-number",
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "koordinator.sh/gpu-core",
        "aliyun.com/gpu-mem",
        "tencent.com/vcuda-memory",
        "cambricon.com/mlu.smlu.vmemory",
        "huawei.com/Ascend310P-memory",
    ],
)
def test_a_pod_with_parts_of_devices_stays_under_any_policy(name: str) -> None:
    one = Candidate(request=amounts(0.1, 0.1, **{name: 60})).annotate("desched.io/evict", "true")
    one.plugins = GPUS_MOVE
    assert one.finding() == ("devices_summed", f"{name}: 60")


@pytest.mark.parametrize("name", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"])
def test_devices_that_are_counted_one_by_one_may_move(name: str) -> None:
    one = Candidate(request=amounts(0.1, 0.1, **{name: 1}))
    one.plugins = GPUS_MOVE
    assert one.reason is None


@pytest.mark.parametrize(("name", "stays"), [("nvidia.com/gpu", True), ("hugepages-2Mi", False)])
def test_without_a_plugin_that_knows_devices_pods_with_some_stay(name: str, *, stays: bool) -> None:
    one = Candidate(request=amounts(0.1, 0.1, **{name: 1}))
    one.plugins = tuple(plugin for plugin in HOUSE if not isinstance(plugin, Gpus))
    assert one.finding() == (("devices_summed", name) if stays else None)


@pytest.mark.parametrize("name", ["hugepages-2Mi", "vpc.amazonaws.com/efa"])
def test_other_extended_resources_do_not_protect(name: str) -> None:
    assert Candidate(request=amounts(0.1, 0.1, **{name: 1})).reason is None


def test_counted_claims_keep_a_pod_only_if_the_policy_says_so() -> None:
    one = Candidate(has_resource_claims=True, uncounted_claims="")
    assert one.reason is None
    one.protections["resource_claims"] = True
    assert one.finding() == ("resource_claims", "PodsWithResourceClaims")


@pytest.mark.parametrize(
    ("devices", "is_gpu"),
    [
        ("gpu.nvidia.com/gpu", True),
        ("accelerators.example.com", True),
        ("gpu-rdma.example.com", True),
        ("dra.net", False),
        ("rdma.example.com", False),
        ("dra.cpu", False),
    ],
)
def test_counted_devices_are_gpus_unless_their_driver_says_otherwise(
    devices: str, *, is_gpu: bool
) -> None:
    """S3.6: in doubt, the pod stays."""
    request = amounts(0.1, 0.1, **{f"resource.k8s.io/{devices}": 1})
    one = Candidate(request=request, has_resource_claims=True, uncounted_claims="")
    assert one.reason == ("gpu_pod" if is_gpu else None)


def test_a_pod_with_the_paths_of_a_fast_network_and_memory_is_no_local_storage() -> None:
    """R1.1, R3.5: driver paths and emptyDirs in memory do not keep a pod that has its devices."""
    paths = ("/home/kubernetes/bin/nvidia/lib64", "/run/tcpx", "/sys", "/proc/sys")
    mounts = [PodVolume(VolumeKind.HOST_PATH, path=path) for path in paths]
    shm = PodVolume(VolumeKind.EMPTY_DIR, in_memory=True)
    one = Candidate(request=GPUS, volumes=(*mounts, shm))
    one.plugins = GPUS_MOVE
    assert one.reason is None
