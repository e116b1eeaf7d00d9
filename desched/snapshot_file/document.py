"""The JSON of a snapshot file, `desched.io/snapshot/v2`: a typed document, checked when it is read.

Its objects have the fields of the model, without those that have their defaults. JSON has only
texts as keys; what the model keeps by other keys is a list here.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import asdict, replace

from desched.errors import ConfigurationError, StateRefused
from desched.model.bounds import Count, Int32, Ratio, Seconds, Time
from desched.model.cluster import (
    ClusterState,
    CSINode,
    LargeObjects,
    Node,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodRef,
    SchedulingClass,
    ServerHealth,
    Service,
    StorageClass,
    Workload,
)
from desched.model.extras import Extra, Objects
from desched.model.load import (
    ClusterLoad,
    DeviceLoad,
    LoadHistory,
    LoadProblem,
    Measured,
    PodUsage,
    SeenLoad,
    Unknown,
)
from desched.model.resources import Resource
from desched.model.selectors import LabelSelector
from desched.model.snapshot import Snapshot
from desched.model.stored_state import encode_state
from desched.model.volcano_scheduler import VolcanoConfiguration
from desched.plugins import HOUSE
from desched.plugins.kinds import PLUGIN_KINDS
from desched.plugins.states import decode_state
from desched.snapshot_file.content import LabelKeys, SnapshotContent

FORMAT = "desched.io/snapshot/v2"

_YEARS = range(2000, 9000)  # a time plus a delay stays within the calendar

T = TypeVar("T")


class _Cluster(msgspec.Struct, omit_defaults=True):
    """The fields of ClusterState; an entry of three fields begins with a controller's key."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    workloads: tuple[tuple[str, str, Workload], ...] = ()
    controller_selectors: tuple[tuple[str, str, LabelSelector], ...] = ()
    controller_owners: tuple[tuple[str, str, Owner], ...] = ()
    sized_owners: tuple[tuple[str, str, str], ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    priority_classes: Mapping[str, Int32] = {}
    namespaces: Mapping[str, Mapping[str, str]] = {}
    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: Mapping[str, PersistentVolume] = {}
    storage_classes: Mapping[str, StorageClass] = {}
    csi_nodes: Mapping[str, CSINode] = {}
    services: tuple[Service, ...] = ()
    extras: Mapping[str, msgspec.Raw] = {}
    volcano_configurations: Mapping[str, VolcanoConfiguration] = {}
    declared_owners: tuple[tuple[str, str, Mapping[str, str]], ...] = ()
    unread_kinds: Mapping[str, str] = {}
    too_large: Mapping[str, LargeObjects] = {}
    server_version: str = ""
    own_pod: PodRef | None = None
    server_times: tuple[Time, Time] | None = None
    server_health: ServerHealth = ServerHealth()


class _Load(msgspec.Struct, omit_defaults=True):
    """The fields of ClusterLoad; an entry about a pod begins with its namespace and name.

    A snapshot is taken with the usage of all pods, so it has neither `pods_of` nor `pod_sums`.
    """

    nodes: Mapping[str, Mapping[Resource, Measured | Unknown]]
    pods: tuple[tuple[str, str, PodUsage], ...]
    problems: tuple[tuple[LoadProblem, str], ...] = ()
    unresolved_series: Count = 0
    history: Mapping[str, Mapping[Resource, LoadHistory]] = {}
    destination_ratios: Mapping[str, Mapping[Resource, tuple[Ratio | None, ...]]] = {}
    throttled: tuple[tuple[str, str], ...] = ()
    server_times: tuple[Time, Time] | None = None
    seen: Mapping[str, Mapping[Resource, SeenLoad]] = {}
    last_hour: Mapping[str, Mapping[Resource, LoadHistory]] = {}
    extras: Mapping[str, msgspec.Raw] = {}


class _Policy(msgspec.Struct):
    source: str
    text: str


class _Document(msgspec.Struct):
    format: str
    written_by: str
    target: str
    taken_at: Time
    cluster_lead_seconds: Seconds
    load_lead_seconds: Seconds
    may_steer: bool
    policy: _Policy
    kept_labels: LabelKeys | None
    other_deschedulers: tuple[str, ...]
    state: msgspec.Raw
    cluster: _Cluster
    load: _Load


class _Head(msgspec.Struct):
    format: str
    written_by: str = ""


_DOCUMENT = msgspec.json.Decoder(_Document)
_HEAD = msgspec.json.Decoder(_Head)
_OBJECTS: Mapping[str, msgspec.json.Decoder[Objects]] = {
    kinds.keeps.plugin: msgspec.json.Decoder(kinds.keeps) for kinds in PLUGIN_KINDS
}
_LOADS: Mapping[str, msgspec.json.Decoder[DeviceLoad]] = {
    plugin.load.plugin: msgspec.json.Decoder(plugin.load)
    for plugin in HOUSE
    if plugin.load is not None
}


def encode(content: SnapshotContent) -> bytes:
    """The content as JSON.

    Raises:
        ConfigurationError: the state is larger than desched ever stores.
    """
    snapshot = content.snapshot
    try:
        state = encode_state(content.state)
    except StateRefused as error:
        raise ConfigurationError(str(error)) from error
    document = _Document(
        FORMAT,
        content.written_by,
        content.target,
        snapshot.taken_at,
        snapshot.cluster_lead_seconds,
        snapshot.load_lead_seconds,
        content.may_steer,
        _Policy(content.policy_source, content.policy_text),
        content.kept_labels,
        content.other_deschedulers,
        msgspec.Raw(state),
        _cluster_document(snapshot.cluster),
        _load_document(snapshot.load),
    )
    return msgspec.json.encode(document)


def decode(text: bytes, name: str) -> SnapshotContent:
    """The content of the JSON; `name` is what messages call it.

    Raises:
        ConfigurationError: it is not a snapshot that this desched can use.
    """
    try:
        head = _HEAD.decode(text)
        if head.format != FORMAT:
            raise _refused(name, _other_format(head))
        document = _DOCUMENT.decode(text)
        cluster = _cluster(document.cluster)
    except (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError) as error:
        raise _refused(name, f"it is no snapshot of desched, or damaged ({error})") from error
    stored = decode_state(bytes(document.state))
    if stored.state is None:
        raise _refused(name, f"its state cannot be used: {stored.problem}")
    if document.taken_at.year not in _YEARS:
        raise _refused(name, "it was taken at a time far from now")
    _refuse_doubles(document.cluster, name)
    load = _load(document.load)
    return SnapshotContent(
        Snapshot(
            cluster,
            load,
            document.taken_at,
            document.cluster_lead_seconds,
            document.load_lead_seconds,
        ),
        stored.state,
        document.policy.text,
        document.policy.source,
        document.may_steer,
        document.written_by,
        document.target,
        document.kept_labels,
        document.other_deschedulers,
    )


def _other_format(head: _Head) -> str:
    if not head.format.startswith("desched.io/snapshot/"):
        return "it is no snapshot of desched"
    by = f" by desched {head.written_by}" if head.written_by else ""
    return (
        f"its format is {head.format}, written{by}, and this desched reads {FORMAT}; "
        "use the version that wrote it"
    )


def _refused(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{name}: this snapshot cannot be used: {problem}.")


def _refuse_doubles(cluster: _Cluster, name: str) -> None:
    """Refuse what an API server never lists twice, because planning relies on that."""
    for kind, keys in (
        ("nodes", [node.name for node in cluster.nodes]),
        ("pods", [(pod.namespace, pod.name) for pod in cluster.pods]),
    ):
        if len(set(keys)) < len(keys):
            raise _refused(name, f"two of its {kind} have the same name")


def _cluster_document(cluster: ClusterState) -> _Cluster:
    fields = asdict(cluster) | {
        "workloads": _entries(cluster.workloads),
        "controller_selectors": _entries(cluster.controller_selectors),
        "controller_owners": _entries(cluster.controller_owners),
        "declared_owners": _entries(cluster.declared_owners),
        "sized_owners": tuple(sorted(cluster.sized_owners)),
        "claims": tuple(cluster.claims.values()),
        "extras": _raw(cluster.extras),
    }
    return _Cluster(**fields)


def _cluster(document: _Cluster) -> ClusterState:
    fields = asdict(document) | {
        "pods": _sharing(document.pods),
        "workloads": _by_key(document.workloads),
        "controller_selectors": _by_key(document.controller_selectors),
        "controller_owners": _by_key(document.controller_owners),
        "declared_owners": _by_key(document.declared_owners),
        "sized_owners": frozenset(document.sized_owners),
        "claims": {(claim.namespace, claim.name): claim for claim in document.claims},
        "extras": _extras(document.extras, _OBJECTS),
    }
    return ClusterState(**fields)


def _raw(extras: Mapping[str, Extra]) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(msgspec.json.encode(extra)) for name, extra in sorted(extras.items())}


def _extras(
    stored: Mapping[str, msgspec.Raw], decoders: Mapping[str, msgspec.json.Decoder[T]]
) -> dict[str, T]:
    """What plugins keep, without plugins that this desched does not have."""
    return {
        name: decoder.decode(stored[name]) for name, decoder in decoders.items() if name in stored
    }


def _load_document(load: ClusterLoad) -> _Load:
    fields = asdict(load) | {
        "pods": _entries(load.pods),
        "throttled": tuple(sorted(load.throttled)),
        "extras": _raw(load.extras),
    }
    return _Load(**{name: fields[name] for name in _Load.__struct_fields__})


def _load(document: _Load) -> ClusterLoad:
    fields = asdict(document) | {
        "pods": _by_key(document.pods),
        "extras": _extras(document.extras, _LOADS),
        "throttled": frozenset(document.throttled),
    }
    return ClusterLoad(**fields)


def _entries(by_key: Mapping[tuple[str, str], T]) -> tuple[tuple[str, str, T], ...]:
    return tuple((*key, value) for key, value in by_key.items())


def _by_key(entries: Iterable[tuple[str, str, T]]) -> dict[tuple[str, str], T]:
    return {(first, second): value for first, second, value in entries}


def _sharing(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """The pods, of which those of a workload share what they have in common, as when read."""
    classes: dict[SchedulingClass, SchedulingClass] = {}
    maps: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}
    return tuple(
        replace(
            pod,
            scheduling=classes.setdefault(pod.scheduling, pod.scheduling),
            labels=maps.setdefault(frozenset(pod.labels.items()), pod.labels),
            annotations=maps.setdefault(frozenset(pod.annotations.items()), pod.annotations),
        )
        for pod in pods
    )
