"""Replaces the names in a snapshot: each name by the same new one wherever it occurs.

Namespaces, workloads, pods, nodes, volumes, budgets, services, uids and values of labels get new
names. Those keep the order of the old ones, because a plan decides between equals by name.

What the policy names stays, because the policy is in the file as it is. Namespaces of the system
stay as well. The plan may differ where the order of such a namespace and another one decides.
Zones, taints, pools, schedulers, extended resources and the keys of labels stay, and so do priority
classes and storage classes. Texts for people, such as the reason of a pause, are dropped.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from desched.model.chain import Chain, ChainUnderWay
from desched.model.cluster import (
    CLAIMS_NOT_READ,
    ClusterState,
    CSINode,
    DeclaredGroup,
    GroupPart,
    ModelCopies,
    Node,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodDisruptionBudget,
    PodRef,
    PodVolume,
    SchedulingClass,
    Service,
    Workload,
)
from desched.model.devices import INTERFACES, interfaces_text, networks_of
from desched.model.load import ClusterLoad, Unknown
from desched.model.model_caches import CACHE_KEY, KSERVE_CLAIM, KSERVE_MODEL
from desched.model.network_topology import GroupTopology, HyperNode, Topology
from desched.model.plan import LandingChance
from desched.model.pod_groups import GENERATED_PREFIX, NAME_KEYS, VOLCANO_GROUP
from desched.model.selectors import Requirement, go_integer
from desched.model.state import (
    CoolDown,
    EvictionRecord,
    Failure,
    ForecastCheck,
    LastCycle,
    NodeRounds,
    Pause,
    PauseScope,
    PolicyEdit,
    RecentMove,
)
from desched.planning.eligibility.rules import COOLDOWN_TIME, SYSTEM_NAMESPACES
from desched.planning.kube_scheduler.scores.total import HOSTNAME_LABEL
from desched.policy.policy import Policy
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.redaction import NODE_LABELS


class Named(StrEnum):
    """What a name belongs to; its value begins the new name."""

    NODE = "node"
    NAMESPACE = "namespace"
    WORKLOAD = "workload"
    POD = "pod"
    VOLUME = "volume"
    OBJECT = "object"
    UID = "uid"
    VALUE = "value"


PLAIN_LABELS = NODE_LABELS - {HOSTNAME_LABEL} | {COOLDOWN_TIME}
"""Labels whose values are no names: architectures, zones and regions, and durations."""

PLAIN_VALUES = frozenset({"true", "false", "t", "f", "Ready"})
"""Values of labels that are no names; whole numbers are none either, and may be compared."""

NODE_FIELD = "metadata.name"

V = TypeVar("V")


class Names(Protocol):
    """What happens to each name."""

    def of(self, kind: Named, name: str) -> str:
        """The name to use instead."""


def with_new_names(content: SnapshotContent, policy: Policy) -> SnapshotContent:
    """The content with new names; `policy` is the one that it has as text."""
    collected = _Collected()
    _renamed_content(content, collected)
    return _renamed_content(content, _NewNames(collected.names, _kept(policy)))


class _Collected:
    """Collects the names, and keeps them."""

    def __init__(self) -> None:
        self.names: dict[Named, set[str]] = {kind: set() for kind in Named}

    def of(self, kind: Named, name: str) -> str:
        self.names[kind].add(name)
        return name


class _NewNames:
    """New names that keep the order of the old ones."""

    def __init__(
        self, names: Mapping[Named, Iterable[str]], kept: Mapping[Named, Iterable[str]]
    ) -> None:
        self._new = {
            kind: _numbered(kind, old) | {name: name for name in kept.get(kind, ())}
            for kind, old in names.items()
        }
        # A label may have the name of an object as its value.
        values = self._new[Named.VALUE]
        for kind in (Named.WORKLOAD, Named.POD, Named.NAMESPACE, Named.NODE):
            values |= {name: new for name, new in self._new[kind].items() if name in values}

    def of(self, kind: Named, name: str) -> str:
        return self._new[kind][name]


def _numbered(kind: Named, names: Iterable[str]) -> dict[str, str]:
    ordered = sorted(names)
    digits = len(str(len(ordered)))
    return {name: f"{kind}-{number:0{digits}}" for number, name in enumerate(ordered, 1)}


def _kept(policy: Policy) -> Mapping[Named, frozenset[str]]:
    """What the policy names."""
    protections = policy.protections
    selectors = (
        policy.node_selector,
        policy.destination_selector,
        protections.labels,
        protections.namespace_labels,
        *(pool.selector for pool in policy.pools),
    )
    values = (v for each in selectors for r in each.requirements for v in r.values)
    namespaces = {*protections.included_namespaces, *protections.excluded_namespaces}
    return {
        Named.NAMESPACE: SYSTEM_NAMESPACES | namespaces,
        Named.VALUE: frozenset(values),
    }


def _renamed_content(content: SnapshotContent, names: Names) -> SnapshotContent:
    renaming = _Renaming(names)
    snapshot = content.snapshot
    others = tuple(
        f"{maker} in {names.of(Named.NAMESPACE, namespace)}"
        for maker, _, namespace in (each.rpartition(" in ") for each in content.other_deschedulers)
    )
    return replace(
        content,
        snapshot=replace(
            snapshot,
            cluster=renaming.cluster(snapshot.cluster),
            load=renaming.load(snapshot.load),
        ),
        state=renaming.of(content.state),
        target="",
        other_deschedulers=others,
    )


Rename = Callable[[Names, Any, Any], Any]
"""The new value of a field from the names, the value, and the object that has it."""


def _one(kind: Named) -> Rename:
    return lambda names, value, _: value and names.of(kind, value)


def _all(kind: Named) -> Rename:
    return lambda names, values, _: tuple(names.of(kind, value) for value in values)


def _nothing(_names: Names, _value: str, _owner: object) -> str:
    return ""


def _none(_names: Names, _values: tuple[str, ...], _owner: object) -> tuple[str, ...]:
    return ()


def _somebody(_names: Names, by: str, _owner: object) -> str:
    return by and "somebody"  # who ends a pause depends on whether a person began it


def _an_autoscaler(_names: Names, why: str, _owner: object) -> str:
    return why and "a VerticalPodAutoscaler"  # that it is unknown decides, and not why


def _an_object(_names: Names, why: str, _owner: object) -> str:
    return why and "its PodGroup"  # that its pods stay decides, and not why


def _topology(names: Names, name: str, _owner: object) -> str:
    return name and names.of(Named.OBJECT, name)


def _claims(_names: Names, why: str, _owner: object) -> str:
    return why and CLAIMS_NOT_READ  # that they are not counted decides, and not why


def _a_hyper_node(_names: Names, why: str, _owner: object) -> str:
    return why and "its members"  # that they are not known decides, and not why


def _group_name(names: Names, name: str, group: DeclaredGroup) -> str:
    """As the pods of the group have it, in a field or in a label or annotation."""
    if group.system == "Kubernetes":
        return names.of(Named.VALUE, name)
    return _value(names, VOLCANO_GROUP, name)


def _model(names: Names, name: str, _owner: object) -> str:
    """As a pod's label has it."""
    return _value(names, KSERVE_MODEL, name)


def _models(names: Names, models: tuple[str, ...], owner: object) -> tuple[str, ...]:
    return tuple(_model(names, each, owner) for each in models)


def _uid(names: Names, uid: str, _owner: object) -> str:
    """A uid, or that of a workload known only by its pods, which begins with the namespace."""
    namespace, slash, own = uid.rpartition("/")
    if slash:
        return f"{names.of(Named.NAMESPACE, namespace)}/{names.of(Named.UID, own)}"
    return uid and names.of(Named.UID, uid)


def _workload(names: Names, text: str, _owner: object) -> str:
    """A workload as `Kind namespace/name`, or without its kind."""
    if not text:
        return text
    kind, space, path = text.rpartition(" ")
    namespace, _, name = path.partition("/")
    return f"{kind}{space}{names.of(Named.NAMESPACE, namespace)}/{names.of(Named.WORKLOAD, name)}"


def _gang(names: Names, text: str, _owner: object) -> str:
    """A gang as `gang namespace/name (system)`, whose name a label of its pods may have."""
    if not text:
        return text
    path, _, system = text.removeprefix("gang ").partition(" (")
    namespace, _, name = path.partition("/")
    shown = _value(names, VOLCANO_GROUP, name)
    return f"gang {names.of(Named.NAMESPACE, namespace)}/{shown} ({system}"


def _owner_name(names: Names, name: str, owner: Owner) -> str:
    return names.of(Named.NODE if owner.kind == "Node" else Named.WORKLOAD, name)


def _paused(names: Names, subject: str, pause: Pause) -> str:
    match pause.scope:
        case PauseScope.WORKLOAD:
            return _workload(names, subject, pause)
        case PauseScope.NAMESPACE:
            return names.of(Named.NAMESPACE, subject)
        case PauseScope.POOL | PauseScope.EVERYTHING:
            return _pool(names, subject, pause)


def _pool(names: Names, pool: str, _owner: object) -> str:
    """A pool, and the path of the domain that `balanceScope` makes of it."""
    name, within, domain = f" {pool}".rpartition(" in ")
    if not within:
        return pool
    path = "/".join(_value(names, "", value) for value in domain.split("/"))
    return f"{name}{within}{path}".strip()


def _value(names: Names, key: str, value: str) -> str:
    if key in NAME_KEYS and value.startswith(GENERATED_PREFIX):
        return GENERATED_PREFIX + _value(names, key, value.removeprefix(GENERATED_PREFIX))
    plain = not value or value in PLAIN_VALUES or go_integer(value) is not None
    return value if plain or key in PLAIN_LABELS else names.of(Named.VALUE, value)


def _labels(names: Names, labels: Mapping[str, str], _owner: object) -> dict[str, str]:
    return {key: _value(names, key, value) for key, value in labels.items()}


def _annotations(names: Names, found: Mapping[str, str], _owner: object) -> dict[str, str]:
    return {key: _annotation(names, key, value) for key, value in found.items()}


def _annotation(names: Names, key: str, value: str) -> str:
    if key == INTERFACES:
        return interfaces_text(networks_of({key: value}))
    if key == CACHE_KEY:
        label, is_equal, held = (part.strip() for part in value.partition("="))
        return label + is_equal + _value(names, label, held)
    if key == KSERVE_CLAIM:
        return names.of(Named.VOLUME, value)
    return _value(names, key, value) if key in NAME_KEYS else value


def _selected(names: Names, pairs: tuple[tuple[str, str], ...], _owner: object) -> object:
    return tuple((key, _value(names, key, value)) for key, value in pairs)


def _required(names: Names, values: tuple[str, ...], requirement: Requirement) -> tuple[str, ...]:
    if requirement.key == NODE_FIELD:
        return tuple(names.of(Named.NODE, value) for value in values)
    return tuple(_value(names, requirement.key, value) for value in values)


_NAMESPACE, _NODE, _UID = _one(Named.NAMESPACE), _one(Named.NODE), _uid

FIELDS: Mapping[type[msgspec.Struct], Mapping[str, Rename]] = {
    Node: {"name": _NODE, "uid": _UID, "labels": _labels},
    PodRef: {"namespace": _NAMESPACE, "name": _one(Named.POD), "uid": _UID},
    Pod: {
        "namespace": _NAMESPACE,
        "name": _one(Named.POD),
        "uid": _UID,
        "labels": _labels,
        "annotations": _annotations,
        "node": _NODE,
        "scheduling_group": _one(Named.VALUE),
        "uncounted_claims": _claims,
        "claim_templates": _none,
    },
    Owner: {"name": _owner_name, "uid": _UID},
    PodVolume: {"claim": _one(Named.VOLUME), "model": _model},
    PodAffinityTerm: {"namespaces": _all(Named.NAMESPACE)},
    Requirement: {"values": _required},
    SchedulingClass: {"node_selector": _selected},
    Workload: {
        "namespace": _NAMESPACE,
        "name": _one(Named.WORKLOAD),
        "uid": _UID,
        "annotations": _annotations,
        "requests_unknown": _an_autoscaler,
        "annotations_unknown": _nothing,
    },
    PodDisruptionBudget: {"namespace": _NAMESPACE, "name": _one(Named.OBJECT)},
    PersistentVolumeClaim: {
        "namespace": _NAMESPACE,
        "name": _one(Named.VOLUME),
        "volume": _one(Named.VOLUME),
    },
    PersistentVolume: {"name": _one(Named.VOLUME)},
    CSINode: {"name": _NODE},
    DeclaredGroup: {"namespace": _NAMESPACE, "name": _group_name, "stays": _an_object},
    GroupPart: {"name": _one(Named.VALUE)},
    ModelCopies: {"models": _models, "nodes": _all(Named.NODE)},
    GroupTopology: {"highest_tier_name": _one(Named.VALUE), "topology": _topology},
    HyperNode: {
        "name": _one(Named.OBJECT),
        "tier_name": _one(Named.VALUE),
        "nodes": _all(Named.NODE),
        "hyper_nodes": _all(Named.OBJECT),
        "unreadable": _a_hyper_node,
    },
    Topology: {"name": _one(Named.OBJECT)},
    Service: {"namespace": _NAMESPACE, "name": _one(Named.OBJECT), "selector": _labels},
    Unknown: {"detail": _nothing},
    EvictionRecord: {
        "node": _NODE,
        "workload_uid": _UID,
        "workload": _workload,
        "expected_node": _NODE,
        "landed_on": _NODE,
        "steered": _all(Named.NODE),
        "pool": _pool,
        "gang": _gang,
    },
    LandingChance: {"node": _NODE},
    RecentMove: {
        "workload_uid": _UID,
        "workload": _workload,
        "replacement_uid": _UID,
        "pool": _pool,
    },
    CoolDown: {"workload_uid": _UID, "workload": _workload},
    NodeRounds: {"node": _NODE},
    Pause: {"subject": _paused, "why": _nothing, "by": _somebody},
    Failure: {"workload": _workload, "pool": _pool},
    ForecastCheck: {"pool": _pool},
    Chain: {"source": _NODE, "room_on": _NODE, "first_to": _NODE},
    ChainUnderWay: {"why": _nothing},
    LastCycle: {
        "instance": _nothing,
        "overloaded": _all(Named.NODE),
        "not_acting": _nothing,
        "acknowledged_deschedulers": _none,
    },
    PolicyEdit: {"changes": _none},
}
"""What happens to the fields that have names; all other texts stay."""


class _Renaming:
    """Renames objects; what several share is renamed once, and stays shared."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[int, tuple[object, object]] = {}  # by id; keeps the old object alive

    def of(self, value: V) -> V:
        """A struct or tuple with new names in it; other values stay."""
        if isinstance(value, tuple):
            return type(value)(map(self.of, value))
        if not isinstance(value, msgspec.Struct):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = value, replace(value, **self._fields(value))
        found: V = self._known[id(value)][1]  # type: ignore[assignment]  # of the same type
        return found

    def _fields(self, struct: msgspec.Struct) -> dict[str, object]:
        renames = FIELDS.get(type(struct), {})
        fields = {}
        for name in struct.__struct_fields__:
            value = getattr(struct, name)
            rename = renames.get(name)
            if rename is not None:
                fields[name] = rename(self._names, value, struct)
            elif isinstance(value, msgspec.Struct | tuple):
                fields[name] = self.of(value)
        return fields

    def cluster(self, cluster: ClusterState) -> ClusterState:
        """The cluster with new names."""
        return replace(
            cluster,
            nodes=self.of(cluster.nodes),
            pods=self.of(cluster.pods),
            workloads=self._by_controller(cluster.workloads),
            controller_selectors=self._by_controller(cluster.controller_selectors),
            controller_owners=self._by_controller(cluster.controller_owners),
            declared_owners={
                key: _annotations(self._names, found, cluster)
                for key, found in self._by_controller(cluster.declared_owners).items()
            },
            unread_kinds=dict.fromkeys(cluster.unread_kinds, "its objects were not read"),
            sized_owners=frozenset(map(self._target, cluster.sized_owners)),
            budgets=self.of(cluster.budgets),
            namespaces={
                self._names.of(Named.NAMESPACE, name): _labels(self._names, labels, cluster)
                for name, labels in cluster.namespaces.items()
            },
            claims={(c.namespace, c.name): c for c in map(self.of, cluster.claims.values())},
            volumes={v.name: v for v in map(self.of, cluster.volumes.values())},
            storage_classes={name: self.of(s) for name, s in cluster.storage_classes.items()},
            csi_nodes={node.name: node for node in map(self.of, cluster.csi_nodes.values())},
            services=self.of(cluster.services),
            declared_groups=self.of(cluster.declared_groups),
            model_copies=self.of(cluster.model_copies),
            hyper_nodes=self.of(cluster.hyper_nodes),
            topologies=self.of(cluster.topologies),
            own_pod=self.of(cluster.own_pod),
        )

    def load(self, load: ClusterLoad) -> ClusterLoad:
        """The load with new names."""
        return replace(
            load,
            nodes={
                self._node(name): {resource: self.of(found) for resource, found in loads.items()}
                for name, loads in load.nodes.items()
            },
            pods={self._pod(key): usage for key, usage in load.pods.items()},
            problems=tuple((problem, "") for problem, _ in load.problems),
            history={self._node(name): found for name, found in load.history.items()},
            destination_ratios={
                self._node(name): found for name, found in load.destination_ratios.items()
            },
            throttled=frozenset(map(self._pod, load.throttled)),
            seen={self._node(name): found for name, found in load.seen.items()},
            gpus={self._node(name): self.of(found) for name, found in load.gpus.items()},
            gpu_usages={self._pod(key): usage for key, usage in load.gpu_usages.items()},
            last_hour={self._node(name): found for name, found in load.last_hour.items()},
            pods_of=None,  # a snapshot has the usage of all pods
            pod_sums={},
        )

    def _by_controller(self, found: Mapping[tuple[str, str], V]) -> dict[tuple[str, str], V]:
        return {
            (_NAMESPACE(self._names, namespace, None), _uid(self._names, uid, None)): self.of(it)
            for (namespace, uid), it in found.items()
        }

    def _target(self, target: tuple[str, str, str]) -> tuple[str, str, str]:
        kind, namespace, name = target
        of = self._names.of
        return kind, of(Named.NAMESPACE, namespace), of(Named.WORKLOAD, name)

    def _node(self, name: str) -> str:
        return self._names.of(Named.NODE, name)

    def _pod(self, key: tuple[str, str]) -> tuple[str, str]:
        namespace, name = key
        return self._names.of(Named.NAMESPACE, namespace), self._names.of(Named.POD, name)
