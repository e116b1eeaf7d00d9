"""All filters in the scheduler's order, on the pods and requests after a plan's moves so far."""

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from desched.model.cluster import ClusterState, Pod, SchedulingClass
from desched.planning.arrays import Ints, Mask
from desched.planning.deadline import PlanningTime
from desched.planning.kube_scheduler.filters.node_constraints import NodeFilter
from desched.planning.kube_scheduler.filters.other_pods import (
    AffinityFilter,
    PortFilter,
    SpreadFilter,
)
from desched.planning.kube_scheduler.filters.resources import FreeRequests
from desched.planning.kube_scheduler.filters.volumes import VolumeFilter
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodChanges, PodIndex

# The scheduler's own messages, as `kubectl describe` shows them; the others are in the filters.
NO_PORT = "node(s) didn't have free ports for the requested pod ports"
USED_CLAIM = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)
TOO_MANY_VOLUMES = "node(s) exceed max volume count"
NO_VOLUME = "node(s) didn't match PersistentVolume's node affinity"
NO_ZONE = "node(s) had no available volume zone"
NO_SPREAD = "node(s) didn't match pod topology spread constraints"
NO_AFFINITY = "node(s) didn't match pod affinity rules"
NO_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
NO_EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

Reasons = Callable[[Mask], Mapping[str, int]]
Verdicts = tuple[tuple[str, Mask], ...]
"""The filters for volumes and other pods: the reason of each, and its mask."""


class FilterChain:
    """The filters of one plan; `requests` and `pod_changes` follow its moves."""

    def __init__(self, cluster: ClusterState, arrays: NodeArrays, deadline: PlanningTime) -> None:
        self._arrays = arrays
        self.index = index = PodIndex(cluster, arrays)
        self.requests = FreeRequests(arrays, index)
        self.pod_changes = PodChanges(index)
        self._nodes = NodeFilter(arrays)
        self._ports = PortFilter(arrays, index)
        self._volumes = VolumeFilter(cluster, arrays, index)
        self._spread = SpreadFilter(arrays, self._nodes)
        self._affinity = AffinityFilter(arrays, index, deadline)
        self._excluded: dict[int, tuple[SchedulingClass, Counter[str]]] = {}

    def copy(self) -> "FilterChain":
        """An independent copy; it shares what never changes."""
        copied: FilterChain = copy.copy(self)
        copied.requests = self.requests.copy()
        copied.pod_changes = self.pod_changes.copy()
        return copied

    def add(self, pod: Pod, position: int) -> None:
        """Add the pod to the node."""
        self._change(pod, position, 1)

    def remove(self, pod: Pod, position: int) -> None:
        """Remove the pod from the node."""
        self._change(pod, position, -1)

    def _change(self, pod: Pod, position: int, sign: int) -> None:
        self.requests.change(position, pod.scheduling.requests, -sign)
        self.pod_changes.change(pod, position, sign)
        self._affinity.learn(pod)
        self._excluded = {}  # copies may share the old one

    def admits(self, pod: Pod, position: int) -> bool:
        """Whether the node admits such pods, whatever is free on it."""
        return bool(self._nodes.verdict(pod.scheduling).passing[position])

    def admitting(self, pod: Pod) -> Mask:
        """The nodes that admit such pods, whatever is free on them. Do not modify."""
        return self._nodes.verdict(pod.scheduling).passing

    def shortage(self, pod: Pod) -> tuple[Ints, Mask]:
        """What each node lacks for the pod, and the nodes that admit it once they have it."""
        lacking, enough = self.requests.shortage(pod.scheduling.requests)
        return lacking, self._nodes.verdict(pod.scheduling).passing & enough

    def passing(self, pod: Pod) -> Mask:
        """The nodes where a pending pod passes, as a new mask."""
        return self._judge(
            pod, self.requests.enough(pod.scheduling.requests), self.pod_changes.copy
        )[0]

    def passing_beside(self, pod: Pod, source: int) -> Mask:
        """The nodes where the replacement passes while the pod is being deleted."""
        enough = self.requests.enough(pod.scheduling.requests)
        return self._judge(pod, enough, partial(self.pod_changes.with_deleting, pod, source))[0]

    def passing_again(self, pod: Pod, source: int) -> tuple[Mask, Verdicts]:
        """The nodes where the pod passes once it has left the source; verdicts for `excluded`."""
        enough = self.requests.enough_again(pod.scheduling.requests, source)
        return self._judge(pod, enough, partial(self.pod_changes.without, pod, source))

    def excluded(self, pod: Pod, source: int, verdicts: Verdicts) -> Mapping[str, int]:
        """Count the nodes by the first filter that they fail, once the pod has left the source.

        A node may lack several resources, and counts for each of them.
        """
        scheduling, requests = pod.scheduling, pod.scheduling.requests
        if verdicts:
            others = [(mask, _plainly(reason)) for reason, mask in verdicts]
            again = self.requests.enough_again(requests, source)
            return self._first_failing(scheduling, again, others)
        enough = self.requests.enough(requests)
        counts = self._by_itself(scheduling, enough)
        admitted = self._nodes.verdict(scheduling).passing[source]
        if admitted and not enough[source] and self.requests.holds(source, requests):
            return counts - Counter(self.requests.lacking_at(source, requests))
        return counts

    def _by_itself(self, scheduling: SchedulingClass, enough: Mask) -> Counter[str]:
        """Exclusions that do not depend on volumes or other pods. Cached: do not modify."""
        cached = self._excluded.get(id(scheduling))
        if cached is None:
            counts = self._first_failing(scheduling, enough, ())
            # The entry keeps the class alive, so no other class can get its id.
            cached = self._excluded[id(scheduling)] = (scheduling, counts)
        return cached[1]

    def _first_failing(
        self,
        scheduling: SchedulingClass,
        enough: Mask,
        others: Sequence[tuple[Mask, Reasons]],
    ) -> Counter[str]:
        verdict = self._nodes.verdict(scheduling)
        counts, passing = Counter(verdict.excluded), verdict.passing
        before = int(bool(scheduling.host_ports))  # ports come before requests
        lacking = partial(self.requests.lacking, scheduling.requests)
        steps: list[tuple[Mask, Reasons]] = [(enough, lacking)]
        for mask, reasons in (*others[:before], *steps, *others[before:]):
            failing = passing & ~mask
            if failing.any():
                counts.update(reasons(failing))
                passing = passing & mask
        return counts

    def _judge(
        self, pod: Pod, enough: Mask, pod_changes: Callable[[], PodChanges]
    ) -> tuple[Mask, Verdicts]:
        passing = self._nodes.verdict(pod.scheduling).passing & enough
        if pod.gated:
            passing[:] = False
        verdicts: Verdicts = ()
        if pod.scheduling.host_ports or np.count_nonzero(passing):  # ports come before requests
            verdicts = tuple(self._by_pods(pod, pod_changes))
        for _, mask in verdicts:
            passing &= mask
        return passing, verdicts

    def _by_pods(self, pod: Pod, changed: Callable[[], PodChanges]) -> Iterator[tuple[str, Mask]]:
        """The filters for volumes and other pods that apply to the pod.

        Most pods have none; therefore `changed` is called only if one applies.
        """
        scheduling = pod.scheduling
        hard = any(constraint.hard for constraint in scheduling.spread)
        avoided = self._affinity.applies_to(pod)
        near, apart = scheduling.pod_affinity, scheduling.pod_anti_affinity
        if not (hard or avoided or near or apart or pod.volumes or scheduling.host_ports):
            return
        pod_changes = changed()
        if scheduling.host_ports:
            yield NO_PORT, self._ports.free(pod, pod_changes)
        if pod.volumes:
            yield USED_CLAIM, self._volumes.unused(pod, pod_changes)
            yield TOO_MANY_VOLUMES, self._volumes.attachable(pod, pod_changes)
            yield NO_VOLUME, self._volumes.reachable(pod)
            yield NO_ZONE, self._volumes.in_zone(pod)
        if hard:
            yield NO_SPREAD, self._spread.even(pod, pod_changes)
        if near:
            yield NO_AFFINITY, self._affinity.near(pod, pod_changes)
        if apart:
            yield NO_ANTI_AFFINITY, self._affinity.apart(pod, pod_changes)
        if avoided:
            yield NO_EXISTING_ANTI_AFFINITY, self._affinity.welcome(pod, pod_changes)


def _plainly(reason: str) -> Reasons:
    return lambda failing: {reason: int(np.count_nonzero(failing))}
