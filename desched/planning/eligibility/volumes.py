"""Rules about volumes: claims, volumes that are bound to a node, and storage of the node itself.

Storage of a node comes in four kinds. An emptyDir in memory is ignored: its content does not
outlive the process. A hostPath is ignored if every Linux node has it, or if it belongs to a device
driver and the pod requests a device, because the pod then fits only on nodes with the driver. Any
other hostPath may have data of this node; only an annotation lifts this rule. An emptyDir on disk
is lost with the pod; the policy may accept that.
"""

import posixpath
from fnmatch import fnmatchcase
from itertools import chain

from desched.model.cluster import PersistentVolume, Pod, PodVolume, VolumeKind
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.planning.eligibility.annotations import may_lose
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.local_storage import disk_volumes
from desched.planning.eligibility.terms import Terms, Why

MOST_NAMED = 3
"""Volumes of a pod in the detail of a refusal."""

CLAIMS = frozenset({VolumeKind.CLAIM, VolumeKind.EPHEMERAL_CLAIM})

SAME_ON_EVERY_NODE = ("/sys", "/proc", "/etc/localtime", "/usr/share/zoneinfo")
"""Directories, with their content, and files that are the same on every Linux node."""

DRIVER_PATHS = (
    "/dev/accel*",
    "/dev/aperture_devices*",
    "/dev/dmabuf_import_helper",
    "/dev/dri*",
    "/dev/infiniband*",
    "/dev/kfd",
    "/dev/nvidia*",
    "/dev/vfio*",
    "/home/kubernetes/bin/*",
    "/run/nvidia*",
    "/run/tcpx*",
    "/usr/local/nvidia*",
    "/var/run/nvidia*",
)
"""Patterns of devices, their drivers and their runtimes; `*` also matches slashes."""


def claims(pod: Pod, context: EligibilityContext) -> Why:
    """PersistentVolumeClaims that the policy protects: all, or those of some storage classes."""
    if not context.protections.pvc_pods:
        return None
    protected = context.protections.protected_storage_classes
    for volume in pod.volumes:
        if volume.kind not in CLAIMS:
            continue
        claim = context.cluster.claims.get((pod.namespace, volume.claim))
        # A claim that is missing or has no class may belong to a protected class.
        if not protected or claim is None or claim.storage_class in {"", *protected}:
            return volume.claim
    return None


def node_bound_volumes(pod: Pod, context: EligibilityContext) -> Why:
    """Volumes that no other node can reach, or that are not known."""
    for volume in pod.volumes:
        if volume.kind in CLAIMS:
            problem = _node_bound(pod, volume, context)
            if problem:
                return f"claim {volume.claim}: {problem}"
    return None


def shared_claims(pod: Pod, context: EligibilityContext) -> Why:
    """Claims for one node that another pod on the node uses: they stay attached to this node."""
    for volume in pod.volumes:
        if volume.kind is not VolumeKind.CLAIM:
            continue  # a replacement gets new ephemeral claims
        claim = context.cluster.claims.get((pod.namespace, volume.claim))
        if claim is None or not claim.for_one_node or context.has_copies(pod, volume):
            continue
        users = context.claim_users.get((pod.node, pod.namespace, volume.claim), ())
        other = next((user for user in users if user.uid != pod.uid), None)
        if other is not None:
            return f"claim {volume.claim}: {other.ref} uses it, too"
    return None


def disk_storage(pod: Pod, context: EligibilityContext) -> Why:
    """The emptyDirs on disk, which are lost with the pod unless another controller moves it."""
    if not context.protections.local_storage or not (
        kept := disk_volumes(pod, context.policy.plugins)
    ):
        return None
    names = sorted({volume.name for volume in kept if volume.name})
    further = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    listed = f"{VolumeKind.EMPTY_DIR.value} {', '.join(names[:MOST_NAMED])}".rstrip() + further
    of_all = f"{context.kept_by_local_storage} of {len(context.cluster.pods)}"
    return f"{listed}; {of_all} pods of the cluster stay for such volumes"


def plain_path(path: str) -> str:
    """A path that says nothing about its owner, and of which `host_paths` finds the same."""
    normal = posixpath.normpath(path)
    same = (each for each in SAME_ON_EVERY_NODE if normal == each or normal.startswith(f"{each}/"))
    driver = (each.replace("*", "x") for each in DRIVER_PATHS if fnmatchcase(normal, each))
    return next(chain(same, driver), "/path")


def host_paths(pod: Pod, _: Terms) -> Why:
    """A hostPath that other nodes may not have, or with other content."""
    for volume in pod.volumes:
        if volume.kind is not VolumeKind.HOST_PATH or may_lose(pod, volume):
            continue
        path = posixpath.normpath(volume.path)
        if any(path == same or path.startswith(f"{same}/") for same in SAME_ON_EVERY_NODE):
            continue
        if not any(fnmatchcase(path, pattern) for pattern in DRIVER_PATHS):
            return volume.path
        if not _requests_a_device(pod):
            return f"{volume.path}, and it requests no device"
    return None


def _requests_a_device(pod: Pod) -> bool:
    return any("/" in name for name, _ in pod.scheduling.requests.extended)


def _node_bound(pod: Pod, volume: PodVolume, context: EligibilityContext) -> str:
    """Why the claim binds the pod to its node, empty if it does not."""
    claim = context.cluster.claims.get((pod.namespace, volume.claim))
    if claim is None:
        return "it was not found"
    if not claim.volume:
        return "it is not bound to a volume"
    persistent = context.cluster.volumes.get(claim.volume)
    if persistent is None:
        return f"its volume {claim.volume} was not found"
    if persistent.local and not context.has_copies(pod, volume):
        return f"its volume {claim.volume} is on a node's own disk"
    if _is_bound_to_one_node(persistent, context):
        return f"its volume {claim.volume} is bound to a node"
    return ""


def _is_bound_to_one_node(volume: PersistentVolume, context: EligibilityContext) -> bool:
    return volume.node_affinity is not None and all(
        _names_one_node(term, context) for term in volume.node_affinity
    )


def _names_one_node(term: NodeSelectorTerm, context: EligibilityContext) -> bool:
    """Whether the term requires names or labels that at most one node has."""
    names = context.cluster.node_by_name
    nodes = [
        *(
            sum(name in names for name in set(field.values))
            for field in term.fields
            if _is_in(field)
        ),
        *(
            sum(context.nodes_by_label[label.key, value] for value in set(label.values))
            for label in term.labels
            if _is_in(label)
        ),
    ]
    return any(count <= 1 for count in nodes)


def _is_in(requirement: Requirement) -> bool:
    return requirement.operator is Operator.IN
