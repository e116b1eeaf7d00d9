"""All that is measured of the GPUs of a cluster; it needs no right and changes nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from desched.model.cluster import SchedulingClass
from desched.model.load import Unknown
from desched.model.resources import Resource
from desched.network.levels import Domain, NetworkLevels
from desched.network.plugin import domains_of
from desched.planning.arrays import Floats, Ints
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.filters.node_constraints import NodeFilter
from desched.planning.kube_scheduler.filters.resources import FreeRequests
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodIndex
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.facts import (
    SIZES,
    ClusterGpus,
    DomainGpus,
    GpuAnswer,
    NodeGpus,
    StayingPods,
)
from desched.plugins.gpus.fragmentation import PodClasses
from desched.plugins.gpus.leaving import Leaving
from desched.plugins.gpus.load import GpuLoad
from desched.plugins.gpus.room import GpuRoom
from desched.plugins.gpus.waits import ClosestNodes, waiting_for_gpus
from desched.plugins.gpus.whole_gpus import WholeGpus, nodes_with_gpus, places


class GpuNodes(NamedTuple):
    """The nodes with GPUs, and what is free of them."""

    arrays: NodeArrays
    pods: PodIndex
    requests: FreeRequests
    gpus: WholeGpus

    @classmethod
    def of(cls, context: EligibilityContext) -> "GpuNodes | None":
        """Those of the cluster; None if no node has GPUs."""
        cluster = context.cluster
        arrays = NodeArrays(nodes_with_gpus(cluster))
        if not arrays.nodes:
            return None
        index = PodIndex(cluster, arrays)
        gpus = WholeGpus(cluster, arrays, GpuLoad.of(context.book.snapshot.load.extras).nodes)
        return cls(arrays, index, FreeRequests(arrays, index), gpus)


def survey(context: EligibilityContext) -> ClusterGpus | None:
    """All that is measured of the GPUs of a cluster; None if no node has some, and no pod waits."""
    unknown = _unknown_nodes(context)
    nodes, waiting = GpuNodes.of(context), waiting_for_gpus(context)
    if nodes is None:
        waits = tuple(each.answered(GpuAnswer.NOT_ADMITTED) for each in waiting)
        if not waits and not unknown:
            return None
        none = dict.fromkeys(SIZES, 0)
        return ClusterGpus(0, 0, none, 0.0, (), waits=waits, unknown_nodes=unknown)
    leaving = Leaving(context)
    refusals = [leaving.refuse(pod) for pod, _ in nodes.pods.residents_of(_has_gpus)]
    staying = Counter(finding.reason for finding in refusals if finding is not None)
    room = GpuRoom(context.cluster, nodes.arrays, nodes.requests, leaving)
    closest = ClosestNodes(context, nodes.arrays, nodes.gpus.counted, room, leaving)
    return replace(
        measured(context, nodes),
        pods=len(refusals),
        movable_pods=len(refusals) - staying.total(),
        staying=tuple(
            StayingPods(*each) for each in sorted(staying.items(), key=lambda e: (-e[1], e[0]))
        ),
        waits=tuple(closest.answers(waiting)),
        unknown_nodes=unknown,
    )


def _unknown_nodes(context: EligibilityContext) -> int | None:
    if Resource.GPU not in context.book.windows:
        return None
    loads = GpuLoad.of(context.book.snapshot.load.extras).nodes.values()
    return sum(isinstance(load, Unknown) for load in loads)


def measured(context: EligibilityContext, nodes: GpuNodes) -> ClusterGpus:
    """What is idle, and what it is good for, by node and by placement domain."""
    arrays, _, requests, gpus = nodes
    idle = gpus.idle(requests)
    classes = PodClasses.of(context.cluster, arrays.names)
    fragmented = classes.fragmentation(idle.sum(axis=0), requests, NodeFilter(arrays))
    figures = _Figures(gpus, idle.sum(axis=0), places(idle), fragmented)
    network = list(_of_network(context, arrays))
    narrowest = [""] * len(arrays)
    for domain in network:  # wider ones come first
        for position in domain.positions:
            narrowest[position] = str(domain)
    whole = figures.of_domain(Domain("", "", np.arange(len(arrays))))
    domains = map(figures.of_domain, (*network, *_groups(context, arrays)))
    return ClusterGpus(
        whole.gpus,
        whole.idle,
        whole.places,
        whole.fragmented,
        tuple(
            figures.of_node(i, *each)
            for i, each in enumerate(zip(arrays.names, narrowest, strict=True))
        ),
        tuple(each for each in domains if each.nodes),
    )


def _has_gpus(scheduling: SchedulingClass) -> bool:
    return whole_gpus(scheduling.requests) > 0


class _Figures(NamedTuple):
    """The figures of all nodes, of shape (nodes,); `places` has shape (sizes, nodes)."""

    gpus: WholeGpus
    idle: Ints
    places: Ints
    fragmented: Floats

    def of_node(self, position: int, name: str, domain: str) -> NodeGpus:
        return NodeGpus(
            name,
            int(self.gpus.total[position]),
            int(self.idle[position]),
            _by_size(self.places[:, position]),
            float(self.fragmented[position]),
            domain,
            self.gpus.left_out[position],
        )

    def of_domain(self, domain: Domain) -> DomainGpus:
        inside = domain.positions[self.gpus.counted[domain.positions]]
        return DomainGpus(
            domain.level,
            domain.name,
            len(inside),
            int(self.gpus.total[inside].sum()),
            int(self.idle[inside].sum()),
            _by_size(self.places[:, inside].sum(axis=1)),
            float(self.fragmented[inside].sum()),
        )


def _by_size(found: Ints) -> Mapping[int, int]:
    return dict(zip(SIZES, found.tolist(), strict=True))


def _of_network(context: EligibilityContext, arrays: NodeArrays) -> Iterable[Domain]:
    """The placement domains of the network."""
    found = dict[tuple[str, str], Domain]()
    for each in NetworkLevels(arrays, context.cluster, domains_of(context.policy).rungs).each:
        found.setdefault((each.level, each.name), each)  # labels and a Topology may share levels
    return found.values()


def _groups(context: EligibilityContext, arrays: NodeArrays) -> Iterator[Domain]:
    """The placement domains of labels that group nodes."""
    known = domains_of(context.policy)
    for key in (*known.groups, *known.accelerator_groups):
        domains = arrays.domains(key)
        for number in range(domains.count):
            positions = np.flatnonzero(domains.of == number)
            yield Domain(key, arrays.nodes[positions[0]].labels[key], positions)
