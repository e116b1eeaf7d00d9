"""Volumes: the nodes that can reach them, other pods with the same claim, and attach limits."""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from desched.model.cache import cached
from desched.model.cluster import ClusterState, Node, PersistentVolume, Pod, PodVolume, VolumeKind
from desched.model.groups import grouped
from desched.model.selectors import NodeSelectorTerm
from desched.planning.arrays import Ints, Mask
from desched.planning.kube_scheduler.filters.node_constraints import matching
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodChanges, PodIndex

ZONE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Zone labels of volumes, each with the newer label that a node may have instead."""

NO_LIMIT = 2**31
_CLAIMS = frozenset({VolumeKind.CLAIM, VolumeKind.EPHEMERAL_CLAIM})

Terms = tuple[NodeSelectorTerm, ...] | None
Handle = tuple[str, str]
"""The CSI driver of a volume, and its name for the volume."""

ClaimKey = tuple[str, str]
"""The namespace and name of a claim."""


class VolumeFilter:
    """Plugins VolumeBinding, VolumeZone, NodeVolumeLimits and, for claims, VolumeRestrictions.

    An unbound claim fits where its class can provision volumes, if the class waits for the first
    consumer. Unknown claims and volumes fit nowhere. A replacement gets new ephemeral claims.
    """

    def __init__(self, cluster: ClusterState, arrays: NodeArrays, index: PodIndex) -> None:
        self._cluster = cluster
        self._arrays = arrays
        self._index = index

    def reachable(self, pod: Pod) -> Mask:
        """The nodes that can reach every volume, or for which it can be provisioned."""
        mask = self._arrays.all()
        for volume in pod.volumes:
            if volume.kind in _CLAIMS:
                bound = self._bound(pod, volume)
                replaced = volume.kind is VolumeKind.EPHEMERAL_CLAIM and bool(pod.node)
                if bound is None or (replaced and bound.node_affinity is not None):
                    mask &= self._provisioned_for(pod, volume, bound)
                else:
                    mask &= self._matching(bound.node_affinity)
        return mask

    def in_zone(self, pod: Pod) -> Mask:
        """The nodes in the zones and regions of the volumes' labels.

        As in the scheduler, nodes without any zone or region label pass.
        """
        mask = self._arrays.all()
        for volume in pod.volumes:
            bound = self._bound(pod, volume) if volume.kind is VolumeKind.CLAIM else None
            zones = _zones(bound) if bound else {}
            if zones:
                mask &= np.array([_is_in(node, zones) for node in self._arrays.nodes], dtype=bool)
        return mask

    def unused(self, pod: Pod, pod_changes: PodChanges) -> Mask:
        """All nodes, or none while another pod uses one of the pod's ReadWriteOncePod claims."""
        users = {claim: self._users[claim] for claim in self._for_one_pod(pod)}
        for change in pod_changes.changes if users else ():
            for claim in users.keys() & self._for_one_pod(change.pod):
                users[claim] += change.sign
        taken = any(count > 0 for count in users.values())
        return self._arrays.none() if taken else self._arrays.all()

    def attachable(self, pod: Pod, pod_changes: PodChanges) -> Mask:
        """The nodes that can attach those of the pod's volumes that they have not attached yet."""
        mask = self._arrays.all()
        handles_of = grouped((handle[0], handle) for handle in self._handles(pod))
        by_driver = {driver: found for driver, found in handles_of.items() if self._limited(driver)}
        if not by_driver:
            return mask
        moved = self._moved(pod_changes)
        for driver, handles in by_driver.items():
            new = np.full(len(self._arrays), len(handles), dtype=np.int64)
            for handle in handles:
                new[list(self._holding(handle, moved))] -= 1
            mask &= (new == 0) | (self._count(driver, moved) + new <= self._limits(driver))
        return mask

    @cached
    def _matching(self, terms: Terms) -> Mask:
        """The nodes that one of the terms matches; all without terms."""
        return self._arrays.all() if terms is None else matching(self._arrays, terms)

    def _bound(self, pod: Pod, volume: PodVolume) -> PersistentVolume | None:
        claim = self._cluster.claims.get((pod.namespace, volume.claim))
        return self._cluster.volumes.get(claim.volume) if claim else None

    def _provisioned_for(
        self, pod: Pod, volume: PodVolume, before: PersistentVolume | None
    ) -> Mask:
        """The nodes for which a volume can be provisioned; it replaces `before`, if any."""
        claim = self._cluster.claims.get((pod.namespace, volume.claim))
        storage = self._cluster.storage_classes.get(claim.storage_class) if claim else None
        if claim is None or storage is None or not storage.waits_for_consumer:
            return self._arrays.none()
        if claim.volume and before is None:
            return self._arrays.none()
        return self._matching(storage.topologies)

    def _for_one_pod(self, pod: Pod) -> set[ClaimKey]:
        names = {v.claim for v in pod.volumes if v.kind is VolumeKind.CLAIM}
        claims = (self._cluster.claims.get((pod.namespace, name)) for name in names)
        return {(claim.namespace, claim.name) for claim in claims if claim and claim.for_one_pod}

    @cached_property
    def _users(self) -> Counter[ClaimKey]:
        """Count the pods with each ReadWriteOncePod claim; pods that are being deleted count."""
        return Counter(
            claim
            for pod, _ in self._index.residents
            if pod.volumes
            for claim in self._for_one_pod(pod)
        )

    # Attached volumes. Several pods of a node may use one volume; it counts once there.

    def _handles(self, pod: Pod) -> set[Handle]:
        handles = set()
        for volume in pod.volumes:
            claim = self._cluster.claims.get((pod.namespace, volume.claim))
            if volume.kind not in _CLAIMS or claim is None:
                continue
            bound = self._cluster.volumes.get(claim.volume)
            storage = self._cluster.storage_classes.get(claim.storage_class)
            if bound is not None and bound.csi_driver and bound.csi_handle:
                handles.add((bound.csi_driver, bound.csi_handle))
            elif bound is None and storage is not None:
                handles.add((storage.provisioner, f"{pod.namespace}/{claim.name}"))
        return handles

    @cached_property
    def _holders(self) -> dict[Handle, Counter[int]]:
        holders: dict[Handle, Counter[int]] = {}
        for pod, position in self._index.residents:
            if pod.volumes:
                for handle in self._handles(pod):
                    holders.setdefault(handle, Counter())[position] += 1
        return holders

    @cached_property
    def _attached(self) -> dict[str, Ints]:
        attached: dict[str, Ints] = {}
        for (driver, _), holders in self._holders.items():
            if driver not in attached:
                attached[driver] = np.zeros(len(self._arrays), dtype=np.int64)
            attached[driver][list(holders)] += 1
        return attached

    def _moved(self, pod_changes: PodChanges) -> dict[Handle, Counter[int]]:
        moved: dict[Handle, Counter[int]] = {}
        for change in pod_changes.changes:
            for handle in self._handles(change.pod):
                moved.setdefault(handle, Counter())[change.position] += change.sign
        return moved

    def _holding(self, handle: Handle, moved: Mapping[Handle, Counter[int]]) -> set[int]:
        """The nodes that have the volume attached."""
        before, change = self._holders.get(handle, _NOWHERE), moved.get(handle, _NOWHERE)
        return {i for i in before | change if before[i] + change[i] > 0}

    def _count(self, driver: str, moved: Mapping[Handle, Counter[int]]) -> Ints:
        """Count the driver's attached volumes on each node, shape (nodes,)."""
        nothing = np.zeros(len(self._arrays), dtype=np.int64)
        count = self._attached.get(driver, nothing).copy()
        for handle in moved:
            if handle[0] == driver:
                count[list(self._holders.get(handle, _NOWHERE))] -= 1
                count[list(self._holding(handle, moved))] += 1
        return count

    def _limited(self, driver: str) -> bool:
        return any(driver in node.attach_limits for node in self._cluster.csi_nodes.values())

    @cached
    def _limits(self, driver: str) -> Ints:
        nodes = (self._cluster.csi_nodes.get(name) for name in self._arrays.names)
        limits = [node.attach_limits.get(driver, NO_LIMIT) if node else NO_LIMIT for node in nodes]
        return np.array(limits, dtype=np.int64)


_NOWHERE: Counter[int] = Counter()


def _zones(volume: PersistentVolume) -> dict[str, set[str]]:
    """The values of each zone label; labels with an empty part are ignored."""
    zones = {}
    for key in ZONE_LABELS:
        values = {value.strip() for value in volume.labels.get(key, "").split("__")}
        if "" not in values:
            zones[key] = values
    return zones


def _is_in(node: Node, zones: Mapping[str, set[str]]) -> bool:
    if not any(key in node.labels for key in ZONE_LABELS):
        return True
    return all(
        node.labels.get(key, node.labels.get(ZONE_LABELS[key])) in values
        for key, values in zones.items()
    )
