"""Pods with GPUs and ResourceClaims, and pods whose networks are not known."""

from desched.model.cluster import Pod
from desched.model.devices import INTERFACES, gpus_of, networks_of, summed_devices_of
from desched.planning.eligibility.terms import Terms, Why


def gpus(pod: Pod, terms: Terms) -> Why:
    """GPUs: a move for the load of the node's CPU or memory costs more than it brings."""
    return terms.protections.gpu_pods and (gpus_of(pod.scheduling.requests) or None)


def summed(pod: Pod, _: Terms) -> Why:
    """Parts of devices: a node may have enough of them in sum, but on no single device."""
    return summed_devices_of(pod.scheduling.requests) or None


def resource_claims(pod: Pod, terms: Terms) -> Why:
    """ResourceClaims whose devices are not counted, or that the policy protects."""
    by_policy = terms.protections.resource_claims and "PodsWithResourceClaims"
    return pod.has_resource_claims and (pod.uncounted_claims or by_policy)


def unknown_networks(pod: Pod, _: Terms) -> Why:
    """Networks that cannot be compared with those of nodes."""
    return networks_of(pod.annotations) is None and INTERFACES
