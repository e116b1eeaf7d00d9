"""Fresh looks at the pods whose evictions are next, several side by side.

What a look saw must not have been changed by desched itself since. So no look outlasts a request
for an eviction from its node or its namespace, where it may share a budget or a workload.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from desched.eviction.pacing import BURST
from desched.model.cluster import PodRef
from desched.model.plan import PlannedEviction
from desched.ports import ClusterReader, MaybeFreshPod, PodToRead

MOST_LOOKS = BURST
"""The maximum number of looks at a time."""

LONGEST_AGE_SECONDS = 5.0
"""How long a look waits for the evictions before it; then the pod is looked at again."""


class _Known(NamedTuple):
    eviction: PlannedEviction
    looked: MaybeFreshPod
    at: float


class FreshLooks:
    """The looks of one cycle; each is used once. `monotonic` is the clock for their age."""

    def __init__(self, reader: ClusterReader, monotonic: Callable[[], float]) -> None:
        self._reader = reader
        self._monotonic = monotonic
        self._known: dict[PodRef, _Known] = {}

    def at(self, eviction: PlannedEviction, following: Iterable[PlannedEviction]) -> MaybeFreshPod:
        """The look at the pod of the eviction that is requested next.

        If there is none yet, the pods of the `following` evictions are read with it.
        """
        oldest = self._monotonic() - LONGEST_AGE_SECONDS
        self._known = {pod: look for pod, look in self._known.items() if look.at >= oldest}
        if eviction.pod not in self._known:
            self._look(eviction, following)
        return self._known.pop(eviction.pod).looked

    def requested(self, eviction: PlannedEviction) -> None:
        """Forget the looks that may not be true any more after a request for this eviction."""
        self._known = {
            pod: look
            for pod, look in self._known.items()
            if not _is_related(look.eviction, eviction)
        }

    def _look(self, eviction: PlannedEviction, following: Iterable[PlannedEviction]) -> None:
        chosen = [eviction]
        for other in following:
            is_new = other.pod not in self._known
            if is_new and not any(_is_related(other, begun) for begun in chosen):
                chosen.append(other)
        del chosen[MOST_LOOKS:]
        looks = self._reader.read_around([PodToRead(each.pod) for each in chosen])
        now = self._monotonic()
        for each, looked in zip(chosen, looks, strict=True):
            self._known[each.pod] = _Known(each, looked, now)


def _is_related(one: PlannedEviction, other: PlannedEviction) -> bool:
    return one.node == other.node or one.pod.namespace == other.pod.namespace
