"""Pending pods that no node has room for now, one of each kind: there may be very many."""

from collections.abc import Callable, Hashable, Iterator

import numpy as np

from desched.model.cluster import Pod
from desched.planning.arrays import Ints
from desched.planning.kube_scheduler.filters.resources import basic


class WaitingPods:
    """In the order in which they were added; all are added before the first is asked for."""

    def __init__(self) -> None:
        self._of_kind: dict[Hashable, Pod] = {}
        self._at: dict[int, tuple[tuple[Pod, ...], Ints]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_kind)

    def add(self, pod: Pod) -> None:
        """Take note of a pod; the scheduler's filters say the same of all of its kind."""
        kind = (pod.scheduling, pod.namespace, frozenset(pod.labels.items()))
        self._of_kind.setdefault(kind, pod)

    def fitting(
        self, position: int, admits: Callable[[Pod, int], bool], free: Ints
    ) -> Iterator[Pod]:
        """Those that so much free room on a node is enough for, as far as requests tell.

        `admits` says whether the node itself lets a pod in; that never changes.
        """
        if position not in self._at:
            pods = tuple(pod for pod in self._of_kind.values() if admits(pod, position))
            asked = [basic(pod.scheduling.requests) for pod in pods]
            self._at[position] = pods, np.array(asked, dtype=np.int64).reshape(len(pods), len(free))
        pods, requests = self._at[position]
        enough = ((requests == 0) | (requests <= free)).all(axis=1)
        return (pods[i] for i in np.flatnonzero(enough))
