"""Pods with GPUs, which the policy protects, and pods whose networks are not known."""

from desched.model.cluster import Pod
from desched.model.devices import INTERFACES, gpus_of, networks_of
from desched.planning.eligibility.context import EligibilityContext, Why


def gpus(pod: Pod, context: EligibilityContext) -> Why:
    """GPUs: a move for the load of the node's CPU or memory costs more than it brings."""
    return context.protections.gpu_pods and (gpus_of(pod.scheduling.requests) or None)


def unknown_networks(pod: Pod, _: EligibilityContext) -> Why:
    """Networks that cannot be compared with those of nodes."""
    return networks_of(pod.annotations) is None and INTERFACES
