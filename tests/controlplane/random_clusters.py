"""Seeded random clusters on the real control plane, for tests that compare with the scheduler.

`random_cluster(seed)` is a value (nodes and manifests); `build` makes it real and waits until the
scheduler has placed every pod that it can.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.controlplane.cluster import ControlPlane, UnexpectedAnswerError

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
ZONES = ("a", "b", "c")
TEAMS = ("red", "blue")
SOFT_TAINT = {"key": "batch", "value": "old", "effect": "PreferNoSchedule"}
HARD_TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
TOLERATIONS = (
    {"key": "batch", "operator": "Exists", "effect": "PreferNoSchedule"},
    {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
)

# Cores and GiB of a node; the first is that of homogeneous clusters.
SHAPES = ((8, 32), (4, 16), (4, 32), (16, 64), (8, 24), (16, 48))
REQUESTS: tuple[Mapping[str, str], ...] = (
    {},
    {"cpu": "100m"},
    {"memory": "256Mi"},
    {"cpu": "50m", "memory": "64Mi"},
    {"cpu": "250m", "memory": "512Mi"},
    {"cpu": "500m", "memory": "700Mi"},
    {"cpu": "1", "memory": "1Gi"},
    {"cpu": "333m", "memory": "3Gi"},
    {"cpu": "1500m", "memory": "2Gi", "ephemeral-storage": "1Gi"},
)
COLLECTIONS = {
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{namespace}/statefulsets",
    "Service": "/api/v1/namespaces/{namespace}/services",
}

LINGERS = {"desched.test/linger": ""}
"""Pods end as real ones do: they hold their requests for the grace period."""

SETTLE_SECONDS = 180.0
SHARE_REQUESTED = 0.55
"""Of all cores, so that most pods have a choice of nodes."""


@dataclass(frozen=True)
class RandomCluster:
    """What to create: keyword arguments of `ControlPlane.add_node` by node, and manifests."""

    nodes: Mapping[str, Object]
    namespaces: Mapping[str, Mapping[str, str]]
    manifests: tuple[Object, ...]


def random_cluster(
    seed: int, nodes: int = 20, *, homogeneous: bool = False, zones: bool | None = None
) -> RandomCluster:
    """The cluster of this seed; `zones` None lets chance decide whether nodes have a zone."""
    chance = random.Random(f"cluster {seed} {nodes} {homogeneous}")  # noqa: S311  reproducible
    zoned = chance.random() < 0.6 if zones is None else zones
    tainted = chance.random() < 0.5
    specs = {
        f"n{index:03}": _node(chance, index, homogeneous=homogeneous, zoned=zoned, tainted=tainted)
        for index in range(nodes)
    }
    cores = sum(int(spec["cpu"]) for spec in specs.values())
    namespaces = {f"c{seed}-{team}": {"team": team} for team in TEAMS}
    manifests: list[Object] = []
    requested = 0.0
    number = 0
    while requested < SHARE_REQUESTED * cores:
        namespace = chance.choice(list(namespaces))
        workload, cores_of_it = _workload(chance, f"w{number:02}", namespace, number)
        manifests.append(workload)
        requested += cores_of_it
        if chance.random() < 0.5:
            manifests.append(_service(workload, wide=chance.random() < 0.2))
        number += 1
    return RandomCluster(specs, namespaces, tuple(manifests))


def build(control_plane: ControlPlane, cluster: RandomCluster) -> None:
    """Make it real, and drop replicas that fit nowhere, for they would compete for every room."""
    for namespace, labels in cluster.namespaces.items():
        control_plane.create_namespace(namespace, labels)
    for spec, names in _alike(cluster.nodes):
        control_plane.add_node(*names, **spec)
    for manifest in cluster.manifests:
        _create(control_plane, manifest)
    settle(control_plane, cluster)


def _create(control_plane: ControlPlane, manifest: Object) -> None:
    """One request, for kubectl takes a minute for hundreds of objects."""
    namespace = manifest["metadata"]["namespace"]
    path = COLLECTIONS[manifest["kind"]].format(namespace=namespace)
    status, answer = control_plane.request("POST", path, manifest)
    if status != 201:
        raise UnexpectedAnswerError(f"POST {path}: {answer}")


def settle(control_plane: ControlPlane, cluster: RandomCluster) -> None:
    """Wait until every wanted pod is bound, and scale down what the scheduler cannot place."""
    wanted = sum(m["spec"].get("replicas", 0) for m in cluster.manifests)

    def decided() -> bool:
        pods = pods_of(control_plane, cluster)
        return len(pods) >= wanted and all(_is_bound(p) or _is_refused(p) for p in pods)

    control_plane.wait_for("the scheduler's decision on every pod", decided, SETTLE_SECONDS)
    while stuck := [p for p in pods_of(control_plane, cluster) if not _is_bound(p)]:
        _scale_down(control_plane, stuck)
        control_plane.wait_for(
            "stuck pods to go", lambda: _are_settled(control_plane, cluster, stuck)
        )


def pods_of(control_plane: ControlPlane, cluster: RandomCluster) -> list[Object]:
    """All pods of the cluster's namespaces."""
    return [p for namespace in cluster.namespaces for p in control_plane.pods(namespace)]


def _is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") == "Running"


def _is_refused(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


def _are_settled(control_plane: ControlPlane, cluster: RandomCluster, stuck: list[Object]) -> bool:
    """Gone, or bound after all: then its controller has given up another pod in its place."""
    uids = {pod["metadata"]["uid"] for pod in stuck}
    return not any(
        (pod["metadata"]["uid"] in uids and not _is_bound(pod))
        or "deletionTimestamp" in pod["metadata"]
        for pod in pods_of(control_plane, cluster)
    )


def _scale_down(control_plane: ControlPlane, stuck: list[Object]) -> None:
    """ReplicaSets lose the pods that have no node first, StatefulSets their last (pending) one."""
    counts = Counter(
        (
            p["metadata"]["namespace"],
            p["metadata"]["labels"]["kind"],
            p["metadata"]["labels"]["app"],
        )
        for p in stuck
    )
    for (namespace, kind, name), count in counts.items():
        path = f"{COLLECTIONS[kind].format(namespace=namespace)}/{name}"
        replicas = control_plane.get(path)["spec"]["replicas"] - count
        control_plane.request("PATCH", path, {"spec": {"replicas": replicas}})


def _alike(nodes: Mapping[str, Object]) -> Iterator[tuple[Object, list[str]]]:
    """Runs of neighbours of one shape, so that nodes are created in order with few waits."""
    names: list[str] = []
    before: Object = {}
    for name, spec in nodes.items():
        if names and spec != before:
            yield before, names
            names = []
        names.append(name)
        before = spec
    yield before, names


def _node(
    chance: random.Random, index: int, *, homogeneous: bool, zoned: bool, tainted: bool
) -> Object:
    cores, gibibytes = SHAPES[0] if homogeneous else chance.choice(SHAPES)
    labels = {"disk": "ssd"} if chance.random() < 0.4 else {}
    if zoned and (homogeneous or chance.random() < 0.95):
        labels["topology.kubernetes.io/zone"] = ZONES[index % len(ZONES)]
    taints: list[Mapping[str, str]] = []
    if tainted and chance.random() < 0.2:
        taints.append(SOFT_TAINT)
    if not homogeneous and chance.random() < 0.1:
        taints.append(HARD_TAINT)
    return {"cpu": str(cores), "memory": f"{gibibytes}Gi", "labels": labels, "taints": taints}


def _workload(
    chance: random.Random, name: str, namespace: str, number: int
) -> tuple[Object, float]:
    """A workload and the cores that it will take, as the scores count them."""
    kind = "StatefulSet" if chance.random() < 0.12 else "Deployment"
    replicas = chance.randint(2, 15)
    containers: list[Object] = [
        {"name": f"c{i}", "image": f"none/{name}", "resources": {"requests": dict(requests)}}
        for i, requests in enumerate(chance.choices(REQUESTS, k=chance.choice((1, 1, 1, 2))))
    ]
    pod: Object = {"containers": containers, "terminationGracePeriodSeconds": 30}
    tier = chance.choice(("front", "back"))
    labels = {"app": name, "tier": tier, "kind": kind}
    pod |= _constraints(chance, name, number)
    if chance.random() < 0.06:
        replicas = min(replicas, 5)
        containers[0]["ports"] = [{"containerPort": 80, "hostPort": chance.choice((8080, 9090))}]
    workload: Object = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels, "annotations": LINGERS}, "spec": pod},
        },
    }
    if kind == "StatefulSet":
        workload["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return workload, replicas * sum(_cores(c["resources"]["requests"]) for c in containers)


def _cores(requests: Mapping[str, str]) -> float:
    text = requests.get("cpu", "100m")
    return int(text[:-1]) / 1000 if text.endswith("m") else float(text)


def _constraints(chance: random.Random, name: str, number: int) -> Object:
    """Preferences and conditions of every kind, each of them rare."""
    found: Object = {}
    if chance.random() < 0.2:
        found["tolerations"] = [dict(t) for t in chance.sample(TOLERATIONS, chance.randint(1, 2))]
    if chance.random() < 0.08:
        found["nodeSelector"] = {"disk": "ssd"}
    if affinity := _affinity(chance, name, number):
        found["affinity"] = affinity
    if chance.random() < 0.2:
        found["topologySpreadConstraints"] = _spread(chance, name)
    return found


def _affinity(chance: random.Random, name: str, number: int) -> Object:
    affinity: Object = {}
    if chance.random() < 0.15:
        affinity["nodeAffinity"] = _node_affinity(chance)
    if chance.random() < 0.25:
        kind = chance.choice(("podAffinity", "podAntiAffinity"))
        affinity[kind] = _preferred_pods(chance, name, number)
    if chance.random() < 0.1:
        affinity.setdefault("podAntiAffinity", {}).update(_required([_pod_term(name, HOSTNAME)]))
    elif number and chance.random() < 0.06:
        other = f"w{chance.randrange(number):02}"
        affinity.setdefault("podAffinity", {}).update(_required([_pod_term(other, HOSTNAME)]))
    return affinity


def _required(terms: object) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _pod_term(app: str, topology_key: str) -> Object:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology_key}


def _node_affinity(chance: random.Random) -> Object:
    def expression() -> Object:
        return chance.choice(
            (
                {"key": "disk", "operator": "In", "values": ["ssd"]},
                {"key": "disk", "operator": "DoesNotExist"},
                {"key": ZONE, "operator": "In", "values": chance.sample(ZONES, 2)},
            )
        )

    found: Object = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": chance.choice((1, 10, 50, 100)),
                "preference": {"matchExpressions": [expression()]},
            }
            for _ in range(chance.randint(1, 2))
        ]
    }
    if chance.random() < 0.2:
        fields = [{"key": "metadata.name", "operator": "NotIn", "values": ["n000"]}]
        found |= _required({"nodeSelectorTerms": [{"matchFields": fields}]})
    return found


def _preferred_pods(chance: random.Random, name: str, number: int) -> Object:
    """Of itself, of another workload, or of a tier, here or in namespaces that a label selects."""
    terms = []
    for _ in range(chance.randint(1, 2)):
        other = f"w{chance.randrange(number + 1):02}"
        term = _pod_term(chance.choice((name, other)), chance.choice((HOSTNAME, HOSTNAME, ZONE)))
        if chance.random() < 0.4:
            tier = chance.choice(("front", "back"))
            term["labelSelector"] = {
                "matchExpressions": [{"key": "tier", "operator": "In", "values": [tier]}]
            }
        if chance.random() < 0.3:
            term["namespaceSelector"] = {"matchLabels": {"team": chance.choice(TEAMS)}}
        terms.append({"weight": chance.choice((1, 20, 100)), "podAffinityTerm": term})
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}


def _spread(chance: random.Random, name: str) -> list[Object]:
    constraints = []
    for key in chance.sample((HOSTNAME, ZONE), chance.choice((1, 1, 2))):
        hard = chance.random() < 0.35
        constraint: Object = {
            "topologyKey": key,
            "maxSkew": chance.randint(1, 3),
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": name}},
        }
        if hard and key == ZONE and chance.random() < 0.3:
            constraint["minDomains"] = 2
        if chance.random() < 0.2:
            constraint["nodeTaintsPolicy"] = "Honor"
        if chance.random() < 0.2:
            constraint["nodeAffinityPolicy"] = "Ignore"
        if chance.random() < 0.2:
            constraint["matchLabelKeys"] = ["tier"]
        constraints.append(constraint)
    return constraints


def _service(workload: Object, *, wide: bool) -> Object:
    """In front of one workload, or of a whole tier."""
    labels = workload["spec"]["template"]["metadata"]["labels"]
    selector = {"tier": labels["tier"]} if wide else {"app": labels["app"]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": dict(workload["metadata"]),
        "spec": {"selector": selector, "ports": [{"port": 80}]},
    }
