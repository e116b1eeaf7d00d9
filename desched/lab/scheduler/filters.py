"""The filters of the simulated scheduler: on which nodes does a pod fit?

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins at v1.36. Left out: attach limits,
volume zones, claims for one pod only, preemption.
"""

import numpy as np

from desched.lab.scheduler.affinity import affinity_mask
from desched.lab.scheduler.spread import Usable, spread_mask
from desched.lab.scheduler.view import ClusterView, Mask
from desched.model.cluster import Effect, HostPort, Pod, Taint
from desched.model.resources import basic

ANY_ADDRESS = {"", "0.0.0.0"}  # noqa: S104  (compared, not bound)
HARD_EFFECTS = {Effect.NO_SCHEDULE, Effect.NO_EXECUTE}


def usable(pod: Pod, view: ClusterView) -> Usable:
    """The nodes that the pod's node affinity selects, and those whose hard taints it tolerates."""
    selected = tolerated = view.everywhere
    if pod.scheduling.node_selector:
        wanted = set(pod.scheduling.node_selector)
        selected = view.where(lambda node: wanted <= node.labels.items())
    if pod.scheduling.required_node_affinity is not None:
        selected = selected & view.matching(pod.scheduling.required_node_affinity)
    for node, taint in view.taints:
        if taint.effect in HARD_EFFECTS and not tolerates(pod, taint):
            tolerated = tolerated & (np.arange(len(view.nodes)) != node)
    return Usable(selected, tolerated)


def feasible(pod: Pod, view: ClusterView, usable_nodes: Usable) -> Mask:
    """The nodes that no filter excludes."""
    if pod.gated:
        return ~view.everywhere
    return (
        view.ready
        & usable_nodes.selected
        & usable_nodes.tolerated
        & _has_room(pod, view)
        & _has_ports(pod, view)
        & _reaches_volumes(pod, view)
        & spread_mask(pod, view, usable_nodes)
        & affinity_mask(pod, view)
    )


def tolerates(pod: Pod, taint: Taint) -> bool:
    """Whether one of the pod's tolerations is for the taint."""
    return any(toleration.tolerates(taint) for toleration in pod.scheduling.tolerations)


def _has_room(pod: Pod, view: ClusterView) -> Mask:
    wanted = np.array(basic(pod.scheduling.requests))
    enough = (view.requested + wanted <= view.allocatable) | (wanted == 0)
    fits: Mask = enough.all(axis=1)
    for name, amount in pod.scheduling.requests.extended:
        amounts = [dict(other.scheduling.requests.extended).get(name, 0) for other in view.kinds]
        room = [dict(node.allocatable.extended).get(name, 0) for node in view.nodes]
        fits &= (view.total(np.array(amounts, dtype=np.int64)) + amount <= room) | (amount == 0)
    return fits


def _has_ports(pod: Pod, view: ClusterView) -> Mask:
    free = view.everywhere
    if pod.scheduling.host_ports:
        for other, count in zip(view.kinds, view.placed, strict=True):
            taken = other.scheduling.host_ports
            if any(_conflict(mine, port) for mine in pod.scheduling.host_ports for port in taken):
                free = free & (count == 0)
    return free


def _conflict(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return one.address == other.address or bool(ANY_ADDRESS & {one.address, other.address})


def _reaches_volumes(pod: Pod, view: ClusterView) -> Mask:
    reached = view.everywhere
    for volume in pod.volumes:
        claim = view.cluster.claims.get((pod.namespace, volume.claim))
        bound = view.cluster.volumes.get(claim.volume) if claim else None
        if bound and bound.node_affinity is not None:
            reached = reached & view.matching(bound.node_affinity)
    return reached
