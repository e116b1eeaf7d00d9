"""Which pods with GPUs stay."""

from desched.model.cluster import Pod
from desched.model.plan import RefusalReason
from desched.planning.eligibility.rules import Rule
from desched.planning.eligibility.terms import Terms, Why
from desched.plugins.devices import gpus_of, summed_devices_of


def _summed(pod: Pod, _: Terms) -> Why:
    """A node may have enough parts of devices in sum, but on no single device."""
    return summed_devices_of(pod.scheduling.requests) or None


def _gpus(pod: Pod, _: Terms) -> Why:
    """A move for the load of the node's CPU or memory costs more than it brings."""
    return gpus_of(pod.scheduling.requests) or None


SUMMED_DEVICES = Rule(RefusalReason.DEVICES_SUMMED, _summed, before=RefusalReason.PVC_POD)
GPU_PODS = Rule(RefusalReason.GPU_POD, _gpus, lifted=True, before=RefusalReason.PVC_POD)
