"""GPUs among extended resources, and the networks that an annotation names."""

import json

import pytest

from desched.model.networks import INTERFACES, amounts_of_networks, interfaces_text, networks_of
from desched.plugins.devices import gpus_of, is_gpu, is_whole_gpu, nvidia_gpus, whole_gpus
from tests.builders import amounts

RAILS = tuple(f"vpc{i}" for i in range(1, 9))


def interfaces(*networks: str) -> dict[str, str]:
    listed = [{"interfaceName": f"eth{i}", "network": each} for i, each in enumerate(networks)]
    return {INTERFACES: json.dumps(listed, indent=2)}


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "habana.ai/gaudi",
        "google.com/tpu",
        "aws.amazon.com/neuroncore",
        "huawei.com/Ascend910",
        "aliyun.com/gpu-mem",
        "volcano.sh/vgpu-number",
        "example.com/gpu",
    ],
)
def test_accelerators_of_each_vendor_are_gpus(resource: str) -> None:
    assert is_gpu(resource)


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "amd.com/gpu",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
        "google.com/tpu",
        "aws.amazon.com/neuron",
        "huawei.com/Ascend910",
        "cambricon.com/mlu370",
        "resource.k8s.io/gpu.nvidia.com",
        "resource.k8s.io/gpu.nvidia.com/gpu",
    ],
)
def test_whole_devices_of_each_vendor_are_whole_gpus(resource: str) -> None:
    assert is_gpu(resource)
    assert is_whole_gpu(resource)


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/gpumem",
        "koordinator.sh/gpu",
        "aws.amazon.com/neuroncore",
        "huawei.com/Ascend910-16c",
        "cambricon.com/mlu.share",
        "resource.k8s.io/gpu.nvidia.com/mig",
        "volcano.sh/vgpu-number",
    ],
)
def test_parts_of_devices_are_no_whole_gpus(resource: str) -> None:
    assert not is_whole_gpu(resource)


def test_whole_gpus_of_all_names_are_counted() -> None:
    held = amounts(1, 1, **{"nvidia.com/gpu": 2, "amd.com/gpu": 1, "nvidia.com/mig-1g.5gb": 7})
    assert whole_gpus(held) == 3


@pytest.mark.parametrize(
    "resource",
    [
        "hugepages-2Mi",
        "vpc.amazonaws.com/efa",
        "rdma/hca",
        "networking.gke.io.networks/vpc1",
        "smarter-devices/fuse",
    ],
)
def test_other_devices_are_none(resource: str) -> None:
    assert not is_gpu(resource)


@pytest.mark.parametrize(
    ("resource", "count"),
    [
        ("nvidia.com/gpu", 2),
        ("nvidia.com/mig-1g.5gb", 2),
        ("nvidia.com/gpumem", 0),
        ("resource.k8s.io/gpu.nvidia.com", 2),
        ("resource.k8s.io/gpu.nvidia.com/mig", 2),
        ("resource.k8s.io/gpu.example.com", 0),
    ],
)
def test_gpus_of_nvidia_count_by_either_way_to_request_them(resource: str, count: int) -> None:
    assert nvidia_gpus(amounts(**{resource: 2})) == count


def test_requests_of_none_are_no_gpus() -> None:
    assert gpus_of(amounts(1, 1, **{"hugepages-2Mi": 4, "nvidia.com/gpu": 8})) == (
        "nvidia.com/gpu: 8"
    )
    assert not gpus_of(amounts(1, 1, **{"nvidia.com/gpu": 0}))


def test_each_network_but_that_of_all_pods_is_one_device_of_a_node() -> None:
    """R3.2: the networks of a pod whose specification lacks their resources."""
    found = networks_of(interfaces("default", *RAILS))
    assert found == RAILS
    assert dict(amounts_of_networks(RAILS).extended) == {
        f"networking.gke.io.networks/{rail}": 1 for rail in RAILS
    }


def test_without_the_annotation_there_are_none() -> None:
    assert networks_of({"other": "x"}) == ()
    assert networks_of(interfaces("default")) == ()


@pytest.mark.parametrize("text", ["", "[", '{"network": "a"}', '[{"interfaceName": "eth0"}]'])
def test_networks_that_cannot_be_read_are_not_known(text: str) -> None:
    """R3.2: malformed JSON is unknown."""
    assert networks_of({INTERFACES: text}) is None


@pytest.mark.parametrize("networks", [None, (), RAILS])
def test_a_shortened_annotation_means_the_same(networks: tuple[str, ...] | None) -> None:
    assert networks_of({INTERFACES: interfaces_text(networks)}) == networks
