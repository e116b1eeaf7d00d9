"""The load of nodes and pods of the past, as arrays over the steps."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.pod_usages import AGREEMENT_SHARE
from desched.lab.prometheus.block import Block, Floats, Labels
from desched.lab.recorded_past import PastPod, PastUsage
from desched.model.resources import Resource
from desched.promql.data_quality import AGREEMENT_RATIO, HIGHEST_RATIO, LOWEST_RATIO

_MILLICORES_PER_CORE = 1000.0
_COLUMNS = {Resource.CPU: 0, Resource.MEMORY: 1}


class Steps:
    """The steps of a past: a value belongs to the step that ends at its time."""

    def __init__(self, begin: int, step_seconds: int, count: int) -> None:
        self.begin = begin
        self.step_seconds = step_seconds
        self.count = count

    def first_of(self, block: Block) -> int:
        """The step of the first time of a block."""
        return (block.grid.begin - self.begin) // self.step_seconds - 1


class NodeRatios:
    """Loads of nodes as shares of capacity, node x step; NaN where unknown or contradictory."""

    def __init__(self, names: Sequence[str], steps: Steps) -> None:
        self._numbers = {name: i for i, name in enumerate(names)}
        self._steps = steps
        self._ratios = np.full((len(names), steps.count), np.nan, dtype=np.float32)
        self._doubtful = np.zeros(self._ratios.shape, dtype=bool)
        self.unresolved: set[frozenset[tuple[str, str]]] = set()

    def add(self, blocks: Iterable[Block], index: NodeIndex) -> None:
        """Add the series of nodes; where exporters of a node agree, the larger value counts."""
        for block in blocks:
            offset = self._steps.first_of(block)
            for labels, first, values in block.rows():
                node = index.resolve(labels)
                if node is None:
                    self.unresolved.add(frozenset(labels.items()))
                    continue
                self._add_row(self._numbers[node], offset + first, values)

    def _add_row(self, number: int, first: int, values: Floats) -> None:
        begin, end = max(first, 0), min(first + len(values), self._steps.count)
        if begin >= end:
            return
        part = values[begin - first : end - first]
        plausible = np.where((part >= LOWEST_RATIO) & (part <= HIGHEST_RATIO), part, np.nan)
        target = self._ratios[number, begin:end]
        with np.errstate(invalid="ignore"):
            apart = np.abs(target - plausible) > AGREEMENT_RATIO
        self._doubtful[number, begin:end] |= apart
        np.fmax(target, np.clip(plausible, 0.0, 1.0), out=target)

    @property
    def ratios(self) -> NDArray[np.float32]:
        """The loads."""
        return np.where(self._doubtful, np.float32(np.nan), self._ratios)


class PodUsages:
    """The usage of pods, each for the steps in which it ran."""

    def __init__(self, pods: Sequence[PastPod], steps: Steps, index: NodeIndex) -> None:
        self._pods = pods
        self._steps = steps
        self._index = index
        self._nodes: dict[tuple[str, str], str | None] = {}
        self._places: dict[tuple[str, str, str], list[PastPod]] = {}
        for pod in pods:
            key = pod.pod.namespace, pod.pod.name, pod.pod.node
            self._places.setdefault(key, []).append(pod)
        rows = sum(pod.levels + 1 for pod in pods)
        self._levels = np.full((rows, 2), np.nan)
        self._measured: list[int] = []

    def add(self, blocks: Iterable[Block], resource: Resource) -> None:
        """Add the series of pods, in cores or bytes; only those of the node that a pod was on.

        Where series of a pod disagree, its usage is unknown, as for a live cycle.
        """
        column = _COLUMNS[resource]
        self._measured.append(column)
        scale = _MILLICORES_PER_CORE if resource is Resource.CPU else 1.0
        for block in blocks:
            offset = self._steps.first_of(block)
            for labels, first, values in block.rows():
                for pod in self._pods_of(labels):
                    self._add_row(pod, column, offset + first, values * scale)

    def _pods_of(self, labels: Labels) -> Sequence[PastPod]:
        hints = labels.get("node", ""), labels.get("instance", "")
        if hints not in self._nodes:
            found = dict(zip(("node", "instance"), hints, strict=True))
            self._nodes[hints] = self._index.resolve(found)
        node = self._nodes[hints] or ""
        return self._places.get((labels.get("namespace", ""), labels.get("pod", ""), node), ())

    def _add_row(self, pod: PastPod, column: int, first: int, values: Floats) -> None:
        begin = max(first, pod.first_step)
        end = min(first + len(values), pod.first_step + pod.levels)
        if begin >= end:
            return
        part = values[begin - first : end - first]
        usable = np.where(np.isfinite(part) & (part >= 0), part, np.nan)
        row = pod.first_row + 1 + begin - pod.first_step  # the first row of a pod is for its start
        target = self._levels[row : row + end - begin, column]
        with np.errstate(invalid="ignore"):  # infinite where they disagreed before
            apart = np.abs(target - usable) > AGREEMENT_SHARE * np.maximum(target, usable)
        np.fmax(target, usable, out=target)
        target[apart] = np.inf

    def total(self) -> PastUsage:
        """The usage until each step; nothing can be added after that."""
        levels = self._levels
        unknown = np.zeros(len(levels), dtype=bool)
        for column in self._measured:  # one by one: a copy of all levels may take a gigabyte
            unknown |= ~np.isfinite(levels[:, column])
        np.copyto(levels, 0.0, where=~np.isfinite(levels))
        levels *= self._steps.step_seconds
        missing = np.zeros(len(levels), dtype=np.uint16)
        for pod in self._pods:
            own = slice(pod.first_row, pod.first_row + pod.levels + 1)
            levels[pod.first_row] = 0.0
            unknown[pod.first_row] = False
            np.cumsum(levels[own], axis=0, out=levels[own])
            np.cumsum(unknown[own], dtype=np.uint16, out=missing[own])
        return PastUsage(levels, missing)
