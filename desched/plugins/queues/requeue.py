"""Queues in which the replacement of a pod waits again, and what else waits there.

Sources, of which docs/plugins/queues.md has what users need: kueue pkg/controller/jobs/pod/
pod_webhook.go (`Default`: `managed`, `queue-name`), pod_controller.go:707 and 1201-1207 (a Workload
for each pod, finished when it is deleted), apis/kueue/v1beta2/clusterqueue_types.go
(`pendingWorkloads`); volcano pkg/controllers/podgroup/pg_controller_handler.go:270-288 (a PodGroup
for each ReplicaSet), pkg/scheduler/plugins/gang/gang.go:139-161 (satisfied PodGroups come last),
pkg/scheduler/plugins/proportion/proportion.go:404-438 (only Open queues).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from desched.gangs.objects import DeclaredGroup, GangObjects
from desched.gangs.pod_groups import declared_keys
from desched.model.cluster import ClusterState, Pod
from desched.model.groups import grouped
from desched.planning.eligibility.context import EligibilityContext
from desched.plugins.queues.objects import (
    KAI_QUEUE,
    KUEUE,
    QUEUE_NAME,
    VOLCANO,
    QueueObjects,
    is_of_kueue,
)

_VOLCANO_SCHEDULER = "volcano"
_DEFAULT_QUEUE = "default"


class Requeue(NamedTuple):
    """The queue in which a replacement waits again; `title` names it.

    `busy` is why others may get the share that the pod leaves, or nobody does, `unclear` why that
    is not known. Both are empty if nothing else waits, or if desched does not read such queues.
    """

    title: str
    is_read: bool = True
    busy: str = ""
    unclear: str = ""


def requeue(pod: Pod, context: EligibilityContext) -> Requeue | None:
    """Where the replacement of the pod waits again; None if no queue is known to admit it."""
    queues = QueueObjects.of(context.cluster.extras)
    if is_of_kueue(pod):
        return _of_kueue(pod, queues)
    workload = context.cluster.workload_of(pod)
    keys = [key for key in declared_keys(pod, workload) if key[0] == VOLCANO]
    if keys or pod.scheduler == _VOLCANO_SCHEDULER:
        declared = GangObjects.of(context.cluster.extras).by_key
        return _of_volcano([declared[key] for key in keys if key in declared], queues, context)
    if KAI_QUEUE in pod.labels:
        return Requeue(f"queue {pod.labels[KAI_QUEUE]} (KAI)", is_read=False)
    return None


def _of_kueue(pod: Pod, queues: QueueObjects) -> Requeue:
    name = pod.labels.get(QUEUE_NAME, "")
    title = f"LocalQueue {pod.namespace}/{name} (Kueue)" if name else "a queue of Kueue"
    if KUEUE not in queues.systems:
        return Requeue(title, is_read=False)
    local = queues.by_key.get((KUEUE, pod.namespace, name)) if name else None
    if local is None:
        return Requeue(title, unclear="it was not read" if name else "no label names it")
    if local.closed or local.unclear:
        return Requeue(title, busy=local.closed, unclear=local.unclear)
    title = f"ClusterQueue {local.cluster_queue} (Kueue)"
    shared = queues.by_key.get((KUEUE, "", local.cluster_queue))
    if shared is None:
        return Requeue(title, unclear="it was not read")
    waiting = _in_words(shared.waiting, "Workload") if shared.waiting else ""
    return Requeue(title, busy=shared.closed or waiting, unclear=shared.unclear)


def _of_volcano(
    groups: list[DeclaredGroup], queues: QueueObjects, context: EligibilityContext
) -> Requeue:
    named = [group.queue or _DEFAULT_QUEUE for group in groups]
    title = f"queue {named[0]} (Volcano)" if named else "a queue of Volcano"
    if VOLCANO not in queues.systems:
        return Requeue(title, is_read=False)
    if not named:
        return Requeue(title, unclear="the PodGroup of the pod was not read")
    queue = queues.by_key.get((VOLCANO, "", named[0]))
    if queue is None:
        return Requeue(title, unclear="it was not read")
    # A fresh look has neither the other PodGroups nor their pods.
    waiting = context.as_planned.derived(_waiting_groups).get(named[0], ())
    busy = ""
    if waiting:
        others = ", such as" if len(waiting) > 1 else ":"
        busy = f"{_in_words(len(waiting), 'PodGroup')}{others} {min(waiting)}"
    return Requeue(title, busy=queue.closed or busy, unclear=queue.unclear)


def _waiting_groups(context: EligibilityContext) -> Mapping[str, frozenset[str]]:
    """The PodGroups that wait in each queue of Volcano, also for a single pod."""
    waiting = grouped(
        (group.queue or _DEFAULT_QUEUE, f"{group.namespace}/{group.name}")
        for group in _waiting(context.cluster)
    )
    return {queue: frozenset(groups) for queue, groups in waiting.items()}


def _waiting(cluster: ClusterState) -> Iterator[DeclaredGroup]:
    groups = GangObjects.of(cluster.extras).by_key
    yield from (group for group in groups.values() if group.system == VOLCANO and group.waits)
    for pod in cluster.pods:
        if not pod.node and not pod.finished and not pod.deleting:
            keys = (key for key in declared_keys(pod, None) if key[0] == VOLCANO)
            yield from (groups[key] for key in keys if key in groups)


def _in_words(number: int, what: str) -> str:
    return f"{number} {what}s wait there" if number > 1 else f"1 {what} waits there"
