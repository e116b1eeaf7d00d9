"""Which evictions a day did not need, as its end shows: overload that would have passed by itself.

The node of an evicted pod is looked at as if the pod had stayed, with all pods that were evicted
from it later. What they use is known, wherever they are.
"""

import math
from collections.abc import Mapping

import numpy as np

from desched.lab.closed_loop import LoopMove, LoopResult
from desched.lab.history import Floats, LoadHistory, Mask
from desched.lab.load import size_of
from desched.lab.world import Simulation
from desched.model.cluster import Node

SEEN_SECONDS = 300.0
"""An eviction met an overload if its node was above a target in this time before."""
BRIEF_SECONDS, QUIET_SECONDS = 900.0, 3600.0
"""A brief overload ends within the first, and does not come back in the second after that."""


def brief_evictions(simulation: Simulation, result: LoopResult, begins_at: float = 0.0) -> int:
    """How many evictions met an overload that would have been brief.

    The result is that of the whole simulation; it begins at second `begins_at`.
    """
    return _Hindsight(simulation, result, begins_at).count()


class _Hindsight:
    def __init__(self, simulation: Simulation, result: LoopResult, begins_at: float) -> None:
        self._history: LoadHistory = simulation.cluster.history
        self._nodes: Mapping[str, tuple[int, Node]] = {
            node.name: (row, node) for row, node in enumerate(simulation.cluster.all_nodes)
        }
        self._result = result
        self._begins = begins_at + np.arange(result.load.shape[1]) * result.step_seconds
        self._begins_at = begins_at
        self._targets = np.broadcast_to(result.targets, result.load.shape)
        self._next = {move.pod: move.replacement for move in result.moves}

    def count(self) -> int:
        found = 0
        for name, (row, node) in self._nodes.items():
            if_stayed, size = self._result.load[row].copy(), np.array(size_of(node))
            for move in reversed([each for each in self._result.moves if each.node == name]):
                if_stayed += self._elsewhere(move) / size
                found += self._was_brief(move, row, if_stayed)
        return found

    def _was_brief(self, move: LoopMove, row: int, if_stayed: Floats) -> bool:
        """Whether it met an overload, and nothing would have been left of that later."""
        at = self._begins_at + move.at
        ends = self._begins + self._result.step_seconds
        met = (ends > at - SEEN_SECONDS) & (self._begins < at)
        later = (self._begins >= at + BRIEF_SECONDS) & (
            self._begins < at + BRIEF_SECONDS + QUIET_SECONDS
        )
        if not later.any() or not self._above(self._result.load[row], row)[met].any():
            return False
        return not self._above(if_stayed, row)[later].any()

    def _above(self, load: Floats, row: int) -> Mask:
        above: Mask = (load > self._targets[row]).any(axis=1)
        return above

    def _elsewhere(self, move: LoopMove) -> Floats:
        """What the pod would have used on its node while it was elsewhere, in each step."""
        stay = self._history.stays_of(move.pod)[-1]
        amounts, series = stay.usage.amounts, stay.usage
        level = (self._begins - series.begins_at) // series.bank.step_seconds
        used = amounts[np.clip(level, 0, len(amounts) - 1).astype(int)]
        away = (self._begins >= stay.ended) & (self._begins < self._back_or_gone(move))
        found: Floats = used * away[:, None]
        return found

    def _back_or_gone(self, move: LoopMove) -> float:
        """When a replacement began on the same node, or the last one ended; infinite if neither."""
        pod, ended = self._next.get(move.pod, ""), math.inf
        while pod and (stays := self._history.stays_of(pod)):
            if stays[0].node == move.node:
                return stays[0].began
            pod, ended = self._next.get(pod, ""), stays[-1].ended
        return ended
