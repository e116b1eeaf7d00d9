"""Simulations that go on from a snapshot: each pod goes on to use what it uses now.

What a pod uses is its mean over the longest window. The load of a node that belongs to no pod stays
with the node, and the load of pods follows them. All of it has been so for as long as any window
looks back, so that the first cycle sees the load of the snapshot.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial

import numpy as np

from desched.lab.budgets import SimulatedBudget
from desched.lab.cluster import SimulatedCluster
from desched.lab.controllers import Replica
from desched.lab.figures import Assumed, Assumption
from desched.lab.history import Usage, UsageBank, UsageSeries
from desched.lab.load import MEASURED, size_of
from desched.lab.scheduler.choice import NodeSample
from desched.lab.world import Simulation
from desched.model.cluster import Node, Pod
from desched.model.load import Measured
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import Policy

UNKNOWN = UsageBank(1.0, np.zeros((2, 2)), np.array([0, 1], dtype=np.uint16)).series(0, 1)
"""The usage of a host whose load is not known."""


class Continuation:
    """Begins any number of simulations of the same snapshot.

    `policy` is the one for which the load was measured. The clock begins `lead_seconds` before the
    snapshot; `seed` is that of the scheduler's sample of nodes.
    """

    def __init__(
        self, snapshot: Snapshot, policy: Policy, lead_seconds: float, seed: int = 0
    ) -> None:
        self._cluster = snapshot.cluster
        self._book = UsageBook(snapshot, policy, snapshot.taken_at)
        self._start = snapshot.taken_at - timedelta(seconds=lead_seconds)
        self._lead_seconds = lead_seconds
        self._seed = seed
        # Pods that end are not there any more when the first cycle begins.
        self._pods = [pod for pod in snapshot.cluster.pods if not (pod.finished or pod.deleting)]
        self._usage = {pod.uid: self._usage_of(pod) for pod in self._pods}
        self._hosts = {node.name: self._host_of(node) for node in self.nodes}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, in the order of the snapshot."""
        return self._cluster.nodes

    @property
    def pods(self) -> int:
        """The number of simulated pods."""
        return len(self._pods)

    def begin(self) -> Simulation:
        """A new simulation; its clock brings nodes and pods that are younger than its start."""
        sample = NodeSample.of_cluster(len(self.nodes), self._seed)
        simulation = Simulation(sample, self._start)
        cluster = simulation.cluster
        cluster.adopt_surroundings(self._cluster)
        for budget in self._budgets():
            cluster.add_budget(budget)
        actions: list[tuple[datetime, Callable[[], None]]] = [
            (node.created_at, partial(cluster.adopt_node, node, self._hosts[node.name]))
            for node in self.nodes
        ]
        actions += [(self._began(pod), self._adoption(pod, cluster)) for pod in self._pods]
        # The sort is stable: a node comes before pods that begin at the same time.
        for began, action in sorted(actions, key=lambda pair: pair[0]):
            seconds = (began - self._start).total_seconds()
            if seconds > 0:
                simulation.clock.call_later(min(seconds, self._lead_seconds), action)
            else:
                action()
        return simulation

    def assumed(self, policies: Iterable[Policy] = ()) -> tuple[Assumed, ...]:
        """What is assumed about this snapshot if these policies are simulated."""
        watched = self._book.windows.keys() & set(MEASURED)
        running = [pod for pod in self._pods if pod.node]
        unmeasured = sum(not all(self._book.measured(p, r) for r in watched) for p in running)
        unknown = sum(host is UNKNOWN for host in self._hosts.values())
        assumptions = [
            Assumed(Assumption.LOAD_STAYS),
            Assumed(Assumption.LOAD_FOLLOWS_PODS),
            Assumed(Assumption.SCHEDULER_SIMULATED),
            Assumed(Assumption.READY_AT_ONCE),
            Assumed(Assumption.NOTHING_ELSE_CHANGES),
        ]
        if self._cluster.budgets:
            assumptions.append(Assumed(Assumption.BUDGETS_STAY))
        if unmeasured:
            assumptions.append(Assumed(Assumption.PODS_NOT_MEASURED, str(unmeasured)))
        if unknown:
            assumptions.append(Assumed(Assumption.NODES_UNKNOWN, str(unknown)))
        if any(policy.windows(Resource.GPU) for policy in policies):
            assumptions.append(Assumed(Assumption.GPUS_UNKNOWN))
        return tuple(assumptions)

    def _began(self, pod: Pod) -> datetime:
        """When the pod began to run; a pod without a node begins after all others."""
        return (pod.started_at or pod.created_at) if pod.node else self._book.now

    def _adoption(self, pod: Pod, cluster: SimulatedCluster) -> Callable[[], None]:
        replica = Replica(self._usage[pod.uid], pod.name)
        return partial(cluster.adopt_pod, pod, replica, self._cluster.workload_of(pod))

    def _usage_of(self, pod: Pod) -> Usage:
        return Usage(*(self._used(pod, resource) for resource in MEASURED))

    def _used(self, pod: Pod, resource: Resource) -> float:
        """What the pod uses of a resource: the mean of its longest window, or what is expected."""
        windows = self._book.windows.get(resource, ())
        measured = self._book.measured(pod, resource)
        if not windows:
            return 0.0
        if measured and self._book.seen_share(pod, windows[-1]) >= 1.0:
            return measured[-1]
        return self._book.expected(pod, resource)

    def _host_of(self, node: Node) -> Usage | UsageSeries:
        """What the node uses beside its measured pods."""
        loads = self._book.snapshot.load.nodes.get(node.name, {})
        pods = self._cluster.pods_by_node.get(node.name, ())
        found = []
        for resource, size in zip(MEASURED, size_of(node), strict=True):
            if resource not in self._book.windows:
                found.append(0.0)
                continue
            load = loads.get(resource)
            if not isinstance(load, Measured):
                return UNKNOWN
            used = (self._book.measured(pod, resource) for pod in pods)
            of_pods = math.fsum(series[-1] for series in used if series)
            found.append(max(0.0, load.levels[-1].ratio * size - of_pods))
        return Usage(*found)

    def _budgets(self) -> Iterator[SimulatedBudget]:
        """The budgets, which keep as many healthy pods as they require now."""
        for budget in self._cluster.budgets:
            if budget.selector is None:
                continue
            healthy = sum(pod.ready and budget.covers(pod) for pod in self._pods)
            allowed = budget.disruptions_allowed if budget.up_to_date else 0
            yield SimulatedBudget(
                budget.namespace,
                budget.name,
                budget.selector,
                min_available=max(0, healthy - allowed),
            )
