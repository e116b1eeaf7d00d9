"""The simulated cluster: its objects, and the controllers that react to changes."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from desched.model.cluster import (
    ClusterState,
    ControllerKey,
    Node,
    Owner,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodRef,
    Taint,
    Workload,
)
from desched.model.resources import Amounts
from desched.model.snapshot import FreshLook, Room
from desched.ports import LookAt
from desched.simulation.budgets import BudgetStatus, SimulatedBudget
from desched.simulation.clock import VirtualClock
from desched.simulation.history import IDLE, LoadHistory, Usage, UsageSeries
from desched.simulation.scheduler.choice import NodeSample, choose_node
from desched.simulation.scheduler.view import ClusterView
from desched.simulation.template import PodTemplate, ReplicaSet

GIB = 1024**3
STARTUP_SECONDS = 5.0
"""The time until a bound pod becomes Ready."""


class SimulatedCluster:
    """Nodes, pods and workloads in virtual time; also the ClusterReader port.

    A deleted pod keeps its requests and its load for its grace period; a ReplicaSet replaces it at
    once. `priority_classes` (values by name) and `claims` can be extended. The scheduler compares
    the nodes of `sample`, all nodes without one.
    """

    def __init__(self, clock: VirtualClock, sample: NodeSample | None = None) -> None:
        self.clock = clock
        self.sample = sample
        self.history = LoadHistory()
        self.priority_classes = {
            "system-cluster-critical": 2_000_000_000,
            "system-node-critical": 2_000_001_000,
        }
        self.claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._nodes: dict[str, Node] = {}
        self._pods: dict[tuple[str, str], Pod] = {}
        self._usage: dict[str, Usage | UsageSeries] = {}
        self._replica_sets: dict[str, ReplicaSet] = {}
        self._budgets: list[SimulatedBudget] = []
        self._namespaces: dict[str, Mapping[str, str]] = {"default": {}, "kube-system": {}}
        self._numbers = itertools.count(1)
        self._pods_made = Counter[str]()

    # --- reading: the ClusterReader port ------------------------------------------------------

    def read_cluster(self) -> ClusterState:
        """Everything as it is now."""
        return ClusterState(
            nodes=tuple(self._nodes.values()),
            pods=tuple(self._pods.values()),
            workloads=self._workloads(),
            controller_selectors={
                (rs.workload.namespace, uid): rs.selector for uid, rs in self._replica_sets.items()
            },
            budgets=tuple(map(self._as_seen, self._budgets)),
            priority_classes=dict(self.priority_classes),
            namespaces=dict(self._namespaces),
            claims=dict(self.claims),
            server_version="v1.36.0-simulated",
        )

    def read_around(self, pods: Sequence[LookAt]) -> Sequence[FreshLook | None]:
        """The current pods with everything that decides on them."""
        return [self._look(*each) for each in pods]

    def _look(self, ref: PodRef, room_on: str) -> FreshLook | None:
        pod = self.pod(ref)
        if pod is None:
            return None
        budgets = (budget for budget in self._budgets if budget.namespace == pod.namespace)
        node = self._nodes.get(room_on)
        there = tuple(p for p in self._pods.values() if p.node == room_on)
        return FreshLook(
            pod=pod,
            node=self._nodes.get(pod.node),
            workload=self._workloads().get(pod.controller) if pod.controller else None,
            controller_owner=None,
            budgets=tuple(map(self._as_seen, budgets)),
            room=Room(node, there) if node else None,
        )

    def _workloads(self) -> dict[ControllerKey, Workload]:
        """The Deployments with their status, by the key of the ReplicaSet."""
        ready = Counter(
            pod.owner.uid
            for pod in self._pods.values()
            if pod.owner and pod.ready and not pod.deleting
        )
        return {
            (replica_set.workload.namespace, uid): replace(
                replica_set.workload, ready_replicas=ready[uid]
            )
            for uid, replica_set in self._replica_sets.items()
        }

    def pod(self, ref: PodRef) -> Pod | None:
        """The pod of this namespace and name, None if there is none."""
        return self._pods.get((ref.namespace, ref.name))

    def newest_pod(self) -> Pod:
        """The pod that was created last."""
        return next(reversed(self._pods.values()))

    def budgets_of(self, pod: Pod) -> list[SimulatedBudget]:
        """The budgets to which an eviction of the pod is charged."""
        return [budget for budget in self._budgets if budget.covers(pod)]

    def budget_status(self, budget: SimulatedBudget) -> BudgetStatus:
        """The current status of a budget."""
        replicas = {uid: rs.workload.desired_replicas for uid, rs in self._replica_sets.items()}
        return budget.status(self._pods.values(), replicas, self.clock.monotonic())

    def _as_seen(self, budget: SimulatedBudget) -> PodDisruptionBudget:
        allowed = self.budget_status(budget).disruptions_allowed
        return PodDisruptionBudget(budget.namespace, budget.name, budget.selector, allowed)

    # --- what a user applies --------------------------------------------------------------------

    def add_node(
        self,
        name: str,
        *,
        cpu_millicores: int = 4000,
        memory_bytes: int = 16 * GIB,
        labels: Mapping[str, str] | None = None,
        taints: tuple[Taint, ...] = (),
        host_usage: Usage = IDLE,
    ) -> None:
        """Add a node; `host_usage` is the usage of processes outside of pods."""
        amounts = Amounts(cpu_millicores=cpu_millicores, memory_bytes=memory_bytes, pods=110)
        self._nodes[name] = Node(
            name=name,
            uid=self._new_uid("node"),
            created_at=self.clock.now(),
            labels={
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **(labels or {}),
            },
            capacity=amounts,
            allocatable=amounts,
            taints=taints,
        )
        self.history.begin(f"host of {name}", name, host_usage, self.clock.monotonic())
        self._schedule()

    def change_node(self, name: str, **changes: object) -> None:
        """Change fields of a node: `unschedulable=True` cordons it."""
        self._nodes[name] = replace(self._nodes[name], **changes)
        self._schedule()

    def add_namespace(self, name: str) -> None:
        """Add a namespace."""
        self._namespaces[name] = {}

    def add_budget(self, budget: SimulatedBudget) -> None:
        """Add a PodDisruptionBudget."""
        self._budgets.append(budget)

    def add_deployment(
        self,
        namespace: str,
        name: str,
        replicas: int,
        template: PodTemplate,
        *,
        annotations: Mapping[str, str] | None = None,
        nodes: Sequence[str] = (),
    ) -> None:
        """Add a Deployment; its first pods are bound to `nodes`, the scheduler places the rest."""
        owner = Owner("ReplicaSet", f"{name}-rs", self._new_uid("rs"), "apps/v1")
        template = template.scored().of_revision(owner.uid)
        workload = Workload(
            "Deployment", namespace, name, self._new_uid("deploy"), replicas, annotations or {}
        )
        self._replica_sets[owner.uid] = ReplicaSet(workload, template)
        for node in nodes:
            self._create_pod(namespace, self._new_name(name), template, owner, node)
        self._scale(owner)
        self._schedule()

    def add_pod(self, namespace: str, name: str, template: PodTemplate, node: str = "") -> None:
        """Add a bare pod, bound to `node` if one is given."""
        self._create_pod(namespace, name, template.scored(), None, node)
        self._schedule()

    def delete_pod(self, namespace: str, name: str) -> None:
        """Begin to terminate a pod."""
        pod = self._pods[namespace, name]
        if not pod.deleting:
            self._pods[namespace, name] = replace(pod, deleting=True)
            self.clock.call_later(pod.grace_period_seconds, lambda: self._remove(pod.ref))
        if pod.owner is not None:
            self._scale(pod.owner)
        self._schedule()

    # --- what controllers, kubelets and the scheduler do --------------------------------------

    def _scale(self, owner: Owner) -> None:
        """Create the pods that a ReplicaSet lacks."""
        replica_set = self._replica_sets[owner.uid]
        workload = replica_set.workload
        pods = (pod.owner for pod in self._pods.values() if pod.owner and not pod.deleting)
        present = sum(other.uid == owner.uid for other in pods)
        for _ in range(workload.desired_replicas - present):
            name = self._new_name(workload.name)
            self._create_pod(workload.namespace, name, replica_set.template, owner, "")

    def _schedule(self) -> None:
        pending = [pod for pod in self._pods.values() if not pod.node and not pod.deleting]
        for pod in sorted(pending, key=lambda pod: (-pod.priority, pod.created_at, pod.name)):
            node = choose_node(pod, ClusterView(self.read_cluster()), sample=self.sample)
            if node is not None:
                self._bind(pod, node)

    def _usage_of_next(self, template: PodTemplate, owner: Owner | None) -> Usage | UsageSeries:
        """The usage of an owner's next pod: that of a replica which is missing."""
        siblings = (p for p in self._pods.values() if p.owner == owner and not p.deleting)
        taken = {id(self._usage[pod.uid]) for pod in siblings}
        missing = (usage for usage in template.usage_by_replica if id(usage) not in taken)
        return next(missing, template.usage)

    def _create_pod(
        self, namespace: str, name: str, template: PodTemplate, owner: Owner | None, node: str
    ) -> None:
        pod = Pod(
            namespace=namespace,
            name=name,
            uid=self._new_uid("pod"),
            scheduling=template.scheduling,
            created_at=self.clock.now(),
            labels=template.labels,
            owner=owner,
            phase="Pending",
            ready=False,
            priority=self.priority_classes[template.priority_class]
            if template.priority_class
            else 0,
            scheduler=template.scheduler,
            volumes=template.volumes,
        )
        self._usage[pod.uid] = self._usage_of_next(template, owner)
        self._pods[namespace, name] = pod
        if node:
            self._bind(pod, node)

    def _bind(self, pod: Pod, node: str) -> None:
        self._pods[pod.namespace, pod.name] = replace(pod, node=node, started_at=self.clock.now())
        self.history.begin(pod.uid, node, self._usage[pod.uid], self.clock.monotonic())
        self.clock.call_later(STARTUP_SECONDS, lambda: self._become_ready(pod.ref))

    def _become_ready(self, ref: PodRef) -> None:
        pod = self._pods.get((ref.namespace, ref.name))
        if pod and pod.uid == ref.uid:
            self._pods[ref.namespace, ref.name] = replace(pod, phase="Running", ready=True)

    def _remove(self, ref: PodRef) -> None:
        del self._pods[ref.namespace, ref.name]
        self.history.end(ref.uid, self.clock.monotonic())
        self._schedule()

    def _new_uid(self, kind: str) -> str:
        return f"{kind}-{next(self._numbers)}"

    def _new_name(self, workload: str) -> str:
        self._pods_made[workload] += 1
        return f"{workload}-{self._pods_made[workload]}"
