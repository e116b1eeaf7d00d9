"""Placement domains: sets of nodes that a network, their GPUs, or a purchase connects.

A domain is the tuple of values from the widest rung on, so that racks of the same name in different
blocks differ. A node without a rung is in nobody's domain from there on. Rungs that no node of the
cluster has do not count. kube-scheduler knows none of this, so that nodes outside count as bad
landings.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from desched.model.cluster import GangKey, Pod
from desched.model.devices import gpus_of, has_fast_network
from desched.planning.arrays import Ints, Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.placement.gpu_load import GpuLimits
from desched.planning.placement.model_caches import ModelLimits

Rungs = Sequence[tuple[str, ...]]
"""From the widest to the narrowest, each with alternative keys of labels."""


class NodeDomains:
    """The domain of each node on each rung."""

    def __init__(self, arrays: NodeArrays, rungs: Rungs) -> None:
        self._arrays = arrays
        found = (self._values(keys) for keys in rungs)
        self._rungs = [values for values in found if (values >= 0).any()]

    def closeness(self, one: int) -> Ints:
        """For each node, how many leading rungs it has in common with this node."""
        equal = self._arrays.all()
        found = np.zeros(len(self._arrays), dtype=np.int64)
        for values in self._rungs:
            equal &= (values == values[one]) & (values >= 0)
            found += equal
        return found

    def _values(self, keys: tuple[str, ...]) -> Ints:
        """A number for each value of the first key that a node has, -1 without any."""
        numbers: dict[tuple[str, str], int] = {}

        def number(position: int) -> int:
            labels = self._arrays.nodes[position].labels
            named = next(((key, labels[key]) for key in keys if key in labels), None)
            return -1 if named is None else numbers.setdefault(named, len(numbers))

        return np.array([number(i) for i in range(len(self._arrays))], dtype=np.int64)


class PlacementLimits:
    """Which nodes are outside the domains of a pod, and what these are.

    `models` has the limits by its models, `gpus` those by the load of GPUs.
    """

    def __init__(self, context: EligibilityContext, arrays: NodeArrays) -> None:
        self._context = context
        self._arrays = arrays
        self._domains = context.policy.domains
        self._known: dict[tuple[int, tuple[str, ...], int], Mask] = {}
        self.models = ModelLimits(context, arrays)
        self.gpus = GpuLimits(context, arrays)

    def outside(self, pod: Pod) -> Mask:
        """The nodes outside the domains of a pod on a node. Do not modify."""
        source = self._arrays.index[pod.node]
        rungs = self._shared_rungs(pod, source)
        key = source, self._labels(pod, source), rungs
        mask = self._known.get(key)
        if mask is None:
            mask = self._nodes.closeness(source) < rungs
            for name in key[1]:
                of = self._arrays.domains(name).of
                mask |= of != of[source]
            self._known[key] = mask
        return mask

    def describe(self, pod: Pod) -> str:
        """The domains of the pod, as in `nvidia.com/gpu.clique=7`."""
        source = self._arrays.index[pod.node]
        labels = self._arrays.nodes[source].labels
        found = [f"{name}={labels[name]}" for name in self._labels(pod, source)]
        rungs = self._shared_rungs(pod, source)
        if rungs:
            found.append(f"the {rungs} widest levels of the network that it shares with its gang")
        return ", ".join(found)

    def _labels(self, pod: Pod, source: int) -> tuple[str, ...]:
        """The labels of its node whose values the pod must not leave."""
        domains = self._domains
        keys = list(domains.groups)
        if domains.accelerator_groups and gpus_of(pod.scheduling.requests):
            keys += domains.accelerator_groups
        if domains.equivalence and has_fast_network(pod):
            keys += domains.equivalence
        labels = self._arrays.nodes[source].labels
        return tuple(key for key in keys if key in labels)

    def _shared_rungs(self, pod: Pod, source: int) -> int:
        """How many rungs the pod shares with its nearest peer."""
        if not self._domains.rungs:
            return 0
        keys = [group.key for group in self._context.gangs_of(pod)]
        if not keys:
            return 0  # nearly all pods
        peers = {
            self._arrays.index[peer.node]
            for key in keys
            for peer in self._peers.get(key, ())
            if peer.uid != pod.uid
        }
        closeness = self._nodes.closeness(source)
        return max((int(closeness[peer]) for peer in peers), default=0)

    @cached_property
    def _nodes(self) -> NodeDomains:
        return NodeDomains(self._arrays, self._domains.rungs)

    @cached_property
    def _peers(self) -> dict[GangKey, list[Pod]]:
        """The running pods of each gang."""
        found: dict[GangKey, list[Pod]] = {}
        for pod in self._context.cluster.pods:
            if pod.node in self._arrays.index and not pod.finished:
                for group in self._context.gangs_of(pod):
                    found.setdefault(group.key, []).append(pod)
        return found
