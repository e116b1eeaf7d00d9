"""A simulated cluster with everything that a cycle needs: load, evictions, soft taints, time."""

from collections.abc import Sequence
from datetime import datetime

from desched.lab.clock import EPOCH, VirtualClock
from desched.lab.cluster import SimulatedCluster
from desched.lab.load import SimulatedLoad
from desched.lab.scheduler.choice import NodeSample
from desched.model.cluster import STEERING_TAINT, Node, Pod, PodRef, Taint
from desched.model.report import EvictionVerdict
from desched.ports import Announcement, EvictionAnswer, SteeringAnswer, World


class SimulatedEvictor:
    """The Evictor port: an Eviction API that answers like the real one."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def evict(self, pod: PodRef, reason: str) -> EvictionAnswer:  # noqa: ARG002  (part of the port)
        """Request the eviction of exactly this pod, once."""
        answer = self._answer(pod, charge=True)
        if answer.verdict is EvictionVerdict.EVICTED:
            self._cluster.delete_pod(pod.namespace, pod.name)
        return answer

    def would_evict(self, pod: PodRef, reason: str) -> EvictionAnswer:  # noqa: ARG002  (port)
        """The answer that `evict` would get now."""
        return self._answer(pod, charge=False)

    def announce(self, announcements: Sequence[Announcement]) -> None:
        """Do nothing: the simulation has no Events."""

    def _answer(self, pod: PodRef, *, charge: bool) -> EvictionAnswer:
        present = self._cluster.pod(pod)
        if present is None:
            return EvictionAnswer(EvictionVerdict.GONE, f'pods "{pod.name}" not found')
        refusal = self._refusal(present, charge=charge)
        if refusal is not None:
            return refusal
        # As in the real API, the uid is compared only after the budget has been charged.
        if pod.uid and pod.uid != present.uid:
            return EvictionAnswer(
                EvictionVerdict.REPLACED,
                f"Precondition failed: UID in precondition: {pod.uid}, "
                f"UID in object meta: {present.uid}",
            )
        return EvictionAnswer(EvictionVerdict.EVICTED)

    def _refusal(self, pod: Pod, *, charge: bool) -> EvictionAnswer | None:
        """The answer if the pod's budget refuses; else it may be charged."""
        budgets = self._cluster.budgets_of(pod)
        if not budgets or pod.deleting or pod.finished or pod.phase == "Pending":
            return None  # nothing is lost, so no budget applies
        if len(budgets) > 1:
            return EvictionAnswer(
                EvictionVerdict.SEVERAL_BUDGETS,
                "This pod has more than one PodDisruptionBudget, "
                "which the eviction subresource does not support.",
            )
        budget = budgets[0]
        status = self._cluster.budget_status(budget)
        if not pod.ready and 0 < status.desired_healthy <= status.current_healthy:
            return None  # an unhealthy pod may go while there are enough healthy ones
        if status.disruptions_allowed == 0:
            return EvictionAnswer(
                EvictionVerdict.BLOCKED_BY_BUDGET,
                f"The disruption budget {budget.name} needs {status.desired_healthy} healthy pods "
                f"and has {status.current_healthy} currently",
            )
        if charge:
            budget.disrupted[pod.name] = self._cluster.clock.monotonic()
        return None


class SimulatedSteerer:
    """The Steerer port."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def taint_all(self, nodes: Sequence[str], until: datetime) -> Sequence[SteeringAnswer]:
        """Make the scheduler avoid the nodes, at least until this time."""
        return [self.taint(node, until) for node in nodes]

    def untaint_all(self, nodes: Sequence[str]) -> Sequence[SteeringAnswer]:
        """Remove desched's own taint from the nodes; the taint of somebody else stays."""
        return [self.untaint(node) for node in nodes]

    def taint(self, node: str, until: datetime) -> SteeringAnswer:
        """Make the scheduler avoid the node, at least until this time."""
        present = self._cluster.read_cluster().node_by_name.get(node)
        if present is None:
            return SteeringAnswer(done=False, detail="there is no such node")
        if present.avoided and present.steered_until is None:
            return SteeringAnswer(done=False, detail="somebody else has added the taint")
        if not present.avoided or present.steered_until is None or present.steered_until < until:
            taints = (*_others(present), STEERING_TAINT)
            self._cluster.change_node(node, taints=taints, steered_until=until)
        return SteeringAnswer(done=True)

    def untaint(self, node: str) -> SteeringAnswer:
        """Remove desched's own taint from the node; the taint of somebody else stays."""
        present = self._cluster.read_cluster().node_by_name.get(node)
        if present is not None and present.steered_until is not None:
            self._cluster.change_node(node, taints=_others(present), steered_until=None)
        return SteeringAnswer(done=True)


def _others(node: Node) -> tuple[Taint, ...]:
    own = (STEERING_TAINT.key, STEERING_TAINT.effect)
    return tuple(taint for taint in node.taints if (taint.key, taint.effect) != own)


class Simulation:
    """A simulated cluster, its measurements and its APIs, in one virtual time."""

    def __init__(self, sample: NodeSample | None = None, start: datetime = EPOCH) -> None:
        self.clock = VirtualClock(start)
        self.cluster = SimulatedCluster(self.clock, sample)
        self.load = SimulatedLoad(self.cluster)
        self.evictor = SimulatedEvictor(self.cluster)
        self.steerer = SimulatedSteerer(self.cluster)

    def world(self, *, acting: bool) -> World:
        """The ports of a cycle; without `acting` it can neither evict nor taint."""
        if not acting:
            return World(self.cluster, self.load, self.clock, None)
        return World(self.cluster, self.load, self.clock, self.evictor, steerer=self.steerer)
