"""Filters by other pods: host ports, hard topology spread, and required affinity both ways."""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import msgspec
import numpy as np

from desched.model.cluster import Pod, PodAffinityTerm
from desched.model.groups import grouped
from desched.model.selectors import LabelSelector
from desched.planning.arrays import Ints, Mask, Positions
from desched.planning.deadline import PlanningTime
from desched.planning.kube_scheduler.filters.node_constraints import NodeFilter
from desched.planning.kube_scheduler.label_index import SelectorIndex
from desched.planning.kube_scheduler.node_arrays import Domains, NodeArrays
from desched.planning.kube_scheduler.pod_index import PodChanges, PodIndex, PodMatch

ANY_ADDRESS = frozenset({"", "0.0.0.0"})  # noqa: S104  (compared, not bound)


class PortFilter:
    """Plugin NodePorts."""

    def __init__(self, arrays: NodeArrays, index: PodIndex) -> None:
        self._arrays = arrays
        self._index = index

    @cached_property
    def _by_port(self) -> dict[tuple[str, int], dict[str, Positions]]:
        by_port = grouped(
            ((port.protocol, port.port), (port.address, position))
            for pod, position in self._index.residents
            for port in pod.scheduling.host_ports
        )
        return {
            port: {address: np.array(at, dtype=np.intp) for address, at in grouped(taken).items()}
            for port, taken in by_port.items()
        }

    def free(self, pod: Pod, pod_changes: PodChanges) -> Mask:
        """The nodes where no other pod uses one of the pod's ports."""
        taken = np.zeros(len(self._arrays), dtype=np.int64)
        for wanted in pod.scheduling.host_ports:
            by_address = self._by_port.get((wanted.protocol, wanted.port), {})
            for address, positions in by_address.items():
                if _overlap(wanted.address, address):
                    taken += np.bincount(positions, minlength=len(self._arrays))
            for change in pod_changes.changes:
                for port in change.pod.scheduling.host_ports:
                    same = (port.protocol, port.port) == (wanted.protocol, wanted.port)
                    if same and _overlap(wanted.address, port.address):
                        taken[change.position] += change.sign
        mask: Mask = taken <= 0
        return mask


def _overlap(one: str, other: str) -> bool:
    return one == other or one in ANY_ADDRESS or other in ANY_ADDRESS


class SpreadFilter:
    """Plugin PodTopologySpread; pods that are being deleted do not count."""

    def __init__(self, arrays: NodeArrays, nodes: NodeFilter) -> None:
        self._arrays = arrays
        self._nodes = nodes

    def even(self, pod: Pod, pod_changes: PodChanges) -> Mask:
        """The nodes where the pod keeps the skew of all its constraints within their maximum."""
        hard = [constraint for constraint in pod.scheduling.spread if constraint.hard]
        mask = self._arrays.all()
        for constraint in hard:
            mask &= self._arrays.domains(constraint.topology_key).labelled
        labelled = mask.copy()
        for constraint in hard:
            if self._arrays.comparisons.share_is_used:
                return self._arrays.none()
            selector = constraint.selector_of(pod.labels)
            eligible = self._nodes.eligible(pod.scheduling, constraint, labelled)
            domains = self._arrays.domains(constraint.topology_key)
            counts = _count(pod, selector, pod_changes, domains, eligible)
            own = int(selector is not None and selector.matches(pod.labels))
            least = _least(counts, domains, eligible, constraint.min_domains)
            mask &= counts[domains.of] + own - least <= constraint.max_skew
        return mask


def _count(
    pod: Pod,
    selector: LabelSelector | None,
    pod_changes: PodChanges,
    domains: Domains,
    eligible: Mask,
) -> Ints:
    """Count matching pods by domain; an empty selector counts none, although it matches the pod."""
    if selector is None or not selector.requirements:
        return domains.tally(eligible.nonzero()[0][:0])
    wanted = (PodMatch(frozenset({pod.namespace}), selector),)
    return pod_changes.tally(wanted, domains, among=eligible, terminating=False)


def _least(counts: Ints, domains: Domains, eligible: Mask, min_domains: int) -> int:
    """The lowest count of an eligible domain, 0 if there are fewer domains than `min_domains`."""
    present = domains.tally(eligible.nonzero()[0]) > 0
    if present.sum() < max(min_domains, 1):
        return 0
    return int(counts[present].min())


class _Carried(msgspec.Struct, frozen=True):
    """An anti-affinity term that pods of one namespace carry, and the nodes of these pods."""

    term: PodAffinityTerm
    namespace: str
    wanted: PodMatch
    positions: Positions


class AffinityFilter:
    """The required part of plugin InterPodAffinity; pods that are being deleted count."""

    def __init__(self, arrays: NodeArrays, index: PodIndex, deadline: PlanningTime) -> None:
        self._arrays = arrays
        self._index = index
        self._deadline = deadline
        self._known: set[tuple[PodAffinityTerm, str]] = set()
        self._carried: SelectorIndex[_Carried] = SelectorIndex()
        self._learn_residents()

    def near(self, pod: Pod, pod_changes: PodChanges) -> Mask:
        """The nodes whose domains have a pod that matches all affinity terms.

        The first pod of a group that matches its own terms may go to any node with the labels.
        """
        terms = pod.scheduling.pod_affinity
        wanted = tuple(dict.fromkeys(self._index.match_of(term, pod.namespace) for term in terms))
        labelled, near, anywhere = self._arrays.all(), self._arrays.all(), False
        for topology_key in dict.fromkeys(term.topology_key for term in terms):
            self._deadline.check(pod)
            if self._arrays.comparisons.share_is_used:
                return self._arrays.none()
            domains = self._arrays.domains(topology_key)
            counts = pod_changes.tally(wanted, domains)
            labelled &= domains.labelled
            near &= counts[domains.of] > 0
            anywhere = anywhere or bool(counts.any())
        if not anywhere and all(each.matches(pod) for each in wanted):
            return labelled
        return labelled & near

    def apart(self, pod: Pod, pod_changes: PodChanges) -> Mask:
        """The nodes whose domains have no pod that matches one of the anti-affinity terms."""
        mask = self._arrays.all()
        for term in dict.fromkeys(pod.scheduling.pod_anti_affinity):
            self._deadline.check(pod)
            if self._arrays.comparisons.share_is_used:
                return self._arrays.none()
            domains = self._arrays.domains(term.topology_key)
            wanted = self._index.match_of_incoming(term, pod.namespace)
            mask &= pod_changes.tally((wanted,), domains)[domains.of] <= 0
        return mask

    def welcome(self, pod: Pod, pod_changes: PodChanges) -> Mask:
        """The nodes whose domains have no pod with an anti-affinity to this one."""
        mask = self._arrays.all()
        for carried in self._terms_about(pod):
            self._deadline.check(pod)
            domains = self._arrays.domains(carried.term.topology_key)
            counts = domains.tally(carried.positions)
            for change in pod_changes.avoiding(carried.term, carried.namespace):
                domain = domains.of[change.position]
                if domain >= 0:
                    counts[domain] += change.sign
            mask &= counts[domains.of] <= 0
        return mask

    def applies_to(self, pod: Pod) -> bool:
        """Whether any other pod may have an anti-affinity to this one."""
        return bool(self._terms_about(pod))

    def learn(self, pod: Pod) -> None:
        """Add the terms of a pod that the plan will place."""
        for term in pod.scheduling.pod_anti_affinity:
            self._learn(term, pod.namespace, ())

    # `_carried` has one entry for each term and namespace, so that a pod is not compared with the
    # terms of all other pods.

    def _terms_about(self, pod: Pod) -> list[_Carried]:
        terms = self._carried.about(pod.namespace, pod.labels)
        return [carried for carried in terms if carried.wanted.matches(pod)]

    def _learn_residents(self) -> None:
        residents = self._index.residents_of(lambda s: s.pod_anti_affinity)
        by_class = grouped(((id(r[0].scheduling), r[0].namespace), r) for r in residents)
        by_term = grouped(
            ((term, namespace), [position for _, position in alike])
            for (_, namespace), alike in by_class.items()
            for term in alike[0][0].scheduling.pod_anti_affinity
        )
        for (term, namespace), positions in by_term.items():
            self._learn(term, namespace, list(chain.from_iterable(positions)))

    def _learn(self, term: PodAffinityTerm, namespace: str, positions: Sequence[int]) -> None:
        if (term, namespace) in self._known:
            return
        self._known.add((term, namespace))
        wanted = self._index.match_of(term, namespace)
        where = np.array(positions, dtype=np.intp)
        self._carried.add(
            wanted.namespaces, wanted.selector, _Carried(term, namespace, wanted, where)
        )
