"""Constraints of the node itself: cordon, taints, labels and name."""

from collections import Counter
from collections.abc import Mapping

import msgspec
import numpy as np

from desched.model.cache import cached
from desched.model.cluster import Effect, SchedulingClass, SpreadConstraint, Taint, Toleration
from desched.model.groups import grouped
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.planning.arrays import Mask
from desched.planning.kube_scheduler.node_arrays import NodeArrays

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", Effect.NO_SCHEDULE)
"""A pod that tolerates this taint may go to a cordoned node, even before the node has the taint."""

CORDONED = "node(s) were unschedulable"
NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"

Tolerations = tuple[Toleration, ...]
Selection = tuple[tuple[tuple[str, str], ...], tuple[NodeSelectorTerm, ...] | None]


class Admission(msgspec.Struct, frozen=True):
    """The nodes that admit a pod, and the count of other nodes by the first reason."""

    passing: Mask
    excluded: Mapping[str, int]


class NodeFilter:
    """Plugins NodeUnschedulable, TaintToleration and NodeAffinity; moves never change results."""

    def __init__(self, arrays: NodeArrays) -> None:
        self._arrays = arrays
        self._cordoned = arrays.where(lambda node: node.unschedulable)
        self._by_taints = grouped(
            (tuple(t for t in node.taints if t.effect != Effect.PREFER_NO_SCHEDULE), i)
            for i, node in enumerate(arrays.nodes)
        )
        self._by_class: dict[int, tuple[SchedulingClass, Admission]] = {}

    def verdict(self, scheduling: SchedulingClass) -> Admission:
        """The result of all three filters. Cached: do not modify."""
        known = self._by_class.get(id(scheduling))
        if known is None:
            found = self._judge(scheduling.tolerations, _selection(scheduling))
            # The entry keeps the class alive, so no other class can get its id.
            known = self._by_class[id(scheduling)] = (scheduling, found)
        return known[1]

    @cached
    def _judge(self, tolerations: Tolerations, selection: Selection) -> Admission:
        uncordoned = self._arrays.all()
        if not _tolerates(tolerations, UNSCHEDULABLE):
            uncordoned = ~self._cordoned
        tolerated = self._tolerated(tolerations)
        passing = uncordoned & tolerated & self._selected(selection)
        excluded = Counter(self._untolerated(tolerations, uncordoned & ~tolerated))
        excluded[CORDONED] += int(np.count_nonzero(~uncordoned))
        excluded[NOT_SELECTED] += int(np.count_nonzero(uncordoned & tolerated & ~passing))
        return Admission(passing, excluded)

    def eligible(
        self, scheduling: SchedulingClass, constraint: SpreadConstraint, labelled: Mask
    ) -> Mask:
        """The labelled nodes whose pods and domains count for the spread constraint."""
        mask = labelled
        if constraint.honors_affinity:
            mask = mask & self._selected(_selection(scheduling))
        if constraint.honors_taints:
            mask = mask & self._tolerated(scheduling.tolerations)
        return mask

    @cached
    def _tolerated(self, tolerations: Tolerations) -> Mask:
        """The nodes whose hard taints such pods tolerate."""
        mask = self._arrays.none()
        self._arrays.comparisons.add(len(self._by_taints) * len(tolerations))
        for taints, positions in self._by_taints.items():
            if _first_untolerated(tolerations, taints) is None:
                mask[positions] = True
        return mask

    @cached
    def _selected(self, selection: Selection) -> Mask:
        """The nodes that node selector and required affinity match."""
        wanted, terms = selection
        mask = self._arrays.all()
        for key, value in wanted:
            mask &= self._arrays.satisfying(Requirement(key, Operator.IN, (value,)))
        if terms is not None:
            mask &= matching(self._arrays, terms)
        return mask

    def _untolerated(self, tolerations: Tolerations, failing: Mask) -> Mapping[str, int]:
        """Count the failing nodes by their first taint that the pods do not tolerate."""
        counts: Counter[str] = Counter()
        for taints, positions in self._by_taints.items():
            taint = _first_untolerated(tolerations, taints)
            if taint is not None:
                value = f": {taint.value}" if taint.value else ""
                text = f"node(s) had untolerated taint {{{taint.key}{value}}}"
                counts[text] += int(np.count_nonzero(failing[positions]))
        return counts


def _selection(scheduling: SchedulingClass) -> Selection:
    return scheduling.node_selector, scheduling.required_node_affinity


def matching(arrays: NodeArrays, terms: tuple[NodeSelectorTerm, ...]) -> Mask:
    """The nodes that one of the terms matches."""
    mask = arrays.none()
    for term in terms:
        mask |= arrays.matching(term)
    return mask


def _tolerates(tolerations: Tolerations, taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def _first_untolerated(tolerations: Tolerations, taints: tuple[Taint, ...]) -> Taint | None:
    return next((taint for taint in taints if not _tolerates(tolerations, taint)), None)
