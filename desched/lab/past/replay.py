"""A simulation in which the pods and nodes of the past come and go when they really did.

What the cluster really used is the sum of its pods and of its hosts: the load of a node that
belongs to no measured pod stays with the node. So without any move, each node has its real load.
"""

import math
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cached_property, partial

import numpy as np

from desched.lab.controllers import Replica
from desched.lab.history import Floats, Mask, UsageBank, UsageSeries
from desched.lab.load import MEASURED, size_of
from desched.lab.recorded_past import NodeChange, Past, PastNode, PastPod
from desched.lab.scheduler.choice import NodeSample
from desched.lab.world import Simulation
from desched.model.cluster import STEERING_TAINT, Node
from desched.plugins.devices import summed_devices_of, whole_gpus

Action = Callable[[], None]


class Replay:
    """Begins any number of simulations of the same past, which share its usage."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self._bank = UsageBank(float(past.step_seconds), past.usage.before, past.usage.missing)

    @property
    def nodes(self) -> list[Node]:
        """All nodes that were ever there, in the order of the past."""
        return [node.node for node in self.past.nodes]

    @cached_property
    def has_gpus(self) -> bool:
        """Whether a node offers GPUs or parts of such, or a pod requests whole ones."""
        offered = (node.allocatable for node in self.nodes)
        requested = (pod.pod.scheduling.requests for pod in self.past.pods)
        return any(whole_gpus(x) or summed_devices_of(x) for x in offered) or any(
            map(whole_gpus, requested)
        )

    def begin(self) -> Simulation:
        """A simulation at the start of the past; its clock brings what happened later."""
        sample = NodeSample.of_cluster(len(self.past.nodes))
        simulation = Simulation(sample, start=self.past.started_at)
        simulation.cluster.priority_classes |= self.past.priority_classes
        for seconds, action in self._actions(simulation):
            if seconds > 0:
                simulation.clock.call_later(seconds, action)
            else:
                action()
        return simulation

    def _actions(self, simulation: Simulation) -> Iterator[tuple[float, Action]]:
        """What happened, by time; at one time what ends comes before what begins."""
        ends: list[tuple[float, Action]] = []
        changes: list[tuple[float, Action]] = []
        begins: list[tuple[float, Action]] = []
        cluster = simulation.cluster
        for number, past in enumerate(self.past.nodes):
            host = partial(self._hosts.series, number * (self.past.steps + 1), self.past.steps)
            begins.append((self._step(past.began), partial(_join, simulation, past, host())))
            changes += (
                (self._step(change.at), partial(_change, simulation, past.node.name, change))
                for change in past.changes
            )
            if past.ended is not None:
                name = past.node.name
                ends.append((self._step(past.ended, up=True), partial(cluster.remove_node, name)))
        pod_ends: list[tuple[float, Action]] = []
        for pod in self.past.pods:
            replica = Replica(self._series(pod), pod.pod.name)
            began = partial(cluster.adopt_pod, pod.pod, replica, pod.workload)
            begins.append((self._step(pod.began), began))
            if pod.ended is not None:
                end = partial(cluster.end_replica, pod.pod.owner, replica)
                pod_ends.append((self._step(pod.ended, up=True), end))
        # The sort is stable: pods end before their node, and nodes join before their pods.
        yield from sorted([*pod_ends, *ends, *begins, *changes], key=lambda pair: pair[0])

    def _step(self, at: datetime, *, up: bool = False) -> float:
        """The start of the step of a time, or the end of it; in seconds, at least 0."""
        steps = (at - self.past.started_at).total_seconds() / self.past.step_seconds
        return max(0.0, (math.ceil(steps) if up else math.floor(steps)) * self.past.step_seconds)

    def _series(self, past: PastPod) -> UsageSeries:
        begins_at = float(past.first_step * self.past.step_seconds)
        return self._bank.series(past.first_row, past.levels, begins_at)

    @cached_property
    def _hosts(self) -> UsageBank:
        """What each node used beside its measured pods, node after node."""
        past = self.past
        used, unknown = self._node_usage()
        index = {past_node.node.name: i for i, past_node in enumerate(past.nodes)}
        for pod in past.pods:
            node = index.get(pod.pod.node)
            if node is not None:
                rows = past.usage.before[pod.first_row : pod.first_row + pod.levels + 1]
                steps = slice(pod.first_step, pod.first_step + pod.levels)
                used[node, steps] -= np.diff(rows, axis=0)
        used[unknown] = 0.0
        before = np.zeros((len(past.nodes), past.steps + 1, 2))
        np.cumsum(used, axis=1, out=before[:, 1:])
        missing = np.zeros((len(past.nodes), past.steps + 1), dtype=np.uint16)
        np.cumsum(unknown, axis=1, out=missing[:, 1:])
        return UsageBank(float(past.step_seconds), before.reshape(-1, 2), missing.reshape(-1))

    def _node_usage(self) -> tuple[Floats, Mask]:
        """Usage in each step, node x step x (CPU, memory) in unit-seconds, and where unknown."""
        past = self.past
        used: Floats = np.zeros((len(past.nodes), past.steps, 2))
        sizes = np.array([size_of(node.node) for node in past.nodes], dtype=float).reshape(-1, 2)
        for i, resource in enumerate(MEASURED):
            if (ratios := past.node_ratios.get(resource)) is not None:
                used[:, :, i] = ratios * sizes[:, None, i] * past.step_seconds
        unknown: Mask = np.any(np.isnan(used), axis=2)
        return used, unknown


def _join(simulation: Simulation, past: PastNode, host: UsageSeries) -> None:
    simulation.cluster.adopt_node(past.node, host)


def _change(simulation: Simulation, name: str, change: NodeChange) -> None:
    cluster = simulation.cluster
    node = cluster.read_cluster().node_by_name[name]
    own = (STEERING_TAINT,) if node.steered_until is not None else ()
    cluster.change_node(
        name,
        ready=change.ready,
        unschedulable=change.unschedulable,
        taints=(*change.taints, *own),
    )
