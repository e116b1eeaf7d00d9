"""Tenants with nothing but rights in namespaces of their own, and the pods that they really run."""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

from desched.model.cluster import MIGRATING_ANNOTATION
from desched.planning.eligibility.annotations import OWN_ANNOTATION
from desched.plugins.virtual_machines.kubevirt import TAKES_OVER
from tests.controlplane.cluster import ControlPlane, UnexpectedAnswerError
from tests.controlplane.manifests import VOLCANO_GROUPS, Object, deployment, pod_spec, usage

POOL = {"pool": "shared"}
"""The label of the nodes on which tenants run pods, beside those of others."""

OPTING_OUT, WIDE = "evil-opting-out", "evil-wide"
AFFINE, TERMS = "evil-affine", "evil-terms"
FAILING = ("evil-failing-1", "evil-failing-2")
RETURNING = ("evil-returning-1", "evil-returning-2")
DEVICES, PENDING, MACHINES = "evil-devices", "evil-pending", "evil-machines"
LABELS, LARGE, GROUPS = "evil-labels", "evil-large", "evil-groups"
_OWNED = (
    *((name,) for name in (OPTING_OUT, WIDE, AFFINE, TERMS, DEVICES, PENDING, MACHINES)),
    *((name,) for name in (LABELS, LARGE, GROUPS)),
    FAILING,
    RETURNING,
)
"""The namespaces of each tenant."""

STANDING = {
    OPTING_OUT: "opt out of moves, and use 2.5 cores each",
    WIDE: "overload their node, and fit nowhere else",
    AFFINE: "have a node affinity of 61 KiB, 15 different ones",
    TERMS: "have 64 terms of anti-affinity, 5 different sets",
    FAILING[0]: "run once, and their replacements never",
    FAILING[1]: "the same in a second namespace",
    RETURNING[0]: "have replacements that are bound to the node that they left",
    RETURNING[1]: "the same in a second namespace",
    DEVICES: "request parts of GPUs, with notes of a scheduler that never ran",
    PENDING: "wait for a volume that nothing provisions, or for no scheduler",
    MACHINES: "claim to be virtual machines that migrate, on no node",
}
"""What the pods of a namespace do all the time."""

GATE = "evil.example/gate"
NEVER = "never-provisioned"
GPUS, VGPUS, VGPU_MEMORY = "nvidia.com/gpu", "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
GPU_POOL = {"gpu": "shared"}
PATCHED, BACK = "patched", "evil-back"

HEAVY = "1200m"
"""Two such pods overload a node, and to move one of them relieves it best."""

FAILING_WORKLOADS = 3
"""So many failures of a namespace pause it."""

AFFINITIES, MOST_TERMS = 15, 64
AFFINITY_BYTES = 61 * 2**10
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_GOOD = frozenset({200, 201, 202, 404, 409})
"""Somebody else, such as a controller, may have been faster."""

_GROUP = VOLCANO_GROUPS["spec"]["group"]
_RBAC = "rbac.authorization.k8s.io"


class Tenant:
    """Whoever may do in his namespaces what their administrators may, and nothing elsewhere."""

    def __init__(self, plane: ControlPlane, *namespaces: str) -> None:
        self._plane = plane
        home = namespaces[0]
        account = {"kind": "ServiceAccount", "name": "tenant", "namespace": home}
        for namespace in namespaces:
            plane.create_namespace(namespace)
            groups: Object = {"apiGroups": [_GROUP], "resources": ["*"], "verbs": ["*"]}
            plane.apply(
                {
                    "apiVersion": f"{_RBAC}/v1",
                    "kind": "Role",
                    "metadata": {"name": "groups", "namespace": namespace},
                    "rules": [groups],
                },
                _binding(namespace, account, "ClusterRole", "admin"),
                _binding(namespace, account, "Role", "groups"),
            )
        metadata = {"name": account["name"], "namespace": home}
        plane.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        self._token = plane.token_for(home, account["name"])

    def asks(self, method: str, path: str, body: object = None, kind: str | None = None) -> Any:
        """What the API server answers; `kind` is that of a patch, such as `json-patch+json`.

        Raises:
            UnexpectedAnswerError: it refuses.
        """
        status, answer = self._plane.request(
            method, path, body, content_type=kind and f"application/{kind}", token=self._token
        )
        if status not in _GOOD:
            raise UnexpectedAnswerError(f"{method} {path}: {status} {str(answer)[:500]}")
        return answer

    def may_not_read(self, path: str) -> bool:
        """Whether his rights do not reach there."""
        return self._plane.request("GET", path, token=self._token)[0] == HTTPStatus.FORBIDDEN

    def creates(self, *manifests: Object) -> None:
        """Each of them in its namespace."""
        for manifest in manifests:
            namespace = manifest["metadata"]["namespace"]
            self.asks("POST", COLLECTIONS[manifest["kind"]].format(namespace), manifest)


class Tenants:
    """All of them, by their namespaces."""

    def __init__(self, plane: ControlPlane) -> None:
        self._by_namespace: dict[str, Tenant] = {}
        for owned in _OWNED:
            self._by_namespace |= dict.fromkeys(owned, Tenant(plane, *owned))
        for tenant in self._by_namespace.values():
            for path in ("/api/v1/nodes", COLLECTIONS["Pod"].format("default")):
                assert tenant.may_not_read(path), path

    def of(self, namespace: str) -> Tenant:
        """Whose it is."""
        return self._by_namespace[namespace]

    def create(self, manifests: Iterable[Object]) -> int:
        """Each by the tenant of its namespace; returns how many pods there will be."""
        pods = 0
        for manifest in manifests:
            self.of(manifest["metadata"]["namespace"]).creates(manifest)
            pods += manifest["spec"].get("replicas", 1)
        return pods

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._by_namespace


COLLECTIONS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "PodGroup": f"/apis/{_GROUP}/v1beta1/namespaces/{{}}/podgroups",
}


def _binding(namespace: str, account: Object, kind: str, role: str) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": namespace},
        "subjects": [account],
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
    }


def real_pods(*, harmful: bool) -> Iterator[Object]:
    """Workloads whose pods run and use the same, whether they are harmful or not."""
    yield _wide(harmful=harmful)
    burn = deployment("evil-burn", 3, "2500m", OPTING_OUT, cpu_request="100m", nodeSelector=POOL)
    if harmful:
        _template(burn)["metadata"]["annotations"][OWN_ANNOTATION] = "false"
    yield burn
    for number in range(AFFINITIES):
        yield _affine(AFFINE, number, node_affinity(number), harmful=harmful)
    for number in range(AFFINITIES // 3):
        yield _affine(TERMS, number, pod_affinity(number), harmful=harmful)
    for namespace in FAILING:
        for number in range(FAILING_WORKLOADS):
            yield _failing(f"evil-fail-{number}", namespace, harmful=harmful)
    for namespace in RETURNING:
        back = deployment(BACK, 2, HEAVY, namespace, cpu_request="100m", nodeSelector=POOL)
        yield {**back, "kind": "ReplicaSet"}
    yield _devices(harmful=harmful)
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": PATCHED, "namespace": LABELS, "annotations": usage("50m")},
        "spec": pod_spec(nodeSelector=POOL),
    }


def _template(workload: Object) -> Any:
    return workload["spec"]["template"]


def _wide(*, harmful: bool) -> Object:
    """Pods that overload their nodes, and that fit nowhere else."""
    request = "4200m" if harmful else "100m"
    return deployment("evil-wide", 2, "2500m", WIDE, cpu_request=request, nodeSelector=POOL)


def _affine(namespace: str, number: int, affinity: Object, *, harmful: bool) -> Object:
    fields: Object = {"cpu_request": "10m", "nodeSelector": POOL}
    if harmful:
        fields["affinity"] = affinity
    return deployment(f"{namespace}-{number}", 4, "20m", namespace, **fields)


def node_affinity(number: int) -> Object:
    """For nodes with a label that is none of many values, different for each number."""
    values = [f"zone-{number}-{value:04}" for value in range(AFFINITY_BYTES // 17)]
    terms = [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": values}]}]
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}


def pod_affinity(number: int) -> Object:
    """Against pods that do not exist, different for each number."""
    terms = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": f"none-{number}-{term}"}},
        }
        for term in range(MOST_TERMS)
    ]
    return {"podAntiAffinity": {_REQUIRED: terms}}


def _failing(name: str, namespace: str, *, harmful: bool) -> Object:
    """With a gate, which the tenant removes from the first pods: replacements never run."""
    gated: Object = {"schedulingGates": [{"name": GATE}]} if harmful else {}
    return deployment(name, 2, HEAVY, namespace, cpu_request="100m", nodeSelector=POOL, **gated)


def _devices(*, harmful: bool) -> Object:
    """Parts of GPUs that fit by their sum alone, with notes of a scheduler that never ran."""
    found = deployment(
        "evil-devices", 2, "300m", DEVICES, cpu_request="100m", nodeSelector=GPU_POOL
    )
    if harmful:
        (container,) = _template(found)["spec"]["containers"]
        container["resources"]["limits"] = {VGPUS: "1", VGPU_MEMORY: "60000"}
        notes = {
            f"volcano.sh/vgpu-{kind}": "GPU-0,NVIDIA,60000,0:;" * 2_000 for kind in ("ids-new",)
        }
        _template(found)["metadata"]["annotations"] |= notes
    return found


def pending_pods() -> Iterator[Object]:
    """Pods that never run: for want of a volume, of a scheduler, and of a virtual machine."""
    waiting = deployment("evil-claim", 40, "0", PENDING, cpu_request="900m")
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": NEVER,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    more = {
        "serviceName": "none",
        "podManagementPolicy": "Parallel",
        "volumeClaimTemplates": [claim],
    }
    yield {**waiting, "kind": "StatefulSet", "spec": {**waiting["spec"], **more}}
    yield deployment("evil-nobody", 20, "0", PENDING, cpu_request="500m", schedulerName="nobody")
    machines = deployment("evil-machine", 10, "0", MACHINES, nodeSelector={"no": "node"})
    metadata = _template(machines)["metadata"]
    metadata["labels"] |= {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "evil"}
    metadata["annotations"] |= {TAKES_OVER: "", MIGRATING_ANNOTATION: "kubevirt"}
    yield machines


def storage_class() -> Object:
    """Volumes that come with the first pod, or never: nothing provisions them."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": NEVER},
        "provisioner": "nobody.example/none",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
