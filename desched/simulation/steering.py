"""Soft taints on the nodes of the simulated cluster."""

from datetime import datetime

from desched.model.cluster import STEERING_TAINT, Node, Taint
from desched.ports import SteeringAnswer
from desched.simulation.cluster import SimulatedCluster

_DONE = SteeringAnswer(done=True)


class SimulatedSteerer:
    """The Steerer port."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def taint(self, node: str, until: datetime) -> SteeringAnswer:
        """Let the scheduler avoid the node, at least until then."""
        found = self._find(node)
        if found is None:
            return SteeringAnswer(done=False, detail="there is no such node")
        if found.avoided and found.steered_until is None:
            return SteeringAnswer(done=False, detail="somebody else has added the taint")
        if not found.avoided or found.steered_until is None or found.steered_until < until:
            taints = (*_others(found), STEERING_TAINT)
            self._cluster.change_node(node, taints=taints, steered_until=until)
        return _DONE

    def untaint(self, node: str) -> SteeringAnswer:
        """Take desched's own taint off the node; one that somebody else has put there stays."""
        found = self._find(node)
        if found is not None and found.steered_until is not None:
            self._cluster.change_node(node, taints=_others(found), steered_until=None)
        return _DONE

    def _find(self, name: str) -> Node | None:
        return self._cluster.read_cluster().node_by_name.get(name)


def _others(node: Node) -> tuple[Taint, ...]:
    own = (STEERING_TAINT.key, STEERING_TAINT.effect)
    return tuple(taint for taint in node.taints if (taint.key, taint.effect) != own)
