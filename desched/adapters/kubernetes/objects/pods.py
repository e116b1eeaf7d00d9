"""Pods, in the model's terms: fast and small enough for 150,000 of them."""

from collections.abc import Hashable, Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from sys import intern

import msgspec

from desched.adapters.kubernetes.client.access import LIST_PODS
from desched.adapters.kubernetes.client.api_types import pods
from desched.adapters.kubernetes.objects.bounded_constraints import (
    LARGEST_CONSTRAINTS_BYTES,
    MOST_CLAIMS,
    MOST_VOLUMES,
    NamespaceParts,
    bounded,
    has_many,
    number_of_terms,
    without_constraints,
)
from desched.adapters.kubernetes.objects.metadata import annotations_of, controller_of, texts_of
from desched.adapters.kubernetes.objects.scheduling_class import (
    Fingerprint,
    fingerprint,
    has_entries,
    image_names,
    scheduling_class,
    with_images,
)
from desched.api_objects.decoding import UNDECODABLE, RawDecoder, Shared
from desched.api_objects.kinds import Kind
from desched.api_objects.memory_bounds import (
    BEYOND_SHARE,
    LARGEST_JSON_BYTES,
    ORDINARY_BYTES,
    kept_bytes,
    memory_of,
)
from desched.api_objects.metadata import Condition
from desched.model.cluster import CLAIMS_NOT_READ, Pod, PodVolume, SchedulingClass, VolumeKind
from desched.model.text import shortened
from desched.planning.eligibility.controllers import LONGEST_NAME

GPUSTACK_DRIVER = "model.csi.gpustack.ai"
GPUSTACK_DIGEST = "manifestDigest"
"""The CSI driver that mounts a model from the node, and the attribute that names the model."""

_CLAIMS = RawDecoder(list[pods.PodResourceClaim])
_GROUP = RawDecoder(pods.SchedulingGroup)

LONGEST_PATH = 255
"""Characters of a hostPath that are kept; rules only compare how it begins."""

UNNAMED = "unnamed"
"""The name of a group whose name is not understood."""

_MEMORY_DIR = PodVolume(VolumeKind.EMPTY_DIR, in_memory=True)
_MEMORY_MEDIA = ("Memory", "HugePages")  # and sizes such as "HugePages-2Mi"

_FAST_RESTARTS = 5
_RESTART_PERIOD = timedelta(minutes=5)
"""After the first few restarts, the kubelet waits as long before each further one."""

_NO_ANNOTATIONS: dict[str, str] = {}
_STATE = RawDecoder(pods.ContainerState)
_RESIZE_CONDITIONS = frozenset({"PodResizePending", "PodResizeInProgress"})
_DEFAULT_GRACE_SECONDS = 30


class PodBuilder:
    """Builds pods; the pods of one builder share equal parts.

    A builder remembers the parts of all pods that it has built. One that goes on with the pods
    `kept` of an earlier builder remembers only those, and counts their terms and large parts.
    """

    def __init__(self, kept: Iterable[Pod] = ()) -> None:
        self._labels = Shared(texts_of)
        self._owners = Shared(controller_of)
        self._classes: dict[Hashable, SchedulingClass] = {}
        self._constraints: dict[Fingerprint, SchedulingClass] = {}
        self._distinct: dict[SchedulingClass, SchedulingClass] = {}
        self._shares = NamespaceParts()
        self._heavy: set[int] = set()  # ids of classes that have terms or are large
        self._of_classes_bytes = 0
        for pod in {(pod.namespace, id(pod.scheduling)): pod for pod in kept}.values():
            scheduling = self._distinct.setdefault(pod.scheduling, pod.scheduling)
            if number_of_terms(scheduling) or kept_bytes(scheduling) > ORDINARY_BYTES:
                self._heavy.add(id(scheduling))
                self._shares.refusal_of(pod.namespace, scheduling)
        for pod in kept:
            if has_many(pod.labels, pod.volumes):
                self._shares.admits_parts(pod.namespace, pod.labels, pod.volumes)

    def remembered_bytes(self) -> int:
        """The memory of all that it remembers."""
        shared_bytes = self._labels.size_bytes + self._owners.size_bytes
        return shared_bytes + self._of_classes_bytes + self._shares.refused_bytes

    def pod(self, item: pods.Pod) -> Pod:
        """The pod."""
        metadata, spec, status = item.metadata, item.spec, item.status
        ready, resize, unschedulable = _conditions(status.conditions or ())
        waiting_for, waiting_since = ("", None) if ready else _waiting(item)
        templates, uncounted = _resource_claims(spec.resource_claims)
        excess = _excess(item)
        labels = {} if excess else self._labels[bytes(metadata.labels)]
        volumes = _volumes(metadata.name, spec.volumes) if spec.volumes else ()
        if has_many(labels, volumes) and not self._shares.admits_parts(
            metadata.namespace, labels, volumes
        ):
            excess = excess or BEYOND_SHARE
        scheduling = self._scheduling(metadata.namespace, spec, status)
        if excess:
            labels, volumes = {}, _claims_alone(volumes)
            made = without_constraints(scheduling, excess)
            scheduling = self._distinct.setdefault(made, made)
        return Pod(
            namespace=intern(metadata.namespace),
            name=metadata.name,
            uid=metadata.uid,
            scheduling=scheduling,
            created_at=metadata.creation_timestamp,
            labels=labels,
            annotations=annotations_of(metadata.annotations) or _NO_ANNOTATIONS,
            owner=self._owners[bytes(metadata.owner_references)],
            node=intern(spec.node_name or ""),
            nominated_node=intern(status.nominated_node_name or ""),
            phase=intern(status.phase or "Pending"),
            ready=ready,
            waiting_for=waiting_for,
            waiting_since=waiting_since,
            started_at=status.start_time,
            deleting=metadata.deletion_timestamp is not None,
            priority=spec.priority or 0,
            qos=intern(status.qos_class or "Burstable"),
            scheduler=intern((spec.scheduler_name or "default-scheduler")[: LONGEST_NAME + 1]),
            volumes=volumes,
            has_resource_claims=bool(templates or uncounted),
            uncounted_claims=uncounted or CLAIMS_NOT_READ,
            claim_templates=templates,
            scheduling_group=_group(spec.scheduling_group) or _group(spec.workload_ref),
            gated=has_entries(spec.scheduling_gates),
            unschedulable=unschedulable,
            grace_period_seconds=_grace_period(spec),
            resizing=resize is not None,
            resize_deferred=resize == "Deferred",
            leaves_at=metadata.deletion_timestamp,
        )

    def _scheduling(
        self, namespace: str, spec: pods.PodSpec, status: pods.PodStatus
    ) -> SchedulingClass:
        key = (fingerprint(spec, status), image_names(spec))
        scheduling = self._classes.get(key)
        if scheduling is None:
            scheduling = self._new_class(key, spec, status)
        if id(scheduling) not in self._heavy:
            return scheduling
        refusal = self._shares.refusal_of(namespace, scheduling)
        if not refusal:
            return scheduling
        made = without_constraints(scheduling, refusal)
        return self._distinct.setdefault(made, made)

    def _new_class(
        self, key: tuple[Fingerprint, tuple[str, ...]], spec: pods.PodSpec, status: pods.PodStatus
    ) -> SchedulingClass:
        size_bytes = sum(len(part or "") for parts in key for part in parts)
        if size_bytes <= LARGEST_CONSTRAINTS_BYTES:
            if key[0] not in self._constraints:  # workloads may differ only in their images
                self._constraints[key[0]] = bounded(scheduling_class(spec, status))
            made = with_images(self._constraints[key[0]], key[1])
            scheduling = self._classes[key] = self._distinct.setdefault(made, made)
            memory_bytes = memory_of(scheduling, size_bytes)
            self._of_classes_bytes += size_bytes + memory_bytes
            if memory_bytes > ORDINARY_BYTES or number_of_terms(scheduling):
                self._heavy.add(id(scheduling))
            return scheduling
        digest = blake2b(msgspec.msgpack.encode(key)).digest()  # the key itself is too large
        reduced = self._classes.get(digest)
        if reduced is None:
            largest = LARGEST_CONSTRAINTS_BYTES >> 10
            excess = f"constraints of {size_bytes >> 10} KiB, more than {largest}"
            made = without_constraints(scheduling_class(spec, status), excess)
            reduced = self._classes[digest] = self._distinct.setdefault(made, made)
            self._of_classes_bytes += kept_bytes(reduced)
        return reduced


def pods_kind(kept: Iterable[Pod] = ()) -> Kind[pods.Pod, Pod]:
    """The kind, with a builder of its own that goes on with these pods."""
    builder = PodBuilder(kept)
    return Kind(LIST_PODS, pods.Pod, builder.pod, remembered_bytes=builder.remembered_bytes)


def _excess(item: pods.Pod) -> str:
    """What makes the pod too large to keep all of it, empty for nearly all pods."""
    labels_bytes = memoryview(item.metadata.labels).nbytes
    if labels_bytes > LARGEST_JSON_BYTES:
        return f"labels of {labels_bytes >> 10} KiB, more than {LARGEST_JSON_BYTES >> 10}"
    volumes = len(item.spec.volumes or ())
    return f"{volumes} volumes, more than {MOST_VOLUMES}" if volumes > MOST_VOLUMES else ""


def _claims_alone(volumes: tuple[PodVolume, ...]) -> tuple[PodVolume, ...]:
    """What nodes attach; no node attaches more."""
    return tuple(volume for volume in volumes if volume.claim)[:MOST_CLAIMS]


def _conditions(conditions: Iterable[Condition]) -> tuple[bool, str | None, bool]:
    """Whether the pod is Ready, how its resize in place stands, and whether it has found no node.

    The resize is None without any, "Deferred" or "Infeasible" if it waits, else "".
    """
    ready = unschedulable = False
    resize: str | None = None
    for condition in conditions:
        if condition.type == "Ready":
            ready = condition.status == "True"
        elif condition.type in _RESIZE_CONDITIONS and condition.status != "False":
            resize = resize or condition.reason or ""
        elif condition.type == "PodScheduled" and condition.reason == "Unschedulable":
            unschedulable = condition.status == "False"
    return ready, resize, unschedulable


def _waiting(item: pods.Pod) -> tuple[str, datetime | None]:
    """Why a container waits by the kubelet, and since when at the latest; "" and None if none does.

    No object has when a crash loop began. Its restarts tell for how long it has lasted at least.
    """
    status, created_at = item.status, item.metadata.creation_timestamp
    for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        state = _STATE(container.state)
        reason = (state.waiting.reason if state and state.waiting else None) or ""
        # Until its init containers have ended, each other container waits.
        if not reason or reason == "PodInitializing":
            continue
        last = _STATE(container.last_state)
        ended = last.terminated.finished_at if last and last.terminated else None
        looped = max(0, container.restart_count - _FAST_RESTARTS) * _RESTART_PERIOD
        return intern(shortened(reason)), max(created_at, (ended or created_at) - looped)
    return "", None


def _group(raw: msgspec.Raw) -> str:
    """The name of the group, which is there even if its form is not known; empty without any."""
    if bytes(raw) in {b"", b"null"}:
        return ""
    try:
        group = _GROUP(raw)
    except UNDECODABLE:
        group = None
    name = (group.pod_group_name or group.name) if group is not None else None
    return intern(name or UNNAMED)[:LONGEST_NAME]


def _resource_claims(raw: msgspec.Raw) -> tuple[tuple[str, ...], str]:
    """The templates of its ResourceClaims, or else why these cannot be counted."""
    templates = []
    for claim in _CLAIMS(raw) or ():
        if claim.resource_claim_template_name is None:
            return (), f"others may share its claim {claim.name}"[:LONGEST_NAME]
        templates.append(intern(claim.resource_claim_template_name))
    return tuple(templates), ""


def _grace_period(spec: pods.PodSpec) -> int:
    seconds = spec.termination_grace_period_seconds
    return _DEFAULT_GRACE_SECONDS if seconds is None else seconds


def _volumes(pod_name: str, volumes: Iterable[pods.Volume]) -> tuple[PodVolume, ...]:
    found = []
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim.claim_name
            found.append(PodVolume(VolumeKind.CLAIM, claim))
        elif volume.ephemeral is not None:
            found.append(PodVolume(VolumeKind.EPHEMERAL_CLAIM, f"{pod_name}-{volume.name}"))
        elif volume.empty_dir is not None:
            in_memory = (volume.empty_dir.medium or "").startswith(_MEMORY_MEDIA)
            found.append(_MEMORY_DIR if in_memory else _disk_dir(volume.name))
        elif volume.host_path is not None:
            path = intern(volume.host_path.path[:LONGEST_PATH])
            name = intern(volume.name[:LONGEST_NAME])
            found.append(PodVolume(VolumeKind.HOST_PATH, path=path, name=name))
        elif volume.csi is not None and volume.csi.driver == GPUSTACK_DRIVER:
            digest = (volume.csi.volume_attributes or {}).get(GPUSTACK_DIGEST, "")
            found.append(PodVolume(VolumeKind.MODEL, model=intern(digest[: LONGEST_NAME + 1])))
    return tuple(found)


@lru_cache(maxsize=1024)  # pods of a workload have the same names
def _disk_dir(name: str) -> PodVolume:
    return PodVolume(VolumeKind.EMPTY_DIR, name=name[:LONGEST_NAME])
