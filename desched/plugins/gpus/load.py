"""The load of GPUs of NVIDIA."""

from typing import ClassVar

from desched.model.load import DeviceLoad
from desched.model.resources import Resource
from desched.plugins.devices import has_nvidia_gpu, nvidia_gpus


class GpuLoad(DeviceLoad, frozen=True):
    """The load of GPUs and MIG instances, or of shares of one."""

    plugin: ClassVar[str] = "gpus"
    resource: ClassVar[Resource] = Resource.GPU
    uses = staticmethod(has_nvidia_gpu)
    count = staticmethod(nvidia_gpus)
