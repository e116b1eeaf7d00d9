"""Placement domains: sets of nodes that a network, their GPUs, or a purchase connects.

kube-scheduler does not consider them, so nodes outside count as bad landings.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from desched.gangs.members import gangs_of
from desched.gangs.objects import GangKey
from desched.model.cluster import DEFAULT_SCHEDULER, Pod
from desched.network.levels import Bound, Domain, NetworkLevels, numbered
from desched.network.placement_domains import DomainMode
from desched.network.plugin import domains_of
from desched.planning.arrays import Ints, Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.overload.balance_scope import BalanceScope
from desched.planning.placement.free_capacity import FreeCapacity
from desched.plugins.devices import gpus_of, has_fast_network
from desched.plugins.networks.hyper_node_choice import HyperNodeChoice


class NetworkBounds(NamedTuple):
    """Where the gangs of a pod keep it.

    `enforced` are the bounds that the scheduler of the pod keeps to by itself. `doubt` is why the
    bounds are not known; the pod then stays.
    """

    bounds: tuple[Bound, ...] = ()
    enforced: tuple[Bound, ...] = ()
    doubt: str = ""


NO_BOUNDS = NetworkBounds()


class Domains:
    """Which nodes are outside the domains of a pod, and what these are."""

    def __init__(self, context: EligibilityContext, arrays: NodeArrays) -> None:
        self._context = context
        self._arrays = arrays
        self._domains = domains_of(context.policy)
        self._known: dict[tuple[int, tuple[str, ...], NetworkBounds], Mask] = {}

    def outside(self, pod: Pod, *, loosened: int = 0) -> Mask:
        """The nodes outside the domains of a pod on a node. Do not modify.

        So many of `preferred_steps` are `loosened`; after the last, only domains count that are
        required.
        """
        source = self._arrays.index[pod.node]
        found = self._network_bounds(pod, source)
        labels = self._labels(pod, source)
        if loosened:
            if loosened == self.preferred_steps(pod):
                labels = tuple(name for name in labels if not self._is_preferred(name))
            bounds = (bound.loosened(loosened) for bound in found.bounds)
            found = found._replace(bounds=tuple(bound for bound in bounds if bound is not None))
        return self._outside(source, labels, found)

    def outside_of_gang(self, pod: Pod, inside: Domain | None = None) -> Mask:
        """The nodes outside the domains of a pod whose whole gang moves. Do not modify.

        It leaves none, also if it only prefers it: the gang must not spread. It may enter another
        HyperNode if that is the one that its scheduler chooses: `inside`.
        """
        source = self._arrays.index[pod.node]
        labels = self._labels(pod, source)
        if inside is None:
            return self._outside(source, labels, self._gang_bounds(pod))
        return self._outside(source, labels, NO_BOUNDS) | self.outside_domain(inside)

    def outside_domain(self, domain: Domain) -> Mask:
        """The nodes that are not in this domain."""
        mask = self._arrays.all()
        mask[domain.positions] = False
        return mask

    def chosen_by_volcano(self, gang: Sequence[Pod], free: FreeCapacity) -> Domain | str | None:
        """The HyperNode that Volcano chooses for a gang that has left whole, by what is free then.

        None if it does not choose, or keeps the gang to none; a text is why it is not known.
        """
        others = self._context.policy.scheduler.others
        schedulers = [others.get(pod.scheduler) for pod in gang]
        if not all(
            scheduler is not None and scheduler.network_topology_aware for scheduler in schedulers
        ):
            return None
        topologies = [group.topology for group in gangs_of(gang[0], self._context)]
        topology = next((each for each in topologies if each is not None and each.is_hard), None)
        if topology is None or topology.by_labels:
            return None
        doubt = self._network.doubt(range(len(self._arrays)))
        allowed = doubt or self._network.allowed(topology)
        return allowed if isinstance(allowed, str) else HyperNodeChoice(gang, free).among(allowed)

    def _outside(self, source: int, labels: tuple[str, ...], found: NetworkBounds) -> Mask:
        key = source, labels, found
        mask = self._known.get(key)
        if mask is None:
            mask = self._arrays.all() if found.doubt else self._arrays.none()
            for bound in (*found.bounds, *found.enforced):
                mask |= self._network.outside(bound)
            for name in labels:
                of = self._arrays.domains(name).of
                mask |= of != of[source]
            if self._scope.is_on:
                mask |= (self._scopes != self._scopes[source]) | (self._scopes < 0)
            self._known[key] = mask
        return mask

    def preferred_steps(self, pod: Pod) -> int:
        """In how many steps the pod may leave domains if it cannot move inside.

        Each gives up a level of the network, the narrowest first; the last one all that the pod
        only prefers, groups of nodes as well.
        """
        source = self._arrays.index[pod.node]
        bounds = self._network_bounds(pod, source).bounds
        levels = max((len(b.looser) + 1 for b in bounds if b.preferred), default=0)
        groups = any(map(self._is_preferred, self._labels(pod, source)))
        return max(levels, int(groups))

    def _is_preferred(self, label: str) -> bool:
        return self._domains.mode_of(label) is DomainMode.PREFER

    def never_chosen(self, pod: Pod) -> Mask:
        """The nodes where the pod's own scheduler, which keeps its gang together, never puts it."""
        mask = self._arrays.none()
        if pod.scheduler != DEFAULT_SCHEDULER:
            for bound in self._network_bounds(pod, self._arrays.index[pod.node]).enforced:
                mask |= self._network.outside(bound)
        return mask

    def describe(self, pod: Pod, *, whole: bool = False, inside: Domain | None = None) -> str:
        """The domains of the pod, as in `nvidia.com/gpu.clique=7`.

        Those of its gangs begin with their names, unless its `whole` gang moves, perhaps `inside`
        a HyperNode.
        """
        source = self._arrays.index[pod.node]
        labels = self._arrays.nodes[source].labels
        found = [f"{name}={labels[name]}" for name in self._labels(pod, source)]
        if self._scope.is_on:
            domain = self._scope.domain(self._arrays.nodes[source])
            found.append(f"{self._context.policy.balance_scope}={domain}")
        if inside is not None:
            found.append(f"HyperNode {inside.name}")
            return ", ".join(found)
        network = self._gang_bounds(pod) if whole else self._network_bounds(pod, source)
        bounds = dict.fromkeys(bound.text for bound in (*network.bounds, *network.enforced))
        if bounds:
            gangs = (str(replace(group, part="")) for group in gangs_of(pod, self._context))
            of = "" if whole else f"{' and '.join(dict.fromkeys(gangs))}: "
            found.append(of + ", ".join(bounds))
        if network.doubt:
            found.append(f"its place in the network is not known: {network.doubt}")
        return ", ".join(dict.fromkeys(found))  # a scope may be a group

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

    def _network_bounds(self, pod: Pod, source: int) -> NetworkBounds:
        """Where its gangs keep the pod: where they require it, else as near to its nearest peer."""
        groups = tuple(gangs_of(pod, self._context))
        if not groups:
            return NO_BOUNDS  # nearly all pods
        peers: set[int] = set()
        enforced: list[Bound] = []
        for group in groups:
            others = (p for p in self._peers.get(group.key, ()) if p.uid != pod.uid)
            positions = {self._arrays.index[other.node] for other in others}
            topology = group.topology
            if topology is None or not topology.is_hard or topology.preferred_level:
                peers |= positions
            if topology is None or not topology.is_hard:
                continue
            found = self._network.in_domain(topology, positions or {source})
            if isinstance(found, str):
                return NetworkBounds(doubt=found)
            enforced.append(found)
        if not peers or not self._domains.by_network:
            return NetworkBounds(enforced=tuple(enforced))
        doubt = self._network.doubt((source, *sorted(peers)))
        if doubt:
            return NetworkBounds(doubt=doubt)
        bounds = tuple(self._network.as_near_as_now(source, peers, self._domains))
        return NetworkBounds(bounds, tuple(enforced))

    def _gang_bounds(self, pod: Pod) -> NetworkBounds:
        """Where the gang of the pod stays as a whole: in the narrowest domain that has it now.

        With a hard topology, in the widest HyperNode that this allows. Its scheduler may choose
        another one, once no pod is left, so that it does not enforce either.
        """
        groups = tuple(gangs_of(pod, self._context))  # one, perhaps by several marks
        positions = sorted({self._arrays.index[each.node] for each in self._peers[groups[0].key]})
        for topology in (group.topology for group in groups):
            if topology is not None and topology.is_hard:
                found = self._network.in_domain(topology, positions)
                if isinstance(found, str):
                    return NetworkBounds(doubt=found)
                return NetworkBounds((found,))
        if not self._domains.by_network:
            return NO_BOUNDS
        doubt = self._network.doubt(positions)
        if doubt:
            return NetworkBounds(doubt=doubt)
        return NetworkBounds(tuple(self._network.around(positions, self._domains)))

    @cached_property
    def _scope(self) -> BalanceScope:
        return BalanceScope(self._context.cluster, self._context.policy)

    @cached_property
    def _scopes(self) -> Ints:
        """The domain of each node, within which load is balanced, as a number."""
        return numbered(map(self._scope.domain, self._arrays.nodes))

    @cached_property
    def _network(self) -> NetworkLevels:
        return NetworkLevels(self._arrays, self._context.cluster, self._domains.rungs)

    @cached_property
    def _peers(self) -> dict[GangKey, list[Pod]]:
        """The running pods of each gang."""
        found: dict[GangKey, list[Pod]] = {}
        for pod in self._context.cluster.pods:
            if pod.node in self._arrays.index and not pod.finished:
                for group in gangs_of(pod, self._context):
                    found.setdefault(group.key, []).append(pod)
        return found
