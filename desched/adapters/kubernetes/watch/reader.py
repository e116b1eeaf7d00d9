"""Reads the state of a cluster that is watched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from desched.adapters.kubernetes.cluster_reader import KubernetesReader, cluster_state
from desched.adapters.kubernetes.watch.cluster import ClusterWatch
from desched.model.cluster import ClusterState
from desched.ports import MaybeFreshPod, PodToRead


@dataclass
class WatchingReader:
    """The ClusterReader for many cycles: what has not changed is not read again.

    `reader` asks the API server for its time and for single pods. `wait` pauses and returns true if
    desched is stopping.
    """

    reader: KubernetesReader
    watch: ClusterWatch
    wait: Callable[[float], bool]

    def read_cluster(
        self, declared_kinds: Sequence[str] = (), volcano_configurations: Sequence[str] = ()
    ) -> ClusterState:
        """The objects as of the last events, once the API server has answered one request.

        What the policy names is not watched but read.
        """
        server = self.reader.read_server()
        state = cluster_state(self.watch.look(self.wait), lambda: server, self.reader.own_pod)
        return self.reader.with_named(state, declared_kinds, volcano_configurations)

    def read_around(self, pods: Sequence[PodToRead]) -> Sequence[MaybeFreshPod]:
        """The pods with their surroundings, read now."""
        return self.reader.read_around(pods)
