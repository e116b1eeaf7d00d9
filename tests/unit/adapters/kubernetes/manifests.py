"""Objects as an API server lists them, with the defaults that it fills in."""

import json
from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]

CREATED = "2026-01-10T08:00:00Z"


def built(kind: Any, documents: Iterable[Object]) -> list[Any]:
    """The values of these objects."""
    return [kind.decoder().one(json.dumps(document).encode()) for document in documents]


def metadata(name: str, namespace: str = "shop", **more: Any) -> Object:
    found: Object = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED}
    return found | ({"namespace": namespace} if namespace else {}) | more


def owner(kind: str, name: str, *, controller: bool = True) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": f"uid-{name}",
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def pod(name: str = "web-1", /, **spec: Any) -> Object:
    """A Running and Ready pod of the Deployment `web`; `spec` overrides single fields."""
    return {
        "metadata": metadata(
            name,
            generateName="web-5d4-",
            resourceVersion="12",
            labels={"app": "web", "pod-template-hash": "5d4"},
            annotations={
                "checksum/config": "4f53",
                "controller.kubernetes.io/pod-deletion-cost": "7",
            },
            ownerReferences=[owner("ReplicaSet", "web-5d4")],
            managedFields=[{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
        ),
        "spec": {
            "nodeName": "te1",
            "schedulerName": "default-scheduler",
            "priority": 100,
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            ],
            "containers": [
                {
                    "name": "app",
                    "image": "registry.example/web:1",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                    "volumeMounts": [{"name": "kube-api-access-x1", "mountPath": "/var/run"}],
                }
            ],
            "volumes": [{"name": "kube-api-access-x1", "projected": {"sources": []}}],
            **spec,
        },
        "status": {
            "phase": "Running",
            "qosClass": "Burstable",
            "startTime": CREATED,
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": CREATED},
                {"type": "Ready", "status": "True", "lastTransitionTime": CREATED},
            ],
            "containerStatuses": [
                {
                    "name": "app",
                    "ready": True,
                    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                    "allocatedResources": {"cpu": "500m", "memory": "1Gi"},
                }
            ],
        },
    }


def node(name: str = "te1") -> Object:
    size = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {
        "metadata": metadata(name, "", labels={"kubernetes.io/os": "linux"}),
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": size,
            "allocatable": size | {"cpu": "3920m"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True"},
            ],
            "addresses": [
                {"type": "InternalIP", "address": "10.0.0.7"},
                {"type": "Hostname", "address": name},
                {"type": "ExternalDNS", "address": "te1.example"},
            ],
            "nodeInfo": {"operatingSystem": "linux"},
            "images": [
                {
                    "names": ["registry.example/web@sha256:4f53", "registry.example/web:1"],
                    "sizeBytes": 120_000_000,
                }
            ],
        },
    }


def deployment(name: str = "web", **status: int) -> Object:
    return {
        "metadata": metadata(name, generation=3, annotations={"volcano.sh/preemptable": "true"}),
        "spec": {"replicas": 3},
        "status": {
            "observedGeneration": 3,
            "replicas": 3,
            "updatedReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            **status,
        },
    }


def replica_set(name: str = "web-5d4", owned_by: Object | None = None) -> Object:
    owners: Object = {"ownerReferences": [owned_by]} if owned_by is not None else {}
    return {
        "metadata": metadata(name, generation=1, **owners),
        "spec": {"replicas": 3, "selector": {"matchLabels": {"pod-template-hash": "5d4"}}},
        "status": {"observedGeneration": 1, "replicas": 3, "readyReplicas": 3},
    }


def stateful_set(
    name: str = "db", strategy: Object | None = None, /, **status: int | str
) -> Object:
    return {
        "metadata": metadata(name, generation=2),
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": strategy or {"type": "RollingUpdate"},
        },
        "status": {
            "observedGeneration": 2,
            "replicas": 3,
            "readyReplicas": 3,
            "updatedReplicas": 3,
            "currentRevision": "db-1",
            "updateRevision": "db-1",
            **status,
        },
    }


def job(name: str = "sums", owned_by: Object | None = None, **spec: Any) -> Object:
    owners: Object = {"ownerReferences": [owned_by]} if owned_by is not None else {}
    return {
        "metadata": metadata(name, generation=1, **owners),
        "spec": {"parallelism": 4, "completions": 8, **spec},
        "status": {"active": 4, "ready": 3},
    }


def autoscaler(current: int | None, desired: int | None, **spec: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "metadata": metadata("web"),
        "spec": {"scaleTargetRef": target, "maxReplicas": 9, **spec},
        "status": {"currentReplicas": current, "desiredReplicas": desired},
    }


def vertical_autoscaler(
    *recommendations: Object, kind: str = "Deployment", target: str = "web", **spec: Any
) -> Object:
    """One with these recommendations for containers; a key of `spec` that is None is left out."""
    whole = {"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target}, **spec}
    return {
        "metadata": metadata("web"),
        "spec": {key: value for key, value in whole.items() if value is not None},
        "status": {
            "conditions": [{"type": "RecommendationProvided", "status": "True"}],
            "recommendation": {"containerRecommendations": list(recommendations)},
        },
    }


def recommended(container: str = "app", **target: str | int) -> Object:
    """The recommendation for a container, as the recommender writes it."""
    bounds = {"lowerBound": {"cpu": "1m"}, "upperBound": {"cpu": "90"}, "uncappedTarget": target}
    return {"containerName": container, "target": target, **bounds}


def budget(selector: Object | None, **status: int) -> Object:
    return {
        "metadata": metadata("web", generation=1),
        "spec": {"minAvailable": 1} | ({"selector": selector} if selector is not None else {}),
        "status": {"disruptionsAllowed": 2, "observedGeneration": 1, **status},
    }
