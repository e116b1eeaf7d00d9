"""What the filters say of nodes beside what the real kube-scheduler does, on random clusters.

Victims are bare pods with constraints of every kind among the workloads of a random cluster. Once
a victim is gone (or while it is being deleted), copies of it that are pinned to one node each are
given to the scheduler, one after the other; `FreeCapacity` has to know
beforehand which of them it binds.
"""

import json
import random
from dataclasses import replace
from typing import Any

import msgspec

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.model.cluster import ClusterState, Pod, SchedulingClass
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.planning.placement.free_capacity import FreeCapacity
from tests.builders import free_capacity
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.random_clusters import ZONES, RandomCluster, build, random_cluster

Object = dict[str, Any]

NODES = 9
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.lab"
DEVICE = "lab.io/device"
KEPT = "lab/kept"
"""A finalizer, so that a deleted victim stays on its node."""


def _container(name: str, **requests: str) -> Object:
    requests = {"memory": "64Mi", **requests}
    return {"name": name, "image": "none", "resources": {"requests": requests}}


SIDECAR = _container("proxy", cpu="1500m") | {"restartPolicy": "Always"}
ON_A_DEVICE = {"requests": {DEVICE: "1"}, "limits": {DEVICE: "1"}}
SHAPES: tuple[Object, ...] = (
    {"initContainers": [SIDECAR, _container("migrate", cpu="4")]},
    {"initContainers": [_container("migrate", cpu="2500m", memory="6Gi"), SIDECAR]},
    {"resources": {"requests": {"cpu": "3", "memory": "9Gi"}}},
    {"runtimeClassName": "lab"},
    {"containers": [{"name": "main", "image": "none", "resources": ON_A_DEVICE}]},
    {"containers": [_container("main", **{"ephemeral-storage": "4Gi"})]},
)
"""Of pods that request in other ways than by a container alone."""

RUNTIME: Object = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "lab"},
    "handler": "lab",
    "overhead": {"podFixed": {"cpu": "2", "memory": "5Gi"}},
}


class Trial:
    """One random cluster with its victims."""

    def __init__(self, control_plane: ControlPlane, seed: int) -> None:
        self._control_plane = control_plane
        self._chance = random.Random(f"victims {seed}")  # noqa: S311  reproducible
        cluster = _with_devices(random_cluster(seed, NODES))
        self._nodes = list(cluster.nodes)
        self._namespaces = list(cluster.namespaces)
        build(control_plane, cluster)
        control_plane.apply(RUNTIME)
        cordoned = f"/api/v1/nodes/{self._nodes[-1]}"
        control_plane.request("PATCH", cordoned, {"spec": {"unschedulable": True}})
        control_plane.wait_for_scheduler()
        self._make_volumes()
        self._reader = KubernetesReader(connect(control_plane.admin_kubeconfig, None))
        self.mismatches: list[str] = []
        self.agreed = self.bound = 0

    def probe(self, number: int) -> None:
        """Place a victim, take it away, and compare all nodes."""
        victim = self._victim(number)
        self._create(victim)
        source = self._decision(victim)
        seen = self._reader.read_cluster()
        pod = next(p for p in seen.pods if p.name == victim["metadata"]["name"])
        self._compare_landing(victim, pod, source, free_capacity(seen))
        beside = source is not None and self._chance.random() < 0.4
        self._delete(victim, finally_gone=not beside)
        if source is None:
            return
        for node in self._nodes:
            self._compare(victim, pod, source, node, seen, beside=beside)
        self._finalize(victim)
        del victim["metadata"]["finalizers"]
        self._create(victim)  # the next victims have it as a neighbour
        self._decision(victim)

    def _compare_landing(
        self, victim: Object, pod: Pod, source: str | None, room: FreeCapacity
    ) -> None:
        """Where it is, it could be placed again; and a pod that is refused fits nowhere."""
        places = room.feasible(pod, source) if source else room.schedulable(pod)
        names = [name for name, fits in zip(room.names, places, strict=True) if fits]
        if (source is None and names) or (source is not None and source not in names):
            self.mismatches.append(
                f"the scheduler chose {source}, the filters say {names}: {json.dumps(victim)}"
            )

    def _compare(
        self,
        victim: Object,
        pod: Pod,
        source: str,
        node: str,
        seen: ClusterState,
        *,
        beside: bool,
    ) -> None:
        room = free_capacity(seen)
        pinned = msgspec.structs.replace(pod, scheduling=_pinned_class(pod.scheduling, node))
        feasible = room.feasible_beside if beside else room.feasible
        expected = bool(feasible(pinned, source)[room.arrays.index[node]])
        copy = _pinned_copy(victim, node)
        self._create(copy)
        bound = bool(self._decision(copy))
        if bound == expected:
            self.agreed += 1
            self.bound += bound
        else:
            why = self._control_plane.get(_path(copy))["status"].get("conditions")
            self.mismatches.append(
                f"{node}: the scheduler {'binds' if bound else 'refuses'}, the filters say "
                f"{'yes' if expected else 'no'}; source {source}, beside {beside}\n"
                f"pod: {json.dumps(victim)}\nconditions: {json.dumps(why)}"
            )
        self._delete(copy)

    def _create(self, pod: Object) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        status, answer = self._control_plane.request("POST", path, pod)
        assert status == 201, answer

    def _decision(self, pod: Object) -> str | None:
        """The node to which the scheduler binds the pod, None if it finds none."""

        def decided() -> list[str | None]:
            seen = self._control_plane.get(_path(pod))
            if node := seen["spec"].get("nodeName"):
                return [node]
            conditions = seen["status"].get("conditions") or []
            refused = any(
                c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions
            )
            return [None] if refused else []

        return self._control_plane.wait_for(f"a decision on {pod['metadata']['name']}", decided)[0]

    def _delete(self, pod: Object, *, finally_gone: bool = True) -> None:
        self._control_plane.request("DELETE", _path(pod), {"gracePeriodSeconds": 0})
        if finally_gone:
            self._finalize(pod)

    def _finalize(self, pod: Object) -> None:
        self._control_plane.request("PATCH", _path(pod), {"metadata": {"finalizers": None}})
        self._control_plane.wait_for(
            "the pod to go", lambda: self._control_plane.request("GET", _path(pod))[0] == 404
        )

    def _victim(self, number: int) -> Object:
        chance = self._chance
        labels = {"app": chance.choice("xyz"), "tier": chance.choice(("front", "back"))}
        spec: Object = {
            "containers": [_container("main", cpu=chance.choice(("100m", "500m", "2")))],
            "affinity": self._affinity(labels["app"]),
            "tolerations": chance.choice(
                ([], [{"operator": "Exists"}], [{"key": "dedicated", "operator": "Exists"}])
            ),
            "topologySpreadConstraints": self._spread(labels["app"]),
        }
        spec["containers"][0]["ports"] = self._ports()
        spec |= chance.choice(SHAPES) if chance.random() < 0.5 else {}
        if chance.random() < 0.1:
            spec["nodeSelector"] = {"disk": "ssd"}
        namespace = chance.choice(self._namespaces)
        if chance.random() < 0.3:
            claim = f"claim-{chance.randrange(4)}"
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
            namespace = self._namespaces[0]
        metadata = {
            "name": f"victim-{number}",
            "namespace": namespace,
            "labels": labels,
            "finalizers": [KEPT],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _ports(self) -> list[Object]:
        if self._chance.random() < 0.7:
            return []
        port: Object = {"containerPort": 80, "hostPort": self._chance.choice((8080, 9090))}
        port["protocol"] = self._chance.choice(("TCP", "UDP"))
        port["hostIP"] = self._chance.choice(("", "0.0.0.0", "10.0.0.1", "10.0.0.2"))  # noqa: S104
        return [port]

    def _affinity(self, app: str) -> Object:
        chance = self._chance
        found: Object = {}
        if chance.random() < 0.35:
            found["podAntiAffinity"] = _required([self._term(app) for _ in range(2)])
        if chance.random() < 0.3:
            terms = [self._term(app) for _ in range(chance.choice((1, 1, 2)))]
            found["podAffinity"] = _required(terms)
        if chance.random() < 0.3:
            by_label = {"key": "disk", "operator": chance.choice(("Exists", "DoesNotExist"))}
            by_name = {"key": "metadata.name", "operator": "NotIn", "values": [self._nodes[0]]}
            in_zone = {"key": ZONE, "operator": "In", "values": chance.sample(ZONES, 2)}
            terms = [{"matchExpressions": [by_label], "matchFields": [by_name]}]
            if chance.random() < 0.5:
                terms.append({"matchExpressions": [in_zone]})
            selector = {"nodeSelectorTerms": terms}
            found["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": selector}
        return found

    def _term(self, app: str) -> Object:
        chance = self._chance
        selector = chance.choice(
            (
                {"matchLabels": {"app": app}},
                {"matchLabels": {"app": chance.choice("xyz")}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
                {"matchExpressions": [{"key": "kind", "operator": "DoesNotExist"}]},
                {"matchLabels": {"app": f"w{chance.randrange(6):02}"}},
            )
        )
        term: Object = {
            "labelSelector": selector,
            "topologyKey": chance.choice((HOSTNAME, ZONE, "disk")),
        }
        where = chance.random()
        if where < 0.2:
            term["namespaces"] = [chance.choice(self._namespaces)]
        elif where < 0.3:
            term["namespaceSelector"] = {}
        elif where < 0.5:
            term["namespaceSelector"] = {"matchLabels": {"team": "red"}}
        if chance.random() < 0.2:
            term["matchLabelKeys"] = ["tier"]
        return term

    def _spread(self, app: str) -> list[Object]:
        chance = self._chance
        found = []
        for key in chance.sample((HOSTNAME, ZONE, "disk"), chance.choice((0, 0, 1, 2))):
            constraint: Object = {
                "topologyKey": key,
                "maxSkew": chance.choice((1, 1, 2)),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": chance.choice(({"matchLabels": {"app": app}}, {}, None)),
                # With Honor a pinned copy would see its own node only.
                "nodeAffinityPolicy": chance.choice(("Ignore", "Ignore", "Honor")),
                "nodeTaintsPolicy": chance.choice(("Ignore", "Honor")),
            }
            if chance.random() < 0.3:
                constraint["minDomains"] = chance.choice((2, 4))
            if chance.random() < 0.2 and constraint["labelSelector"] is not None:
                constraint["matchLabelKeys"] = ["tier"]
            found.append(constraint)
        return found

    def _make_volumes(self) -> None:
        """Bound claims that differ in zone label, node affinity and mode, and a low limit."""
        zones = ("a", "b__c", "c", None)
        manifests: list[Object] = [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": DRIVER},
                "spec": {"attachRequired": False},
            }
        ]
        manifests += [
            _csi_node(node, limit) for node, limit in zip(self._nodes, (0, 1, 1, 2), strict=False)
        ]
        for number, zone in enumerate(zones):
            manifests += _bound_claim(self._namespaces[0], number, zone, self._nodes[1:])
        self._control_plane.apply(*manifests)
        path = f"/api/v1/namespaces/{self._namespaces[0]}/persistentvolumeclaims"
        self._control_plane.wait_for(
            "bound claims",
            lambda: all(c["status"]["phase"] == "Bound" for c in self._control_plane.items(path)),
        )


def _with_devices(cluster: RandomCluster) -> RandomCluster:
    """The cluster with room for temporary files on each node, and a device on every other."""
    nodes = {}
    for number, (name, spec) in enumerate(cluster.nodes.items()):
        devices = {} if number % 2 else {DEVICE: "1"}
        nodes[name] = {**spec, "resources": {"ephemeral-storage": "8Gi", **devices}}
    return replace(cluster, nodes=nodes)


def _path(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _required(terms: list[Object]) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _pinned_copy(victim: Object, node: str) -> Object:
    """The victim under another name that may only go to this node."""
    copy: Object = json.loads(json.dumps(victim))
    copy["metadata"]["name"] += f"-on-{node}"
    del copy["metadata"]["finalizers"]
    affinity = copy["spec"]["affinity"].setdefault("nodeAffinity", {})
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = affinity.setdefault(key, {"nodeSelectorTerms": [{}]})["nodeSelectorTerms"]
    for term in terms:
        pin = {"key": "metadata.name", "operator": "In", "values": [node]}
        term.setdefault("matchFields", []).append(pin)
    return copy


def _pinned_class(scheduling: SchedulingClass, node: str) -> SchedulingClass:
    terms = scheduling.required_node_affinity or (NodeSelectorTerm(),)
    pin = Requirement("metadata.name", Operator.IN, (node,))
    return msgspec.structs.replace(
        scheduling,
        required_node_affinity=tuple(
            msgspec.structs.replace(term, fields=(*term.fields, pin)) for term in terms
        ),
    )


def _csi_node(node: str, limit: int) -> Object:
    driver = {"name": DRIVER, "nodeID": node, "allocatable": {"count": limit}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node},
        "spec": {"drivers": [driver]},
    }


def _bound_claim(namespace: str, number: int, zone: str | None, near: list[str]) -> list[Object]:
    name = f"claim-{number}"
    modes = ["ReadWriteMany" if zone else "ReadWriteOncePod"]
    volume: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{name}", "labels": {ZONE: zone} if zone else {}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": modes,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "claimRef": {"namespace": namespace, "name": name},
        },
    }
    if not zone:
        hosts = {"key": HOSTNAME, "operator": "In", "values": near}
        terms = [{"matchExpressions": [hosts]}]
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "storageClassName": "",
            "volumeName": f"{namespace}-{name}",
            "accessModes": modes,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return [volume, claim]
