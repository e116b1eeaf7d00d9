"""GPUs and fast networks among extended resources, which several plugins tell apart."""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache

from desched.model.cluster import Pod
from desched.model.networks import NETWORK_RESOURCES, networks_of
from desched.model.resources import DEVICES, Amounts

GPU_RESOURCES = (
    f"{DEVICES}*",
    "*/gpu*",
    "*/vgpu*",
    "amd.com/*",
    "aws.amazon.com/neuron*",
    "cambricon.com/*",
    "google.com/tpu",
    "gpu.intel.com/*",
    "habana.ai/*",
    "huawei.com/Ascend*",
    "nvidia.com/*",
)
"""Patterns of extended resources that are GPUs, parts of them, or other accelerators."""

SUMMED_RESOURCES = (
    "*/gpu-core*",
    "*/gpu-mem*",
    "*/gpu.core*",
    "*/sgpu-*",
    "*/vcore",
    "*/vmemory",
    "*/vcuda-*",
    "*.vcore",
    "*.vmemory",
    "*dcucores*",
    "*dcumem*",
    "*gpucores*",
    "*gpumem*",
    "huawei.com/Ascend*-memory",
    "koordinator.sh/gpu*",
    "volcano.sh/gpu-*",
    "volcano.sh/vgpu-*",
)
"""Patterns of extended resources that are parts of devices: a node has the sum over its devices."""

WHOLE_GPUS = (
    "*/gpu",
    f"{DEVICES}gpu.*.com",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neurondevice",
    "cambricon.com/mlu",
    "cambricon.com/mlu[0-9]*",
    "google.com/tpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "huawei.com/Ascend310",
    "huawei.com/Ascend310P",
    "huawei.com/Ascend910",
)
"""Patterns of extended resources that are whole devices, unless these are shared."""

NO_GPUS = ("*/dra.net*", "*cpu*", "*netdev*", "*rdma*", "*sriov*")
"""Patterns of devices of ResourceClaims that are no GPUs, unless `gpu` is a part of their names."""

FAST_NETWORK_RESOURCES = (
    "*/efa",
    "*rdma*",
    "*/hca*",
    f"{DEVICES}dra.net*",
    f"{NETWORK_RESOURCES}*",
)
"""Patterns of extended resources that are interfaces of a fast network."""


NVIDIA = ("nvidia.com/", f"{DEVICES}gpu.nvidia.com")
"""The prefixes of GPUs whose load can be measured, and of their parts."""

SHARING_STRATEGY = "nvidia.com/gpu.sharing-strategy"
"""The label of a node whose GPUs pods share, with how."""


def has_nvidia_gpu(amounts: Amounts) -> bool:
    """Whether there is a GPU of NVIDIA, or a part of one, among the amounts."""
    return any(count and name.startswith(NVIDIA) for name, count in amounts.extended)


_OF_NVIDIA = re.compile(
    r"nvidia\.com/(gpu|mig-[^/]+)(\.shared)?|"
    rf"{re.escape(DEVICES)}gpu\.nvidia\.com(/(gpu|mig))?"
)


def nvidia_gpus(amounts: Amounts) -> int:
    """How many GPUs and MIG instances of NVIDIA, or shares of one, are among the amounts."""
    counts = (count for name, count in amounts.extended if _OF_NVIDIA.fullmatch(name))
    return sum(counts)


@lru_cache(maxsize=1000)
def is_gpu(resource: str) -> bool:
    """Whether the extended resource of this name is a GPU or the like.

    A device of a ResourceClaim is one unless its name shows that it is something else.
    """
    is_device = resource.startswith(DEVICES) and "gpu" not in resource
    if is_device and any(fnmatchcase(resource, pattern) for pattern in NO_GPUS):
        return False
    return any(fnmatchcase(resource, pattern) for pattern in GPU_RESOURCES)


@lru_cache(maxsize=1000)
def is_whole_gpu(resource: str) -> bool:
    """Whether the extended resource of this name counts whole GPUs or other accelerators."""
    return any(fnmatchcase(resource, pattern) for pattern in WHOLE_GPUS) and not _is_sum(resource)


def whole_gpus(amounts: Amounts) -> int:
    """The number of whole GPUs or other accelerators among the amounts."""
    return sum(count for name, count in amounts.extended if is_whole_gpu(name))


def gpus_of(requests: Amounts) -> str:
    """The first GPU resource among the requests, as `NAME: COUNT`; empty without any."""
    return _first(requests, is_gpu)


def summed_devices_of(requests: Amounts) -> str:
    """The first part of a device among the requests, as `NAME: COUNT`; empty without any."""
    return _first(requests, _is_sum)


def _first(requests: Amounts, counts: Callable[[str], bool]) -> str:
    counts_of = (f"{name}: {count}" for name, count in requests.extended if count and counts(name))
    return next(counts_of, "")


@lru_cache(maxsize=1000)
def _is_sum(resource: str) -> bool:
    return any(fnmatchcase(resource, pattern) for pattern in SUMMED_RESOURCES)


def has_fast_network(pod: Pod) -> bool:
    """Whether the pod uses a network beside the one of all pods."""
    resources = pod.scheduling.requests.extended
    return bool(networks_of(pod.annotations)) or any(_is_fast(name) for name, _ in resources)


@lru_cache(maxsize=1000)
def _is_fast(resource: str) -> bool:
    return any(fnmatchcase(resource, pattern) for pattern in FAST_NETWORK_RESOURCES)
