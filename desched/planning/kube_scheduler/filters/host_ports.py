"""Host ports: on each node, only one pod may use a port."""

from functools import cached_property

import numpy as np

from desched.model.cluster import Pod
from desched.model.groups import grouped
from desched.planning.arrays import Mask, Positions
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodChanges, PodIndex

ANY_ADDRESS = frozenset({"", "0.0.0.0"})  # noqa: S104  (compared, not bound)


class PortFilter:
    """Plugin NodePorts."""

    def __init__(self, arrays: NodeArrays, index: PodIndex) -> None:
        self._arrays = arrays
        self._index = index

    @cached_property
    def _by_port(self) -> dict[tuple[str, int], dict[str, Positions]]:
        found = grouped(
            ((port.protocol, port.port), (port.address, position))
            for pod, position in self._index.residents
            for port in pod.scheduling.host_ports
        )
        return {
            port: {address: np.array(at, dtype=np.intp) for address, at in grouped(taken).items()}
            for port, taken in found.items()
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
