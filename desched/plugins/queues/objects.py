"""The queues of a cluster."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, ClassVar

import msgspec

from desched.model.bounds import Count
from desched.model.cluster import Pod
from desched.model.extras import Extras, Objects
from desched.model.names import Instead, LabeledName, Namespace, Plain
from desched.model.snapshot import FreshPod

KUEUE, VOLCANO = "Kueue", "Volcano"

MANAGED = "kueue.x-k8s.io/managed"
"""The label of pods that Kueue admits one by one or in groups; those of a Job lack it."""
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
KAI_QUEUE = "kai.scheduler/queue"

_POD_GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
"""A group has one Workload, which outlasts its pods."""

QueueKey = tuple[str, str, str]
"""The system, the namespace, which may be empty, and the name of a queue."""


class Queue(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A queue of a system; those without a namespace belong to none.

    A LocalQueue of Kueue uses the share of the `cluster_queue`. `waiting` is how many objects wait
    in the queue, as far as it counts them. `closed` is why it admits nothing, `unclear` why that or
    what waits is not known.
    """

    system: Plain
    namespace: Namespace
    name: LabeledName
    cluster_queue: LabeledName = ""
    waiting: Count = 0
    closed: Annotated[str, Instead("closed")] = ""
    unclear: Annotated[str, Instead("not read")] = ""

    @property
    def key(self) -> QueueKey:
        """What identifies the queue."""
        return self.system, self.namespace, self.name


class QueueObjects(Objects, frozen=True):
    """The queues; of several with the same key the last one counts."""

    plugin: ClassVar[str] = "queues"

    queues: tuple[Queue, ...] = ()

    @cached_property
    def by_key(self) -> Mapping[QueueKey, Queue]:
        """The queues by their keys."""
        return {queue.key: queue for queue in self.queues}

    @cached_property
    def systems(self) -> frozenset[str]:
        """The systems of which queues were read: each that is installed has at least one."""
        return frozenset(queue.system for queue in self.queues)

    def of_kueue(self, pod: Pod) -> Iterator[Queue]:
        """The LocalQueue and the ClusterQueue in which the replacement of the pod waits again."""
        local = self.by_key.get((KUEUE, pod.namespace, kueue_queue(pod)))
        if local is not None:
            shared = self.by_key.get((KUEUE, "", local.cluster_queue))
            yield from (local,) if shared is None else (local, shared)

    def read_again(self, looks: Sequence[FreshPod]) -> Extras:
        """The queues, those of Kueue as they were read just now for these pods, or were not."""
        gone = [
            msgspec.structs.replace(queue, unclear="it was not read again")
            for look in looks
            for queue in self.of_kueue(look.pod)
        ]
        now = [queue for look in looks for queue in QueueObjects.of(look.extras).queues]
        if not gone and not now:
            return self.extras  # nearly all pods
        return QueueObjects((*self.queues, *gone, *now)).extras


def is_of_kueue(pod: Pod) -> bool:
    """Whether the pod has a Workload of its own, which ends with it."""
    return pod.labels.get(MANAGED) == "true" and _POD_GROUP_NAME not in pod.labels


def kueue_queue(pod: Pod) -> str:
    """The LocalQueue in which the replacement of the pod waits again; empty if there is none."""
    return pod.labels.get(QUEUE_NAME, "") if is_of_kueue(pod) else ""
