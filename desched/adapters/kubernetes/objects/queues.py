"""Queues: how many objects wait in them, and whether they admit any.

Tenants may write LocalQueues. Of each queue only names and a number are kept, however large it is.
One that cannot be read keeps the pods of its own queue, and nothing else.

Sources: kueue apis/kueue/v1beta1 and v1beta2, clusterqueue_types.go and localqueue_types.go
(`pendingWorkloads`, the condition `Active`); volcano.sh/apis scheduling/v1beta1 (`QueueState`).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from desched.adapters.kubernetes.client.access import (
    LIST_CLUSTER_QUEUES,
    LIST_LOCAL_QUEUES,
    LIST_VOLCANO_QUEUES,
)
from desched.adapters.kubernetes.client.api_types import queues as wire
from desched.adapters.kubernetes.client.paged_reads import Reading
from desched.api_objects.access import Access
from desched.api_objects.decoding import UNDECODABLE, RawDecoder
from desched.api_objects.kinds import Kind
from desched.model.cluster import Pod, Queue
from desched.model.queues import KUEUE, VOLCANO, kueue_queue
from desched.model.text import shortened
from desched.planning.eligibility.controllers import LONGEST_NAME

_SPEC = RawDecoder(wire.LocalQueueSpec)
_OF_KUEUE = RawDecoder(wire.KueueStatus)
_OF_VOLCANO = RawDecoder(wire.VolcanoStatus)

_VERSIONS = ("v1beta1", "v1beta2")

_Read = Callable[[wire.Queue], Queue]


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


def _kinds(
    system: str, read: _Read, access: Access, *versions: str
) -> Iterator[Kind[wire.Queue, Queue]]:
    for version in versions:
        yield Kind(
            access._replace(version=version),
            wire.Queue,
            partial(_read_queue, system, read),
            is_optional=True,
            is_discovered=True,
        )


_Kinds = tuple[Kind[wire.Queue, Queue], ...]

_CLUSTER_QUEUES: _Kinds = tuple(_kinds(KUEUE, _cluster_queue, LIST_CLUSTER_QUEUES, *_VERSIONS))
_LOCAL_QUEUES: _Kinds = tuple(_kinds(KUEUE, _local_queue, LIST_LOCAL_QUEUES, *_VERSIONS))
QUEUES: _Kinds = (
    *_CLUSTER_QUEUES,
    *_LOCAL_QUEUES,
    *_kinds(VOLCANO, _volcano, LIST_VOLCANO_QUEUES, "v1beta1"),
)
"""All queues. Kueue serves two versions with the same objects; of both, the newer one counts."""


def read_queues_of(read: Reading, pod: Pod) -> tuple[Queue, ...]:
    """The LocalQueue and the ClusterQueue in which the replacement of a pod waits again, as now.

    What waits in a Queue of Volcano is known by all PodGroups, too many to be read for one pod.
    """
    name = kueue_queue(pod)
    local = _named(read, _LOCAL_QUEUES, name, pod.namespace) if name else None
    if local is None:
        return ()
    shared = _named(read, _CLUSTER_QUEUES, local.cluster_queue)
    return (local,) if shared is None else (local, shared)


def _named(read: Reading, kinds: _Kinds, name: str, namespace: str = "") -> Queue | None:
    selector = {"fieldSelector": f"metadata.name={name}"}
    found = [value for kind in kinds for value in read.listing(kind, namespace, selector).values]
    return found[-1] if found else None
