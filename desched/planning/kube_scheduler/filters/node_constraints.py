"""Constraints of the node itself: cordon, taints, labels and name."""

from collections import Counter
from collections.abc import Mapping

import msgspec
import numpy as np

from desched.model.cluster import Effect, SchedulingClass, Taint, Toleration
from desched.model.selectors import NodeSelectorTerm
from desched.planning.arrays import Mask
from desched.planning.kube_scheduler.node_arrays import NodeArrays

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", Effect.NO_SCHEDULE)
"""A pod that tolerates this taint may go to a cordoned node, even before the node has the taint."""

CORDONED = "node(s) were unschedulable"
NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"

Selection = tuple[tuple[tuple[str, str], ...], tuple[NodeSelectorTerm, ...] | None]


class NodeVerdict(msgspec.Struct, frozen=True):
    """The nodes that admit a pod, and the count of other nodes by the first reason."""

    passing: Mask
    excluded: Mapping[str, int]


class NodeFilter:
    """Plugins NodeUnschedulable, TaintToleration and NodeAffinity; moves never change results."""

    def __init__(self, arrays: NodeArrays) -> None:
        self._arrays = arrays
        self._cordoned = arrays.where(lambda node: node.unschedulable)
        self._by_taints: dict[tuple[Taint, ...], list[int]] = {}
        for i, node in enumerate(arrays.nodes):
            hard = tuple(t for t in node.taints if t.effect != Effect.PREFER_NO_SCHEDULE)
            self._by_taints.setdefault(hard, []).append(i)
        self._tolerated: dict[tuple[Toleration, ...], Mask] = {}
        self._selected: dict[Selection, Mask] = {}
        self._verdicts: dict[tuple[tuple[Toleration, ...], Selection], NodeVerdict] = {}
        self._by_class: dict[int, tuple[SchedulingClass, NodeVerdict]] = {}

    def verdict(self, scheduling: SchedulingClass) -> NodeVerdict:
        """The result of all three filters. Cached: do not modify."""
        known = self._by_class.get(id(scheduling))
        if known is None:
            key = (scheduling.tolerations, _selection(scheduling))
            found = self._verdicts.get(key)
            if found is None:
                found = self._verdicts[key] = self._judge(scheduling)
            # The entry keeps the class alive, so no other class can get its id.
            known = self._by_class[id(scheduling)] = (scheduling, found)
        return known[1]

    def _judge(self, scheduling: SchedulingClass) -> NodeVerdict:
        uncordoned, tolerated = self.uncordoned(scheduling), self.tolerated(scheduling)
        passing = uncordoned & tolerated & self.selected(scheduling)
        excluded = Counter(self._untolerated(scheduling, uncordoned & ~tolerated))
        excluded[CORDONED] += int(np.count_nonzero(~uncordoned))
        excluded[NOT_SELECTED] += int(np.count_nonzero(uncordoned & tolerated & ~passing))
        return NodeVerdict(passing, excluded)

    def uncordoned(self, scheduling: SchedulingClass) -> Mask:
        """The nodes that are not cordoned for such pods."""
        if _tolerates(scheduling.tolerations, UNSCHEDULABLE):
            return self._arrays.all()
        return ~self._cordoned

    def tolerated(self, scheduling: SchedulingClass) -> Mask:
        """The nodes whose hard taints such pods tolerate. Cached: do not modify."""
        mask = self._tolerated.get(scheduling.tolerations)
        if mask is None:
            mask = self._tolerated[scheduling.tolerations] = self._arrays.none()
            for taints, positions in self._by_taints.items():
                if _first_untolerated(scheduling.tolerations, taints) is None:
                    mask[positions] = True
        return mask

    def selected(self, scheduling: SchedulingClass) -> Mask:
        """The nodes that node selector and required affinity match. Cached: do not modify."""
        key = _selection(scheduling)
        mask = self._selected.get(key)
        if mask is None:
            mask = self._selected[key] = self._select(scheduling)
        return mask

    def _select(self, scheduling: SchedulingClass) -> Mask:
        mask = self._arrays.all()
        if scheduling.node_selector:
            wanted = scheduling.node_selector
            mask &= self._arrays.where(
                lambda node: all(node.labels.get(key) == value for key, value in wanted)
            )
        if scheduling.required_node_affinity is not None:
            mask &= matching(self._arrays, scheduling.required_node_affinity)
        return mask

    def _untolerated(self, scheduling: SchedulingClass, failing: Mask) -> Mapping[str, int]:
        """Count the failing nodes by their first taint that the pods do not tolerate."""
        found: Counter[str] = Counter()
        for taints, positions in self._by_taints.items():
            taint = _first_untolerated(scheduling.tolerations, taints)
            if taint is not None:
                value = f": {taint.value}" if taint.value else ""
                text = f"node(s) had untolerated taint {{{taint.key}{value}}}"
                found[text] += int(np.count_nonzero(failing[positions]))
        return found


def _selection(scheduling: SchedulingClass) -> Selection:
    return scheduling.node_selector, scheduling.required_node_affinity


def matching(arrays: NodeArrays, terms: tuple[NodeSelectorTerm, ...]) -> Mask:
    """The nodes that one of the terms matches."""
    return arrays.where(lambda node: any(t.matches(node.name, node.labels) for t in terms))


def _tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def _first_untolerated(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]
) -> Taint | None:
    return next((taint for taint in taints if not _tolerates(tolerations, taint)), None)
