"""Random clusters with objects of every kind, and with texts that no plan may depend on."""

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from desched.gangs.objects import DeclaredGroup, GangObjects
from desched.gangs.pod_groups import VOLCANO_GROUP
from desched.gangs.topology import GroupTopology
from desched.model.cluster import (
    Autoscaler,
    ClusterState,
    CSINode,
    HostPort,
    Node,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodDisruptionBudget,
    PodVolume,
    SchedulingClass,
    Service,
    SpreadConstraint,
    StorageClass,
    Taint,
    Toleration,
    VolumeKind,
    Workload,
)
from desched.model.load import (
    ClusterLoad,
    Level,
    LoadHistory,
    Measured,
    PodUsage,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Amounts, Resource
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.model.state import (
    CoolDown,
    EvictionRecord,
    NodeRounds,
    Pause,
    PauseScope,
    RecentMove,
    State,
)
from desched.network.objects import NetworkObjects, Topology
from desched.policy_file.loading import PolicyText
from tests.builders import GIB, NOW, certain, selector
from tests.properties.random_networks import hyper_nodes

MARK = "hush"
"""Begins every text that a redacted snapshot must not have."""

HIDDEN = "acme"
"""Is part of every name that a snapshot with new names must not have."""

ZONE = "topology.kubernetes.io/zone"
KOORDINATOR = "gang.scheduling.koordinator.sh"

POLICY = PolicyText(
    """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: rich
  pluginConfig:
  - name: LoadAware
    args:
      metrics: {type: prometheus}
      targetThresholds: {cpu: 70, memory: 80}
      thresholds: {cpu: 30, memory: 30}
      windows: {cpu: [5m, 15m], memory: [5m]}
      nodePools:
      - {name: fast, nodeSelector: "disk=fast", targetThresholds: {cpu: 60}}
      labelSelector:
        matchExpressions: [{key: pinned, operator: DoesNotExist}]
      evictableNamespaces: {exclude: [vault]}
      evictionLimits: {total: 20, node: 5, slowStart: false}
      placementDomains: {modes: {topology.kubernetes.io/zone: Prefer}}
  plugins: {balance: {enabled: [LoadAware]}}
""",
    "/home/hush/policy.yaml",
)


PATHS = (*("/etc/localtime",) * 6, "/sys/acme", "/dev/nvidia-acme", "/mnt/acme")

ANNOTATIONS: tuple[dict[str, str], ...] = (
    *(60 * ({},)),
    {"desched.io/evict": f"{HIDDEN} says no"},
    {"karpenter.sh/do-not-disrupt": f"{HIDDEN}-forever"},
    {"karpenter.sh/do-not-disrupt": "false"},
    {"volcano.sh/cooldown-time": HIDDEN},
    {"volcano.sh/cooldown-time": "30s"},
    {"volcano.sh/network-topology-mode": f"{HIDDEN}-hard"},
    {"volcano.sh/jdb-min-available": f"{HIDDEN}-1"},
    {"volcano.sh/jdb-min-available": " 1 "},
    {"kubernetes.io/config.source": HIDDEN},
    {"kubernetes.io/config.source": "api"},
    {"controller.kubernetes.io/pod-deletion-cost": " 1_000 "},
    {"controller.kubernetes.io/pod-deletion-cost": f"1 {HIDDEN}"},
    {"scheduling.koordinator.sh/eviction-cost": "9" * 30},
    {"descheduler.alpha.kubernetes.io/prefer-no-eviction": HIDDEN},
)
"""Texts of people and of tools, with numbers, words and durations that rules read."""


class RichCluster:
    """One cluster for each seed, whose first node is often overloaded."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311  (no secret)
        self._gangs = random.Random(seed)  # noqa: S311  (no secret)
        self._texts = random.Random(seed)  # noqa: S311  (no secret)
        self.nodes = [self._node(i) for i in range(self._chance.randint(4, 8))]
        # New names of namespaces sort between those of the two that keep their names, too.
        self.namespaces = ("ns-acme-shop", "vault", "kube-system", "ns-acme-tools")
        self.workloads: dict[tuple[str, str], Workload] = {}
        self.selectors: dict[tuple[str, str], LabelSelector] = {}
        self.pods: list[Pod] = []
        for i in range(self._chance.randint(4, 8)):
            self._add_workload(i)

    def _often(self, share: float) -> bool:
        return self._chance.random() < share

    def _node(self, i: int) -> Node:
        name = f"acme-node-{i}"
        size = Amounts(self._chance.choice([4000, 8000]), 16 * GIB, 100 * GIB, 110)
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": self._chance.choice(["amd64", "amd64", "arm64"]),
            ZONE: self._chance.choice(["a", "b"]),
            "disk": self._chance.choice(["fast", "slow"]),
            "team": self._chance.choice(["acme-red", "acme-blue"]),
            "cores": str(size.cpu_millicores // 1000),
            f"{MARK}-label": f"{MARK}-{i}",
        }
        taints = (Taint("dedicated", "PreferNoSchedule", "acme-batch"),) if self._often(0.2) else ()
        images = {
            f"{MARK}.example/web:1": 900 * 2**20 if self._often(0.5) else 0,
            f"{MARK}.example/unused:{i}": 2**30,
        }
        return Node(
            name,
            f"uid-{name}",
            NOW - timedelta(days=3) if self._often(0.95) else NOW - timedelta(minutes=3),
            labels,
            size,
            size,
            unschedulable=self._often(0.05),
            taints=taints,
            addresses=(f"10.{MARK}.{i}",),
            images={name: size for name, size in images.items() if size},
        )

    def _add_workload(self, number: int) -> None:
        name = f"acme-w{number}"
        namespace = self.namespaces[self._chance.choice([0, 0, 0, 0, 1, 2, 3, 3])]
        uid, labels = f"uid-{name}", {"app": name, f"{MARK}-pod": f"{MARK}-{name}"}
        replicas = self._chance.randint(1, 6)
        if self._often(0.1):
            labels["pinned"] = "yes"
        if self._often(0.1):
            labels["volcano.sh/preemptable"] = "true"
        workload = Workload(
            self._chance.choice(["Deployment", "Deployment", "StatefulSet"]),
            namespace,
            name,
            uid,
            replicas,
            {"desched.io/evict": "true"} if self._often(0.2) else {},
            ready_replicas=replicas,
            autoscaler=Autoscaler(replicas, replicas, replicas + 1) if self._often(0.1) else None,
            requests_unknown="acme-vpa: startupBoost" if "pinned" in labels else "",
        )
        self.workloads[namespace, uid] = workload
        self.selectors[namespace, uid] = selector(app=name)
        scheduling, volumes = self._scheduling(name), self._volumes(name)
        if self._gangs.random() < 0.1:
            labels[VOLCANO_GROUP] = "acme-gang"
        elif self._gangs.random() < 0.1:
            labels |= {f"{KOORDINATOR}/name": "acme-llama", f"{KOORDINATOR}/min-available": "2"}
        for i in range(replicas):
            self._add_pod(f"{name}-{i}", workload, labels, scheduling, volumes)

    def _scheduling(self, app: str) -> SchedulingClass:
        term = PodAffinityTerm(ZONE, selector(app=app), namespaces=("ns-acme-shop",))
        everywhere = PodAffinityTerm(
            "kubernetes.io/hostname", selector(app=app), namespace_selector=selector(tier="acme-1")
        )
        sized = NodeSelectorTerm((Requirement("cores", Operator.GREATER, ("2",)),))
        here = NodeSelectorTerm(
            (Requirement("team", Operator.IN, ("acme-red", "acme-green")),),
            (Requirement("metadata.name", Operator.NOT_IN, ("acme-node-1",)),),
        )
        millicores, memory = self._chance.choice([100, 500]), self._chance.choice([1, 2]) * GIB // 4
        fields: dict[str, Any] = {}
        for share, more in (
            (0.2, {"node_selector": (("disk", "slow"),)}),
            (0.2, {"required_node_affinity": (sized,)}),
            (0.3, {"preferred_node_affinity": ((50, here),)}),
            (0.2, {"pod_affinity": (term,)}),
            (0.2, {"pod_anti_affinity": (everywhere,)}),
            (
                0.2,
                {
                    "preferred_pod_affinity": (
                        PodAffinityTerm(ZONE, selector(app=app), (), None, -7),
                    )
                },
            ),
            (0.3, {"spread": (SpreadConstraint(ZONE, 2, self._often(0.5), selector(app=app)),)}),
            (0.2, {"host_ports": (HostPort(8080, address="acme-address"),)}),
            (0.2, {"tolerations": (Toleration("dedicated", "Exists"),)}),
            (0.5, {"images": (f"{MARK}.example/web:1",)}),
        ):
            if self._often(share):
                fields |= more
        if self._texts.random() < 0.1:
            fields["tolerations"] = (Toleration("dedicated", value="acme-batch"),)
        if self._texts.random() < 0.05:
            fields["unevaluated"] = ("node affinity Gt acme",)
        return SchedulingClass(
            Amounts(millicores, memory, pods=1),
            scored_cpu_millicores=millicores,
            scored_memory_bytes=memory,
            **fields,
        )

    def _volumes(self, app: str) -> tuple[PodVolume, ...]:
        return self._chance.choice(
            [
                (),
                (),
                (),
                (PodVolume(VolumeKind.CLAIM, f"acme-data-{app}"),),
                (PodVolume(VolumeKind.EMPTY_DIR, in_memory=True),),
                (PodVolume(VolumeKind.HOST_PATH, path=self._texts.choice(PATHS)),),
            ]
        )

    def _add_pod(
        self,
        name: str,
        workload: Workload,
        labels: Mapping[str, str],
        scheduling: SchedulingClass,
        volumes: tuple[PodVolume, ...],
    ) -> None:
        on = self.nodes[0] if self._often(0.35) else self._chance.choice(self.nodes)
        pending = self._often(0.05)
        self.pods.append(
            Pod(
                workload.namespace,
                name,
                f"uid-{name}",
                scheduling,
                NOW - timedelta(hours=2),
                labels,
                {"gang.scheduling.koordinator.sh/min": f"{MARK}-3"}
                if self._often(0.3)
                else self._texts.choice(ANNOTATIONS),
                Owner("ReplicaSet", f"{workload.name}-5d4", workload.uid, "apps/v1"),
                "" if pending else on.name,
                "Pending" if pending else "Running",
                not pending,
                None
                if pending
                else NOW - timedelta(seconds=self._chance.choice([60, *[7000] * 9])),
                priority=self._chance.choice([0, 0, 50]),
                volumes=volumes,
            )
        )

    def _claims(self) -> dict[tuple[str, str], PersistentVolumeClaim]:
        return {
            (pod.namespace, volume.claim): PersistentVolumeClaim(
                pod.namespace, volume.claim, "fast", f"acme-pv-{volume.claim}"
            )
            for pod in self.pods
            for volume in pod.volumes
            if volume.claim
        }

    def snapshot(self) -> Snapshot:
        """The cluster with its load."""
        claims = self._claims()
        zone = NodeSelectorTerm((Requirement(ZONE, Operator.IN, ("a",)),))
        cluster = ClusterState(
            tuple(self.nodes),
            tuple(self.pods),
            self.workloads,
            self.selectors,
            {("ns-acme-tools", "uid-other"): Owner("Rollout", "acme-roll", "uid-roll")},
            frozenset({("Rollout", "ns-acme-tools", "acme-roll")}),
            tuple(
                PodDisruptionBudget(w.namespace, f"acme-pdb-{w.name}", selector(app=w.name), 1)
                for w in self.workloads.values()
                if self._often(0.4)
            ),
            {"high": 1000},
            {
                name: {"tier": "acme-1", f"{MARK}-space": f"{MARK}-{name}"}
                for name in self.namespaces
            },
            claims,
            {
                c.volume: PersistentVolume(
                    c.volume,
                    "fast",
                    (zone,) if self._often(0.3) else None,
                    csi_driver="csi.test",
                    csi_handle=f"{MARK}-vol-{c.volume}",
                    labels={ZONE: "a", f"{MARK}-pv": f"{MARK}-1"},
                )
                for c in claims.values()
            },
            {"fast": StorageClass("fast", "csi.test", topologies=(zone,))},
            {n.name: CSINode(n.name, {"csi.test": 3}) for n in self.nodes if self._often(0.5)},
            (Service("ns-acme-shop", "acme-front", {"app": "acme-w0"}),),
            "v1.36.0",
            self.pods[0].ref if self._often(0.1) else None,
            (NOW, NOW),
            extras={
                **NetworkObjects(
                    hyper_nodes(self._gangs, [n.name for n in self.nodes], "acme-"),
                    (Topology("Kueue", "acme-hall", (ZONE, "team")),)
                    if self._gangs.random() < 0.3
                    else (),
                ).extras,
                **GangObjects((self._declared_group(),)).extras,
            },
            declared_owners={
                ("ns-acme-tools", "uid-roll"): {"desched.io/evict": "true"},
                ("", "uid-wide"): {f"{MARK}-note": MARK},
            },
            unread_kinds={"example.com/PetSet": f"{HIDDEN} may not be read"},
        )
        return Snapshot(cluster, self._load(), NOW, 0.25, -0.125)

    def _declared_group(self) -> DeclaredGroup:
        """What Volcano says about the pods of all workloads with its annotation."""
        topology = GroupTopology(self._gangs.random() < 0.5, self._gangs.choice([None, 2, 3]))
        return DeclaredGroup("Volcano", "ns-acme-shop", "acme-gang", 2, topology=topology)

    def _load(self) -> ClusterLoad:
        used: dict[str, float] = {}
        pods: dict[tuple[str, str], PodUsage] = {}
        for pod in self.pods:
            if pod.node and self._often(0.95):
                cpu = self._chance.uniform(50, 600)
                used[pod.node] = used.get(pod.node, 0.0) + cpu
                pods[pod.namespace, pod.name] = PodUsage(
                    (cpu, cpu * self._chance.uniform(0.9, 1.1)),
                    (self._chance.uniform(0.1, 1) * GIB,),
                )
        loads: dict[str, dict[Resource, Measured | Unknown]] = {}
        history = {}
        for node in self.nodes:
            cpu = min(1.0, (used.get(node.name, 0.0) + 300) / node.capacity.cpu_millicores)
            levels = (Level(300, cpu), Level(900, cpu * self._chance.uniform(0.95, 1.0)))
            known: Measured | Unknown = Measured(levels)
            if self._often(0.03):
                known = Unknown(UnknownReason.ABSENT, f"{HIDDEN} has no data")
            memory = Measured((Level(300, self._chance.uniform(0.1, 0.85)),), (0.9,))
            loads[node.name] = {Resource.CPU: known, Resource.MEMORY: memory}
            points = tuple(cpu if self._often(0.98) else None for _ in range(11))
            history[node.name] = {
                Resource.CPU: LoadHistory(60, points),
                Resource.MEMORY: LoadHistory(60, (0.1,) * 11),
            }
        throttled = frozenset(key for key in pods if self._often(0.1))
        return ClusterLoad(loads, pods, (), 2, history, {}, throttled, (NOW, NOW))

    def state(self) -> State:
        """What earlier cycles left: records of moves, cool-downs and pauses."""
        if self._often(0.3):
            return State()
        workload = self._chance.choice(list(self.workloads.values()))
        pod, node = self._chance.choice(self.pods), self._chance.choice(self.nodes).name
        record = EvictionRecord(
            pod.ref,
            node,
            workload.uid,
            NOW - timedelta(minutes=2),
            certain(node),
            500.0,
            1e8,
            workload=str(workload),
        )
        soon, before = NOW + timedelta(minutes=9), NOW - timedelta(hours=1)
        pause = Pause(
            PauseScope.NAMESPACE, before, soon, "ns-acme-tools", f"{HIDDEN} says so", "bob"
        )
        return State(
            (record,) if self._often(0.3) else (),
            cool_downs=(CoolDown(workload.uid, str(workload), soon),),
            nodes=(NodeRounds(node, 1, before, soon if self._often(0.1) else None),),
            pauses=(pause,) if self._often(0.3) else (),
            moves=(RecentMove(workload.uid, before, pod.uid, str(workload)),),
            most_evictions=10,
        )
