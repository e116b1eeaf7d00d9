"""Pending pods that fit on no node now."""

from collections.abc import Callable, Hashable, Iterable, Iterator

import numpy as np

from desched.model.cluster import Pod
from desched.model.resources import basic
from desched.planning.arrays import Ints


class WaitingPods:
    """The pods in the order of `add`; add all of them before the first `fitting`.

    There may be thousands of equal pods, so only one of each kind is kept.
    """

    def __init__(self) -> None:
        self._of_kind: dict[Hashable, Pod] = {}
        # By position of a node: the pods that it admits, and their requests, shape (pods, 4).
        self._at: dict[int, tuple[tuple[Pod, ...], Ints]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_kind)

    def add(self, pod: Pod) -> None:
        """Add a pod; the scheduler's filters do not distinguish the pods of one kind."""
        self._of_kind.setdefault(_kind(pod), pod)

    def without(self, pods: Iterable[Pod]) -> "WaitingPods":
        """Return a copy without the pods of these kinds."""
        others = WaitingPods()
        kinds = {_kind(pod) for pod in pods}
        others._of_kind = {kind: pod for kind, pod in self._of_kind.items() if kind not in kinds}
        return others

    def fitting(
        self, position: int, admits: Callable[[Pod, int], bool], free: Ints
    ) -> Iterator[Pod]:
        """The pods whose basic requests fit into what is free on a node.

        `admits` returns whether the node itself admits a pod; this never changes.
        """
        if position not in self._at:
            pods = tuple(pod for pod in self._of_kind.values() if admits(pod, position))
            rows = [basic(pod.scheduling.requests) for pod in pods]
            self._at[position] = pods, np.array(rows, dtype=np.int64).reshape(len(pods), len(free))
        pods, requests = self._at[position]
        enough = ((requests == 0) | (requests <= free)).all(axis=1)
        return (pods[i] for i in np.flatnonzero(enough))


def _kind(pod: Pod) -> Hashable:
    return pod.scheduling, pod.namespace, frozenset(pod.labels.items())
