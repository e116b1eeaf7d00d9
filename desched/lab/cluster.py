"""The simulated cluster: its objects, and the controllers that react to changes."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from desched.lab.budgets import BudgetStatus, SimulatedBudget
from desched.lab.clock import VirtualClock
from desched.lab.controllers import Controllers, Replica, ReplicaSet
from desched.lab.history import IDLE, LoadHistory, Usage, UsageSeries, host_of
from desched.lab.pod_table import PodTable
from desched.lab.scheduler.choice import NodeSample, choose_node
from desched.lab.scheduler.view import ClusterView
from desched.lab.template import REVISION_LABEL, PodTemplate
from desched.model.cluster import (
    ClusterState,
    ControllerKey,
    Node,
    Owner,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodRef,
    Workload,
)
from desched.model.resources import Amounts, basic
from desched.model.selectors import LabelSelector
from desched.model.snapshot import FreshPod, Room
from desched.plugins.kinds import siblings_decide
from desched.ports import PodToRead

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
        self._removed_nodes: dict[str, Node] = {}
        self._pods = PodTable()
        self._replica_of: dict[str, Replica] = {}
        self._ref_of: dict[str, PodRef] = {}
        self._controllers = Controllers()
        self._budgets: list[SimulatedBudget] = []
        self._namespaces: dict[str, Mapping[str, str]] = {"default": {}, "kube-system": {}}
        self._around = ClusterState((), (), server_version="v1.36.0-simulated")
        self._numbers = itertools.count(1)
        self._pods_made = Counter[str]()
        self.newest_start: datetime | None = None  # of the pods that have a node, or had one

    # --- reading: the ClusterReader port ------------------------------------------------------

    def read_cluster(
        self,
        declared_kinds: Sequence[str] = (),  # noqa: ARG002 (port)
        volcano_configurations: Sequence[str] = (),  # noqa: ARG002 (port)
    ) -> ClusterState:
        """Everything as it is now; the owners of pods are those of the cluster around."""
        return replace(
            self._around,
            nodes=tuple(self._nodes.values()),
            pods=self._pods.all,
            workloads=self._controllers.workloads(self._pods),
            controller_selectors=self._selectors(),
            budgets=tuple(map(self._as_seen, self._budgets)),
            priority_classes=dict(self.priority_classes),
            namespaces=dict(self._namespaces),
            claims=dict(self.claims),
        )

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes as they are now."""
        return tuple(self._nodes.values())

    def names_on(self, nodes: Iterable[str], since: float) -> dict[str, tuple[str, str]]:
        """(namespace, name) of each pod that has been on one of these nodes since then, by uid."""
        refs = {uid: self._ref_of[uid] for uid in self.history.users_on(nodes, since)}
        return {uid: (ref.namespace, ref.name) for uid, ref in refs.items()}

    @property
    def all_nodes(self) -> Sequence[Node]:
        """The nodes as they are now, and those that were removed."""
        return tuple({**self._removed_nodes, **self._nodes}.values())

    def _selectors(self) -> Mapping[ControllerKey, LabelSelector]:
        """The selectors of controllers, as they are elsewhere if they exist there."""
        elsewhere = self._around.controller_selectors
        selectors = self._controllers.selectors
        return {**selectors, **elsewhere} if elsewhere else selectors

    def read_around(self, pods: Sequence[PodToRead]) -> Sequence[FreshPod | None]:
        """The current pods with everything that decides on them."""
        return [self._look(pod.pod, pod.room_on) for pod in pods]

    def _look(self, ref: PodRef, room_on: str) -> FreshPod | None:
        pod = self.pod(ref)
        if pod is None:
            return None
        budgets = (budget for budget in self._budgets if budget.namespace == pod.namespace)
        node = self._nodes.get(room_on)
        workloads = self._controllers.workloads(self._pods)
        workload = workloads.get(pod.controller) if pod.controller else None
        extras = self._around.extras
        above = self._around.controller_owners.get(pod.controller) if pod.controller else None
        owner = above or pod.owner
        return FreshPod(
            pod=pod,
            node=self._nodes.get(pod.node),
            workload=workload,
            controller_owner=above,
            budgets=tuple(map(self._as_seen, budgets)),
            room=Room(node, tuple(self._pods.on_node(room_on))) if node else None,
            siblings=self._siblings(pod, all_decide=siblings_decide(pod, workload, extras)),
            owner_annotations=self._around.owner_annotations(pod.namespace, owner)
            if owner
            else None,
            extras=extras,
        )

    def _siblings(self, pod: Pod, *, all_decide: bool) -> tuple[Pod, ...]:
        if all_decide:
            return self._pods.all
        return tuple(self._pods.on_node(pod.node)) if pod.may_share_claims else ()

    def pod(self, ref: PodRef) -> Pod | None:
        """The pod of this namespace and name, None if there is none."""
        return self._pods.find(ref)

    def newest_pod(self) -> Pod:
        """The pod that was created last."""
        return self._pods.newest()

    def replicas_of(self, owner_uid: str) -> int:
        """How many pods a controller wants."""
        return self._controllers.replicas.get(owner_uid, 0)

    def budgets_of(self, pod: Pod) -> list[SimulatedBudget]:
        """The budgets to which an eviction of the pod is charged."""
        return [budget for budget in self._budgets if budget.covers(pod)]

    def budget_status(self, budget: SimulatedBudget) -> BudgetStatus:
        """The current status of a budget."""
        now = self.clock.monotonic()
        return budget.status(self._pods.all, self._controllers.replicas, now)

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
        extended: Mapping[str, int] | None = None,
        host_usage: Usage = IDLE,
    ) -> None:
        """Add a node with `extended` resources.

        `host_usage` is the usage of processes outside of pods.
        """
        devices = tuple(sorted((extended or {}).items()))
        amounts = Amounts(cpu_millicores, memory_bytes, pods=110, extended=devices)
        node = Node(
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
        )
        self.adopt_node(node, host_usage)

    def adopt_surroundings(self, cluster: ClusterState) -> None:
        """Take over what has no method of its own, such as volumes."""
        around = replace(cluster, nodes=(), pods=(), workloads={}, budgets=(), claims={})
        # The simulated server has the simulation's clock.
        self._around = replace(around, server_times=None)
        self.priority_classes.update(cluster.priority_classes)
        self._namespaces.update(cluster.namespaces)
        self.claims.update(cluster.claims)

    def adopt_node(self, node: Node, host_usage: Usage | UsageSeries = IDLE) -> None:
        """Add a node that exists elsewhere, such as in a snapshot or in the past."""
        self._nodes[node.name] = node
        self.history.begin(host_of(node.name), node.name, host_usage, self.clock.monotonic())
        self._schedule()

    def remove_node(self, name: str) -> None:
        """Remove a node with the pods on it; their controllers replace them."""
        self._removed_nodes[name] = self._nodes.pop(name)
        self.history.end(host_of(name), self.clock.monotonic())
        gone = self._pods.on_node(name)
        for pod in gone:
            self._remove(pod.ref)
        for owner in dict.fromkeys(pod.owner for pod in gone if pod.owner):
            self._scale(owner)
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
        prototype = template.prototype(namespace, owner, self._priority(template))
        workload = Workload(
            "Deployment", namespace, name, self._new_uid("deploy"), replicas, annotations or {}
        )
        replica_set = self._controllers.add(owner, prototype, workload)
        replica_set.replicas += template.replicas(replicas)
        for replica, node in zip(replica_set.replicas, nodes, strict=False):
            self._create_pod(self._new_name(name), prototype, replica, node)
        self._scale(owner)
        self._schedule()

    def add_pod(self, namespace: str, name: str, template: PodTemplate, node: str = "") -> None:
        """Add a bare pod, bound to `node` if one is given."""
        prototype = template.prototype(namespace, None, self._priority(template))
        self._create_pod(name, prototype, Replica(template.usage), node)
        self._schedule()

    def adopt_pod(self, pod: Pod, replica: Replica, workload: Workload | None = None) -> None:
        """Add a pod that exists elsewhere, such as in a snapshot or in the past.

        `workload` belongs to its controller, which wants one replica more from now on. The
        scheduler places the pod if replacements have taken the room on its node.
        """
        if pod.owner is not None:
            self._controllers.add(pod.owner, pod, workload).replicas.append(replica)
        self._replica_of[pod.uid] = replica
        replica.pods.append(pod.ref)
        node = self._nodes.get(pod.node)
        if node is not None and self._still_fits(pod, node):
            self._put(pod)
            self._note_start(pod)
            self._ref_of[pod.uid] = pod.ref
            self.history.begin(pod.uid, pod.node, replica.usage, self.clock.monotonic())
        else:
            self._put(replace(pod, node="", phase="Pending", ready=False, started_at=None))
            self._schedule()

    def end_replica(self, owner: Owner | None, replica: Replica) -> None:
        """End a replica for ever: its controller wants one less, and its pod is gone at once."""
        if owner is not None and (replica_set := self._controllers.find(owner)):
            replica_set.replicas.remove(replica)
            self._controllers.touch(owner)
            self._controllers.remove_idle(owner, self._pods)
        for ref in replica.pods:
            self._remove(ref)
        self._schedule()

    def revisions_of(self, namespace: str, name: str) -> Sequence[ReplicaSet]:
        """The revisions of a Deployment, the newest last."""
        return self._controllers.of_workload(namespace, name)

    def add_revision(self, before: ReplicaSet) -> ReplicaSet:
        """Add a revision of the same workload that wants no pods yet."""
        uid = self._new_uid("rs")
        owner = Owner("ReplicaSet", uid, uid, "apps/v1")
        labels = {**before.prototype.labels, REVISION_LABEL: owner.uid}
        prototype = replace(before.prototype, owner=owner, labels=labels)
        return self._controllers.add(owner, prototype, before.workload)

    def hand_over(
        self, replica: Replica, before: ReplicaSet, after: ReplicaSet
    ) -> Sequence[PodRef]:
        """Let another revision have a replica; returns the pods that it had until now."""
        there = [ref for ref in replica.pods if self._is_there(ref)]
        before.replicas.remove(replica)
        self._touch(before)
        self.add_replicas(after, [replica])
        return there

    def add_replicas(self, to: ReplicaSet, replicas: Sequence[Replica]) -> None:
        """Let a controller want these replicas, too."""
        to.replicas += replicas
        self._touch(to)
        if to.prototype.owner is not None:
            self._scale(to.prototype.owner)
        self._schedule()

    def retire(self, replica: Replica, of: ReplicaSet) -> None:
        """Let a controller no longer want a replica, whose pods begin to terminate."""
        of.replicas.remove(replica)
        self._touch(of)
        for ref in filter(self._is_there, replica.pods):
            self.delete_pod(ref.namespace, ref.name)

    def restart_pod(self, ref: PodRef) -> None:
        """Let a pod be not Ready for a moment, because its container starts again."""
        pod = self.pod(ref)
        if pod is not None and pod.uid == ref.uid and pod.node:
            self._put(replace(pod, ready=False))
            self.clock.call_later(STARTUP_SECONDS, lambda: self._become_ready(ref))

    def delete_pod(self, namespace: str, name: str) -> None:
        """Begin to terminate a pod."""
        pod = self._pods.find(PodRef(namespace, name))
        if pod is None:
            raise KeyError(name)
        if not pod.deleting:
            self._put(replace(pod, deleting=True))
            self.clock.call_later(pod.grace_period_seconds, lambda: self._end(pod.ref))
        if pod.owner is not None:
            self._scale(pod.owner)
        self._schedule()

    # --- what controllers, kubelets and the scheduler do --------------------------------------

    def _scale(self, owner: Owner) -> None:
        """Create the pods that a controller lacks."""
        replica_set = self._controllers.find(owner)
        if replica_set is None:
            return
        pods = (pod for pod in self._pods.of_owner(owner.uid) if not pod.deleting)
        present = {self._replica_of[pod.uid] for pod in pods}
        for replica in replica_set.replicas:
            if replica not in present:
                workload = replica_set.workload.name if replica_set.workload else owner.name
                name = f"{replica.name}.{len(replica.pods)}" if replica.name else ""
                self._create_pod(
                    name or self._new_name(workload), replica_set.prototype, replica, ""
                )

    def _schedule(self) -> None:
        pending = self._pods.pending()
        for pod in sorted(pending, key=lambda pod: (-pod.priority, pod.created_at, pod.name)):
            node = choose_node(pod, ClusterView(self.read_cluster()), sample=self.sample)
            if node is not None:
                self._bind(pod, node)
            elif not pod.unschedulable:
                self._put(replace(pod, unschedulable=True))

    def _still_fits(self, pod: Pod, node: Node) -> bool:
        """Whether a pod that ran on the node fits there beside replacements from other nodes."""
        there = [other for other in self._pods.on_node(node.name) if not other.finished]
        if all(len(self._replica_of[other.uid].pods) == 1 for other in there):
            return True
        held = [basic(other.scheduling.requests) for other in (*there, pod)]
        free = zip(basic(node.allocatable), map(sum, zip(*held, strict=True)), strict=True)
        return all(amount >= taken for amount, taken in free)

    def _priority(self, template: PodTemplate) -> int:
        name = template.priority_class
        return self.priority_classes[name] if name else 0

    def _create_pod(self, name: str, prototype: Pod, replica: Replica, node: str) -> None:
        # A number could be the uid of a pod that is adopted later, such as one of a simulation.
        adopted = replica.pods[0].uid if replica.name else ""
        pod = replace(
            prototype,
            name=name,
            uid=f"{adopted}.{len(replica.pods)}" if adopted else self._new_uid("pod"),
            created_at=self.clock.now(),
            node="",
            phase="Pending",
            ready=False,
            started_at=None,
        )
        self._replica_of[pod.uid] = replica
        replica.pods.append(pod.ref)
        self._put(pod)
        if node:
            self._bind(pod, node)

    def _bind(self, pod: Pod, node: str) -> None:
        started = replace(pod, node=node, started_at=self.clock.now(), unschedulable=False)
        self._put(started)
        self._note_start(started)
        usage = self._replica_of[pod.uid].usage
        self._ref_of[pod.uid] = pod.ref
        self.history.begin(pod.uid, node, usage, self.clock.monotonic())
        self.clock.call_later(STARTUP_SECONDS, lambda: self._become_ready(pod.ref))

    def _note_start(self, pod: Pod) -> None:
        at = pod.started_at or pod.created_at
        self.newest_start = max(self.newest_start or at, at)

    def _become_ready(self, ref: PodRef) -> None:
        pod = self._pods.find(ref)
        if pod and pod.uid == ref.uid:
            self._put(replace(pod, phase="Running", ready=True))

    def _end(self, ref: PodRef) -> None:
        """A pod has terminated; it may be gone already, with its node."""
        self._remove(ref)
        self._schedule()

    def _is_there(self, ref: PodRef) -> bool:
        pod = self._pods.find(ref)
        return pod is not None and pod.uid == ref.uid and not pod.deleting

    def _touch(self, controller: ReplicaSet) -> None:
        if controller.prototype.owner is not None:
            self._controllers.touch(controller.prototype.owner)

    def _put(self, pod: Pod) -> None:
        self._pods.put(pod)
        if pod.owner is not None:
            self._controllers.touch(pod.owner)

    def _remove(self, ref: PodRef) -> None:
        pod = self._pods.find(ref)
        if pod is None or pod.uid != ref.uid:
            return
        self._pods.remove(pod)
        if pod.owner is not None:
            self._controllers.touch(pod.owner)
            self._controllers.remove_idle(pod.owner, self._pods)
        self.history.end(ref.uid, self.clock.monotonic())

    def _new_uid(self, kind: str) -> str:
        return f"{kind}-{next(self._numbers)}"

    def _new_name(self, workload: str) -> str:
        self._pods_made[workload] += 1
        return f"{workload}-{self._pods_made[workload]}"
