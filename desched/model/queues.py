"""Queues in which the replacement of a pod waits again, and what else waits there.

Sources, of which docs/plugins/queues.md has what users need: kueue pkg/controller/jobs/pod/
pod_webhook.go (`Default`: `managed`, `queue-name`), pod_controller.go:707 and 1201-1207 (a Workload
for each pod, finished when it is deleted), apis/kueue/v1beta2/clusterqueue_types.go
(`pendingWorkloads`); volcano pkg/controllers/podgroup/pg_controller_handler.go:270-288 (a PodGroup
for each ReplicaSet), pkg/scheduler/plugins/gang/gang.go:139-161 (satisfied PodGroups come last),
pkg/scheduler/plugins/proportion/proportion.go:404-438 (only Open queues).
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from desched.model.cluster import ClusterState, DeclaredGroup, GroupKey, Pod, Queue, Workload
from desched.model.pod_groups import declared_keys

KUEUE, VOLCANO = "Kueue", "Volcano"

MANAGED = "kueue.x-k8s.io/managed"
"""The label of pods that Kueue admits one by one or in groups; those of a Job lack it."""
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
KAI_QUEUE = "kai.scheduler/queue"
QUEUE_LABELS = frozenset({MANAGED, QUEUE_NAME, KAI_QUEUE})

_POD_GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
"""A group has one Workload, which outlasts its pods."""

_VOLCANO_SCHEDULER = "volcano"
_DEFAULT_QUEUE = "default"

QueueKey = tuple[str, str, str]
"""The system, the namespace, which may be empty, and the name of a queue."""


class Requeue(NamedTuple):
    """The queue in which a replacement waits again; `title` names it.

    `busy` is why others may get the share that the pod leaves, or nobody does, `unclear` why that
    is not known. Both are empty if nothing else waits, or if desched does not read such queues.
    """

    title: str
    is_read: bool = True
    busy: str = ""
    unclear: str = ""


def is_of_kueue(pod: Pod) -> bool:
    """Whether the pod has a Workload of its own, which ends with it."""
    return pod.labels.get(MANAGED) == "true" and _POD_GROUP_NAME not in pod.labels


def kueue_queue(pod: Pod) -> str:
    """The LocalQueue in which the replacement of the pod waits again; empty if there is none."""
    return pod.labels.get(QUEUE_NAME, "") if is_of_kueue(pod) else ""


class KnownQueues(msgspec.Struct, frozen=True, dict=True):
    """The queues of a cluster as it was observed."""

    cluster: ClusterState

    def with_fresh(self, pods: Iterable[Pod], queues: Iterable[Queue]) -> "KnownQueues":
        """The same with the queues of these pods as they were read just now, or were not."""
        gone = (
            msgspec.structs.replace(queue, unclear="it was not read again")
            for pod in pods
            for queue in self._queues_of(pod)
        )
        fresh = (*gone, *queues)
        if not fresh:
            return self  # nearly all pods
        cluster = msgspec.structs.replace(self.cluster, queues=(*self.cluster.queues, *fresh))
        return KnownQueues(cluster)

    def _queues_of(self, pod: Pod) -> Iterator[Queue]:
        """The queues of Kueue that are read again just before the pod is evicted."""
        local = self._by_key.get((KUEUE, pod.namespace, kueue_queue(pod)))
        if local is not None:
            shared = self._by_key.get((KUEUE, "", local.cluster_queue))
            yield from (local,) if shared is None else (local, shared)

    def requeue(
        self, pod: Pod, workload: Workload | None, declared: Mapping[GroupKey, DeclaredGroup]
    ) -> Requeue | None:
        """Where the replacement of the pod waits again; None if no queue is known to admit it."""
        if is_of_kueue(pod):
            return self._of_kueue(pod)
        keys = [key for key in declared_keys(pod, workload) if key[0] == VOLCANO]
        if keys or pod.scheduler == _VOLCANO_SCHEDULER:
            return self._of_volcano([declared[key] for key in keys if key in declared])
        if KAI_QUEUE in pod.labels:
            return Requeue(f"queue {pod.labels[KAI_QUEUE]} (KAI)", is_read=False)
        return None

    def _of_kueue(self, pod: Pod) -> Requeue:
        name = pod.labels.get(QUEUE_NAME, "")
        title = f"LocalQueue {pod.namespace}/{name} (Kueue)" if name else "a queue of Kueue"
        if KUEUE not in self._systems:
            return Requeue(title, is_read=False)
        local = self._by_key.get((KUEUE, pod.namespace, name)) if name else None
        if local is None:
            return Requeue(title, unclear="it was not read" if name else "no label names it")
        if local.closed or local.unclear:
            return Requeue(title, busy=local.closed, unclear=local.unclear)
        title = f"ClusterQueue {local.cluster_queue} (Kueue)"
        shared = self._by_key.get((KUEUE, "", local.cluster_queue))
        if shared is None:
            return Requeue(title, unclear="it was not read")
        waiting = _waiting(shared.waiting, "Workload") if shared.waiting else ""
        return Requeue(title, busy=shared.closed or waiting, unclear=shared.unclear)

    def _of_volcano(self, groups: list[DeclaredGroup]) -> Requeue:
        named = [group.queue or _DEFAULT_QUEUE for group in groups]
        title = f"queue {named[0]} (Volcano)" if named else "a queue of Volcano"
        if VOLCANO not in self._systems:
            return Requeue(title, is_read=False)
        if not named:
            return Requeue(title, unclear="the PodGroup of the pod was not read")
        queue = self._by_key.get((VOLCANO, "", named[0]))
        if queue is None:
            return Requeue(title, unclear="it was not read")
        waiting = self._waiting_groups.get(named[0], ())
        busy = ""
        if waiting:
            others = ", such as" if len(waiting) > 1 else ":"
            busy = f"{_waiting(len(waiting), 'PodGroup')}{others} {min(waiting)}"
        return Requeue(title, busy=queue.closed or busy, unclear=queue.unclear)

    @cached_property
    def _systems(self) -> frozenset[str]:
        """The systems of which queues were read: each that is installed has at least one."""
        return frozenset(queue.system for queue in self.cluster.queues)

    @cached_property
    def _by_key(self) -> Mapping[QueueKey, Queue]:
        return {(queue.system, queue.namespace, queue.name): queue for queue in self.cluster.queues}

    @cached_property
    def _waiting_groups(self) -> Mapping[str, set[str]]:
        """The PodGroups that wait in each queue of Volcano, also for a single pod."""
        groups_of: dict[str, set[str]] = {}
        for group in self._waiting():
            groups_of.setdefault(group.queue or _DEFAULT_QUEUE, set()).add(
                f"{group.namespace}/{group.name}"
            )
        return groups_of

    def _waiting(self) -> Iterator[DeclaredGroup]:
        groups = self.cluster.declared_by_key
        yield from (group for group in groups.values() if group.system == VOLCANO and group.waits)
        for pod in self.cluster.pods:
            if not pod.node and not pod.finished and not pod.deleting:
                keys = (key for key in declared_keys(pod, None) if key[0] == VOLCANO)
                yield from (groups[key] for key in keys if key in groups)


def _waiting(number: int, what: str) -> str:
    return f"{number} {what}s wait there" if number > 1 else f"1 {what} waits there"
