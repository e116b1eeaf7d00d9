"""A random cluster of any size, as the JSON objects that an API server lists."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

GIB = 2**30
NODE_CORES = 32
NODE_MEMORY_GIB = 128
STARTED = "2026-01-10T08:00:00Z"
REPLICAS = 20
NAMESPACES = 40

Object = dict[str, Any]


@dataclass(frozen=True)
class SyntheticCluster:
    """A cluster in which `overloaded_share` of the nodes use more than 80 % of their CPU.

    Unless `fits`, every pod requests so much that no other node has room for it.
    """

    node_count: int
    pods_per_node: int = 30
    overloaded_share: float = 0.1
    fits: bool = True
    seed: int = 1
    cores: int = NODE_CORES
    pod_cores: list[float] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        overloaded = set(
            chance.sample(range(self.node_count), round(self.node_count * self.overloaded_share))
        )
        for i in range(self.node_count):
            busy = chance.uniform(0.82, 0.95) if i in overloaded else chance.uniform(0.2, 0.6)
            shares = [chance.uniform(0.2, 1.8) for _ in range(self.pods_per_node)]
            scale = busy * self.cores * 0.97 / sum(shares)
            self.pod_cores.extend(share * scale for share in shares)

    @property
    def pod_count(self) -> int:
        """The number of pods."""
        return self.node_count * self.pods_per_node

    def node_busy(self, index: int) -> float:
        """The CPU load of a node, 0 to 1: its pods, and 3 % for the host itself."""
        first = index * self.pods_per_node
        return sum(self.pod_cores[first : first + self.pods_per_node]) / self.cores / 0.97

    def pod_memory_bytes(self, index: int) -> int:
        """The working set of a pod."""
        return GIB + index % 7 * GIB // 4

    def pod_name(self, index: int) -> str:
        """The name of a pod, as ReplicaSets form it."""
        return f"app-{self.workload(index)}-7d9f8b6c5d-{index:05x}"

    def pod_namespace(self, index: int) -> str:
        """The namespace of a pod."""
        return f"team-{self.workload(index) % NAMESPACES}"

    def workload(self, index: int) -> int:
        """The number of the pod's workload; its replicas are spread over the nodes."""
        return index % max(1, self.pod_count // REPLICAS)

    def nodes(self) -> Iterator[Object]:
        """Node objects."""
        size = {
            "cpu": str(self.cores),
            "memory": f"{NODE_MEMORY_GIB}Gi",
            "pods": "110",
            "ephemeral-storage": "500Gi",
        }
        for i in range(self.node_count):
            name = f"node-{i:05d}"
            yield {
                "metadata": {
                    "name": name,
                    "uid": f"node-uid-{i}",
                    "creationTimestamp": STARTED,
                    "labels": {
                        "kubernetes.io/hostname": name,
                        "kubernetes.io/os": "linux",
                        "kubernetes.io/arch": "amd64",
                        "topology.kubernetes.io/zone": f"zone-{i % 3}",
                        "node.kubernetes.io/instance-type": "standard-32",
                    },
                },
                "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud://{name}"},
                "status": {
                    "capacity": size,
                    "allocatable": size,
                    "conditions": [
                        {"type": kind, "status": status, "lastHeartbeatTime": STARTED}
                        for kind, status in (("MemoryPressure", "False"), ("Ready", "True"))
                    ],
                    "addresses": [
                        {"type": "InternalIP", "address": self.node_address(i)},
                        {"type": "Hostname", "address": name},
                    ],
                    "nodeInfo": {"operatingSystem": "linux", "kubeletVersion": "v1.36.3"},
                },
            }

    def node_address(self, index: int) -> str:
        """A node's internal address."""
        return f"10.{index // 65536}.{index // 256 % 256}.{index % 256}"

    def pods(self) -> Iterator[Object]:
        """Pod objects with all the fields of real ones, needed or not."""
        for i in range(self.pod_count):
            yield self.pod(i)

    def pod(self, index: int) -> Object:
        """One pod of a Deployment's ReplicaSet."""
        return {
            "metadata": self._pod_metadata(index),
            "spec": self._pod_spec(index),
            "status": self._pod_status(index),
        }

    def _pod_metadata(self, index: int) -> Object:
        app = self.workload(index)
        return {
            "name": self.pod_name(index),
            "generateName": f"app-{app}-7d9f8b6c5d-",
            "namespace": self.pod_namespace(index),
            "uid": f"pod-uid-{index}",
            "resourceVersion": str(1_000_000 + index),
            "creationTimestamp": STARTED,
            "labels": {
                "app.kubernetes.io/name": f"app-{app}",
                "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": "7d9f8b6c5d",
            },
            "annotations": {
                "prometheus.io/scrape": "true",
                "checksum/config": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba87",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"app-{app}-7d9f8b6c5d",
                    "uid": f"rs-uid-{app}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": STARTED,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                        "f:spec": {"f:containers": {'k:{"name":"app"}': {"f:image": {}}}},
                    },
                }
            ],
        }

    def _pod_spec(self, index: int) -> Object:
        app, token = self.workload(index), f"kube-api-access-{index:05x}"
        return {
            "nodeName": f"node-{index // self.pods_per_node:05d}",
            "serviceAccountName": "default",
            "schedulerName": "default-scheduler",
            "priority": index % 3 * 100,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {
                                        "key": "kubernetes.io/arch",
                                        "operator": "In",
                                        "values": ["amd64"],
                                    }
                                ]
                            }
                        ]
                    }
                }
            },
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for what in ("not-ready", "unreachable")
            ],
            "containers": [self._container(app, token)],
            "volumes": [
                {"name": "config", "configMap": {"name": f"app-{app}", "defaultMode": 420}},
                {
                    "name": token,
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "t"}}
                        ],
                        "defaultMode": 420,
                    },
                },
            ],
        }

    def _container(self, app: int, token: str) -> Object:
        cpu = f"{self.cores * 1000 // 64}m" if self.fits else f"{self.cores}"
        return {
            "name": "app",
            "image": f"registry.example/shop/app-{app}:1.4.2",
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(8)],
            "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/app"},
                {
                    "name": token,
                    "readOnly": True,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                },
            ],
            "livenessProbe": {
                "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
                "periodSeconds": 10,
                "failureThreshold": 3,
            },
            "terminationMessagePath": "/dev/termination-log",
            "imagePullPolicy": "IfNotPresent",
        }

    def _pod_status(self, index: int) -> Object:
        app = self.workload(index)
        return {
            "phase": "Running",
            "qosClass": "Burstable",
            "startTime": STARTED,
            "hostIP": self.node_address(index // self.pods_per_node),
            "podIP": f"10.{100 + index // 65536}.{index // 256 % 256}.{index % 256}",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": STARTED}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [
                {
                    "name": "app",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": STARTED}},
                    "image": f"registry.example/shop/app-{app}:1.4.2",
                    "containerID": f"containerd://{index:064x}",
                }
            ],
        }

    def replica_sets(self) -> Iterator[Object]:
        """The ReplicaSet of each workload."""
        for app in range(max(1, self.pod_count // REPLICAS)):
            owner = {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": f"app-{app}",
                "uid": f"deploy-uid-{app}",
                "controller": True,
            }
            yield {
                "metadata": {
                    "name": f"app-{app}-7d9f8b6c5d",
                    "namespace": f"team-{app % NAMESPACES}",
                    "uid": f"rs-uid-{app}",
                    "ownerReferences": [owner],
                },
                "spec": {
                    "replicas": REPLICAS,
                    "selector": {
                        "matchLabels": {
                            "app.kubernetes.io/name": f"app-{app}",
                            "pod-template-hash": "7d9f8b6c5d",
                        }
                    },
                },
                "status": {"replicas": REPLICAS, "readyReplicas": REPLICAS},
            }

    def deployments(self) -> Iterator[Object]:
        """The Deployment of each workload."""
        for app in range(max(1, self.pod_count // REPLICAS)):
            yield {
                "metadata": {
                    "name": f"app-{app}",
                    "namespace": f"team-{app % NAMESPACES}",
                    "uid": f"deploy-uid-{app}",
                    "generation": 1,
                },
                "spec": {"replicas": REPLICAS},
                "status": {
                    "observedGeneration": 1,
                    "replicas": REPLICAS,
                    "updatedReplicas": REPLICAS,
                    "readyReplicas": REPLICAS,
                    "availableReplicas": REPLICAS,
                },
            }
