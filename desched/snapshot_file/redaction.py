"""Drops from a snapshot what no rule reads, so that a plan of it stays the same.

Labels and annotations by keys that nothing reads go, and so do addresses. Only which nodes have an
image matters, and which pods use it, so images and handles of volumes become numbers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec.structs import replace

from desched.gangs.objects import GangObjects
from desched.gangs.pod_groups import GROUP_KEYS, GROUP_PREFIXES
from desched.model.cluster import (
    ClusterState,
    Node,
    PersistentVolume,
    Pod,
    SchedulingClass,
    Workload,
)
from desched.model.selectors import LabelSelector, NodeSelectorTerm
from desched.model.snapshot import Snapshot
from desched.planning.eligibility.annotations import PREEMPTABLE
from desched.planning.eligibility.controllers import with_declared_workloads
from desched.planning.eligibility.rules import COOLDOWN_TIME
from desched.planning.kube_scheduler.filters.volumes import ZONE_LABELS
from desched.planning.kube_scheduler.scores.node_facts import ARCHITECTURE_LABEL
from desched.planning.kube_scheduler.scores.total import HOSTNAME_LABEL, ZONE_LABEL
from desched.planning.overload.scope import VIRTUAL_LABELS
from desched.plugins.annotations import ANNOTATIONS, LABELS
from desched.plugins.devices import SHARING_STRATEGY
from desched.policy.policy import Policy
from desched.snapshot_file.content import LabelKeys

NODE_LABELS = frozenset(
    {
        ARCHITECTURE_LABEL,
        HOSTNAME_LABEL,
        ZONE_LABEL,
        *ZONE_LABELS,
        *ZONE_LABELS.values(),
        SHARING_STRATEGY,
        *(key for key, _ in VIRTUAL_LABELS),
    }
)
POD_LABELS = frozenset({PREEMPTABLE, COOLDOWN_TIME, *GROUP_KEYS, *LABELS})
"""Labels that desched reads whatever the policy and the objects are."""

V = TypeVar("V")


def redacted(snapshot: Snapshot, kept: LabelKeys | None) -> Snapshot:
    """The snapshot without what nothing reads, and only with labels by these keys.

    With None it keeps all labels.
    """
    cluster = snapshot.cluster
    images = _numbers("image", (i for scheduling in _classes(cluster) for i in scheduling.images))
    handles = _numbers("handle", (v.csi_handle for v in cluster.volumes.values() if v.csi_handle))
    narrow = _Narrowing(kept, images)
    return replace(
        snapshot,
        cluster=replace(
            cluster,
            nodes=tuple(map(narrow.node, cluster.nodes)),
            pods=tuple(map(narrow.pod, cluster.pods)),
            workloads={key: _workload(workload) for key, workload in cluster.workloads.items()},
            declared_owners={
                key: _only(annotations, ANNOTATIONS)
                for key, annotations in cluster.declared_owners.items()
            },
            namespaces={
                name: _only(labels, kept.namespaces) if kept else labels
                for name, labels in cluster.namespaces.items()
            },
            volumes={name: _volume(volume, handles) for name, volume in cluster.volumes.items()},
        ),
    )


def labels_read(cluster: ClusterState, policy: Policy) -> LabelKeys:
    """The keys of labels that decide on a plan of the cluster by the policy."""
    by_policy = labels_read_by(policy)
    cluster = with_declared_workloads(cluster, policy.protections.understood_owner_kinds)
    classes = _classes(cluster)
    terms = [
        term
        for scheduling in classes
        for term in (
            *scheduling.pod_affinity,
            *scheduling.pod_anti_affinity,
            *scheduling.preferred_pod_affinity,
        )
    ]
    spread = [constraint for scheduling in classes for constraint in scheduling.spread]
    groups = GangObjects.of(cluster.extras).groups
    parts = [part for group in groups for part in group.parts]
    nodes = {
        *NODE_LABELS,
        *by_policy.nodes,
        *((policy.balance_scope,) if policy.balance_scope else ()),
        *(group.topology.level for group in groups if group.topology),
        *(label for plugin in policy.plugins for label in plugin.node_labels(cluster)),
        *(key for scheduling in classes for key, _ in scheduling.node_selector),
        *_keys_of_terms(_node_terms(cluster, classes)),
        *(term.topology_key for term in terms),
        *(constraint.topology_key for constraint in spread),
    }
    pods = {
        *POD_LABELS,
        *(key for pod in cluster.pods for key in pod.labels if key.startswith(GROUP_PREFIXES)),
        *by_policy.pods,
        *_keys(budget.selector for budget in cluster.budgets),
        *_keys(cluster.controller_selectors.values()),
        *_keys(term.selector for term in terms),
        *_keys(constraint.selector for constraint in spread),
        *(key for each in spread for key in each.match_label_keys),
        *(key for service in cluster.services for key in service.selector),
        *_keys(part.selector for part in parts),
        *(key for part in parts for key in part.match_label_keys),
    }
    namespaces = {*by_policy.namespaces, *_keys(term.namespace_selector for term in terms)}
    return LabelKeys(tuple(sorted(nodes)), tuple(sorted(pods)), tuple(sorted(namespaces)))


def labels_read_by(policy: Policy) -> LabelKeys:
    """The keys of labels that the policy selects by."""
    selectors = (policy.node_selector, policy.destination_selector)
    return LabelKeys(
        tuple(sorted(set(_keys((*selectors, *(pool.selector for pool in policy.pools)))))),
        tuple(sorted(set(_keys((policy.protections.labels,))))),
        tuple(sorted(set(_keys((policy.protections.namespace_labels,))))),
    )


def _classes(cluster: ClusterState) -> Collection[SchedulingClass]:
    return {id(pod.scheduling): pod.scheduling for pod in cluster.pods}.values()


def _node_terms(
    cluster: ClusterState, classes: Iterable[SchedulingClass]
) -> Iterator[NodeSelectorTerm]:
    for scheduling in classes:
        yield from scheduling.required_node_affinity or ()
        yield from (term for _, term in scheduling.preferred_node_affinity)
    for volume in cluster.volumes.values():
        yield from volume.node_affinity or ()
    for storage in cluster.storage_classes.values():
        yield from storage.topologies or ()


def _keys_of_terms(terms: Iterable[NodeSelectorTerm]) -> Iterator[str]:
    return (requirement.key for term in terms for requirement in term.labels)


def _keys(selectors: Iterable[LabelSelector | None]) -> Iterator[str]:
    return (r.key for selector in selectors if selector for r in selector.requirements)


class _Narrowing:
    """Narrows objects; what pods share is narrowed once, and stays shared."""

    def __init__(self, kept: LabelKeys | None, images: Mapping[str, str]) -> None:
        self._kept = kept
        self._images = images
        self._known: dict[tuple[str, int], object] = {}

    def node(self, node: Node) -> Node:
        images = {self._images[i]: size for i, size in node.images.items() if i in self._images}
        labels = _only(node.labels, self._kept.nodes) if self._kept else node.labels
        return replace(node, labels=labels, addresses=(), images=images)

    def pod(self, pod: Pod) -> Pod:
        return replace(
            pod,
            scheduling=self._once("class", pod.scheduling, self._without_images),
            labels=self._once("labels", pod.labels, self._labels),
            annotations=self._once("notes", pod.annotations, lambda it: _only(it, ANNOTATIONS)),
        )

    def _labels(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        return _only(labels, self._kept.pods) if self._kept else labels

    def _without_images(self, scheduling: SchedulingClass) -> SchedulingClass:
        images = tuple(self._images[image] for image in scheduling.images)
        return replace(scheduling, images=images)

    def _once(self, kind: str, value: V, narrow: Callable[[V], V]) -> V:
        key = kind, id(value)
        if key not in self._known:
            self._known[key] = narrow(value)
        first: V = self._known[key]  # type: ignore[assignment]  # of the same kind
        return first


def _workload(workload: Workload) -> Workload:
    return replace(workload, annotations=_only(workload.annotations, ANNOTATIONS))


def _volume(volume: PersistentVolume, handles: Mapping[str, str]) -> PersistentVolume:
    handle = handles.get(volume.csi_handle, "")
    return replace(volume, labels=_only(volume.labels, ZONE_LABELS), csi_handle=handle)


def _only(values: Mapping[str, str], keys: Collection[str]) -> Mapping[str, str]:
    return {key: value for key, value in values.items() if key in keys}


def _numbers(kind: str, names: Iterable[str]) -> dict[str, str]:
    """A number for each name, in the order of names."""
    return {name: f"{kind}-{number}" for number, name in enumerate(sorted(set(names)), 1)}
