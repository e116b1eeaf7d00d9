"""Queues: how many objects wait in them, and whether they admit any.

Tenants may write LocalQueues. Of each queue only names and a number are kept, however large it is.
One that cannot be read keeps the pods of its own queue, and nothing else.

Sources: kueue apis/kueue/v1beta1 and v1beta2, clusterqueue_types.go and localqueue_types.go
(`pendingWorkloads`, the condition `Active`); volcano.sh/apis scheduling/v1beta1 (`QueueState`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from desched.api_objects.access import Access, list_and_watch
from desched.api_objects.decoding import UNDECODABLE, RawDecoder
from desched.api_objects.kinds import Kind, Lists
from desched.api_objects.plugin_kinds import PluginKinds, Reads, SystemRights
from desched.model.cluster import Node, Pod, Workload
from desched.model.text import shortened
from desched.planning.eligibility.controllers import LONGEST_NAME
from desched.plugins.queues import wire
from desched.plugins.queues.objects import KUEUE, VOLCANO, Queue, QueueObjects, kueue_queue


def _rights(kind: str) -> tuple[Access, Access]:
    """The rights to read these queues."""
    without = (
        "pods move whatever else waits in their queue, which may take the share of a replacement"
    )
    return list_and_watch(kind, "what waits in the queue of a pod", without, "v1beta1")


_CLUSTER_QUEUE_RIGHTS = _rights("kueue.x-k8s.io clusterqueues")
_LOCAL_QUEUE_RIGHTS = _rights("kueue.x-k8s.io localqueues")
_VOLCANO_RIGHTS = _rights("scheduling.volcano.sh queues")

_SPEC = RawDecoder(wire.LocalQueueSpec)
_OF_KUEUE = RawDecoder(wire.KueueStatus)
_OF_VOLCANO = RawDecoder(wire.VolcanoStatus)

_VERSIONS = ("v1beta1", "v1beta2")

_Read = Callable[[wire.Queue], Queue]
_Kinds = tuple[Kind[wire.Queue, Queue], ...]


def _cluster_queue(item: wire.Queue) -> Queue:
    status = _OF_KUEUE(item.status) or wire.KueueStatus()
    unclear, closed = _inactive(status)
    if status.pending_workloads is None:
        unclear = unclear or "how many Workloads wait there is not in its status"
    waiting = max(status.pending_workloads or 0, 0)
    return _queue(KUEUE, item, waiting=waiting, closed=closed, unclear=unclear)


def _local_queue(item: wire.Queue) -> Queue:
    unclear, closed = _inactive(_OF_KUEUE(item.status) or wire.KueueStatus())
    name = (_SPEC(item.spec) or wire.LocalQueueSpec()).cluster_queue
    # No object has a longer name, so that too long a one matches none.
    cluster_queue = name[: LONGEST_NAME + 1]
    unclear = unclear or ("" if name else "it names no ClusterQueue")
    return _queue(KUEUE, item, cluster_queue=cluster_queue, closed=closed, unclear=unclear)


def _inactive(status: wire.KueueStatus) -> tuple[str, str]:
    """Why it is not known whether the queue admits anything, and why it does not."""
    active = next(
        (condition for condition in status.conditions or () if condition.type == "Active"), None
    )
    if active is None or active.status not in {"True", "False"}:
        return "whether it is Active is not in its status", ""
    if active.status == "True":
        return "", ""
    return "", f"it admits nothing ({active.reason or 'not Active'})"


def _volcano(item: wire.Queue) -> Queue:
    state = (_OF_VOLCANO(item.status) or wire.VolcanoStatus()).state
    if not state:
        return _queue(VOLCANO, item, unclear="its state is not in its status")
    return _queue(VOLCANO, item, closed="" if state == "Open" else f"it admits nothing ({state})")


def _queue(system: str, item: wire.Queue, **fields: Any) -> Queue:
    for name in ("closed", "unclear"):
        fields[name] = shortened(fields.get(name, ""))
    return Queue(system, item.metadata.namespace, item.metadata.name, **fields)


def _read_queue(system: str, read: _Read, item: wire.Queue) -> Queue:
    try:
        return read(item)
    except (*UNDECODABLE, ValueError) as error:
        return _queue(system, item, unclear=f"it cannot be read: {error}")


def _kinds(system: str, read: _Read, access: Access, *versions: str) -> _Kinds:
    build = partial(_read_queue, system, read)
    return tuple(
        Kind(access, wire.Queue, build, is_optional=True, is_discovered=True)
        for access in _versions(access, *versions)
    )


def _versions(access: Access, *versions: str) -> tuple[Access, ...]:
    return tuple(access._replace(version=version) for version in versions)


_CLUSTER_QUEUES = _kinds(KUEUE, _cluster_queue, _CLUSTER_QUEUE_RIGHTS[0], *_VERSIONS)
_LOCAL_QUEUES = _kinds(KUEUE, _local_queue, _LOCAL_QUEUE_RIGHTS[0], *_VERSIONS)
_VOLCANO_QUEUES = _kinds(VOLCANO, _volcano, _VOLCANO_RIGHTS[0], "v1beta1")
QUEUES: _Kinds = (*_CLUSTER_QUEUES, *_LOCAL_QUEUES, *_VOLCANO_QUEUES)
"""All queues. Kueue serves two versions with the same objects; of both, the newer one counts."""


def _all(lists: Lists, _: Sequence[Node]) -> QueueObjects:
    """The queues, each once."""
    queues = QueueObjects(tuple(queue for kind in QUEUES for queue in lists.all(kind)))
    return QueueObjects(tuple(queues.by_key.values()))


def _around(reads: Reads, pod: Pod, _: Workload | None) -> QueueObjects:
    """The LocalQueue and the ClusterQueue in which the replacement of a pod waits again, as now.

    What waits in a Queue of Volcano is known by all PodGroups, too many to be read for one pod.
    """
    name = kueue_queue(pod)
    local = _named(reads, _LOCAL_QUEUES, name, pod.namespace) if name else None
    if local is None:
        return QueueObjects()
    shared = _named(reads, _CLUSTER_QUEUES, local.cluster_queue)
    return QueueObjects((local,) if shared is None else (local, shared))


def _named(reads: Reads, kinds: _Kinds, name: str, namespace: str = "") -> Queue | None:
    queues = [reads.by_name(kind, name, namespace) for kind in kinds]
    return next((queue for queue in reversed(queues) if queue is not None), None)


QUEUE_KINDS = PluginKinds(
    QueueObjects,
    QUEUES,
    SystemRights(
        name="queues",
        title="queues",
        unread="Pods move whatever else waits in their queue.",
        read={
            KUEUE: _versions(_CLUSTER_QUEUE_RIGHTS[0], *_VERSIONS),
            VOLCANO: _VOLCANO_RIGHTS[:1],
        },
        granted={
            "kueue": (*_CLUSTER_QUEUE_RIGHTS, *_LOCAL_QUEUE_RIGHTS),
            "volcano": _VOLCANO_RIGHTS,
        },
    ),
    _all,
    _around,
)
