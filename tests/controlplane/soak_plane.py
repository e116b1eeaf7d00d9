"""The control plane of the soak."""

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object


class WatchedControlPlane(ControlPlane):
    """Keeps the nodes and pods that the exporter has listed last, so that nobody else need ask."""

    seen_nodes: tuple[Object, ...] = ()
    seen_pods: tuple[Object, ...] = ()

    def _observe(self) -> tuple[list[Object], list[Object]] | None:
        seen = super()._observe()
        if seen is not None:
            self.seen_nodes, self.seen_pods = map(tuple, seen)
        return seen
