"""Pods with devices and ResourceClaims, and pods whose networks are not known."""

from desched.model.cluster import Pod
from desched.model.networks import INTERFACES, networks_of
from desched.planning.eligibility.terms import Terms, Why


def unknown(pod: Pod, _: Terms) -> Why:
    """Devices of which no plugin knows whether pods have parts of them."""
    amounts = pod.scheduling.requests.extended
    return next((name for name, count in amounts if count and "/" in name), None)


def resource_claims(pod: Pod, terms: Terms) -> Why:
    """ResourceClaims whose devices are not counted, or that the policy protects."""
    by_policy = terms.protections.resource_claims and "PodsWithResourceClaims"
    return pod.has_resource_claims and (pod.uncounted_claims or by_policy)


def unknown_networks(pod: Pod, _: Terms) -> Why:
    """Networks that cannot be compared with those of nodes."""
    return networks_of(pod.annotations) is None and INTERFACES
