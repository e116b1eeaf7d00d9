"""All that is measured of the GPUs of a cluster; it needs no right and changes nothing."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from desched.model.gpus import ClusterGpus, DomainGpus, NodeGpus
from desched.planning.arrays import Floats, Ints
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.gpus.fragmentation import PodClasses
from desched.planning.gpus.whole_gpus import WholeGpus, nodes_with_gpus, places
from desched.planning.kube_scheduler.filters.node_constraints import NodeFilter
from desched.planning.kube_scheduler.filters.resources import FreeRequests
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodIndex
from desched.planning.placement.network_levels import Domain, NetworkLevels


def survey(context: EligibilityContext) -> ClusterGpus | None:
    """What is idle of the GPUs of a cluster, None without any."""
    cluster = context.cluster
    arrays = NodeArrays(nodes_with_gpus(cluster))
    if not arrays.nodes:
        return None
    requests = FreeRequests(arrays, PodIndex(cluster, arrays))
    gpus = WholeGpus(cluster, arrays, context.book.snapshot.load.gpus)
    idle = gpus.idle(requests)
    classes = PodClasses.of(cluster, arrays.names)
    fragmented = classes.fragmentation(idle.sum(axis=0), requests, NodeFilter(arrays))
    measured = _Measured(gpus, idle.sum(axis=0), places(idle), fragmented)
    return ClusterGpus(
        tuple(measured.of_node(i, name) for i, name in enumerate(arrays.names)),
        tuple(map(measured.of_domain, _domains(context, arrays))),
    )


class _Measured(NamedTuple):
    """The figures of all nodes, of shape (nodes,); `places` has shape (sizes, nodes)."""

    gpus: WholeGpus
    idle: Ints
    places: Ints
    fragmented: Floats

    def of_node(self, position: int, name: str) -> NodeGpus:
        return NodeGpus(
            name,
            int(self.gpus.total[position]),
            int(self.idle[position]),
            tuple(self.places[:, position].tolist()),
            float(self.fragmented[position]),
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
            tuple(self.places[:, inside].sum(axis=1).tolist()),
            float(self.fragmented[inside].sum()),
        )


def _domains(context: EligibilityContext, arrays: NodeArrays) -> Iterator[Domain]:
    """The placement domains of the nodes: of the network, and of labels that group nodes."""
    known = context.policy.domains
    found = dict[tuple[str, str], Domain]()
    for each in NetworkLevels(arrays, context.cluster, known.rungs).each:
        found.setdefault((each.level, each.name), each)  # labels and a Topology may share levels
    yield from found.values()
    for key in (*known.groups, *known.accelerator_groups):
        of = arrays.domains(key).of
        for number in range(arrays.domains(key).count):
            positions = np.flatnonzero(of == number)
            yield Domain(key, arrays.nodes[positions[0]].labels[key], positions)
