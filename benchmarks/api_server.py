"""A real API server with a synthetic cluster, and what it needs of the processor."""

import base64
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.synthetic import Object, SyntheticCluster
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import Server

PUTS_PER_REQUEST = 100
IDLE_SECONDS, IDLE_CPU_SECONDS = 2.0, 0.2
NAMESPACES = ("default", "desched-system")


class ApiServer(ControlPlane):
    """Etcd and the API server alone: controllers would change the synthetic objects."""

    def _start(self) -> None:
        self._servers: dict[str, Server] = {}
        self._start_etcd()
        self._start_api_server()

    def _serve(self, binary: str, *arguments: str | Path, **variables: str) -> Server:
        every_cpu = {"GOMAXPROCS": str(os.cpu_count()), **variables}
        self._servers[binary] = server = super()._serve(binary, *arguments, **every_cpu)
        return server

    def fill(self, cluster: SyntheticCluster) -> None:
        """Put all objects into etcd, past validation and admission, which would take minutes."""
        puts: list[Object] = []
        for key, value in _stored(cluster):
            puts.append({"requestPut": {"key": _encoded(key.encode()), "value": _encoded(value)}})
            if len(puts) == PUTS_PER_REQUEST:
                self._put(puts)
                puts.clear()
        self._put(puts)
        for name in NAMESPACES:
            self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def _put(self, puts: list[Object]) -> None:
        url = f"http://127.0.0.1:{self._etcd_port}/v3/kv/txn"
        answer = self._plain_http.request("POST", url, json={"success": puts})
        assert answer.status == 200, answer.data

    def wait_until_idle(self) -> None:
        """Until it has read into its cache what was put into etcd."""
        before = -math.inf
        while self.cpu_seconds - before > IDLE_CPU_SECONDS:
            before = self.cpu_seconds
            time.sleep(IDLE_SECONDS)

    @property
    def cpu_seconds(self) -> float:
        """The CPU that the API server and etcd have used."""
        return sum(cpu_seconds(server.pid) for server in self._servers.values())

    def change_pods(self, cluster: SyntheticCluster, pods: range) -> None:
        """Change a label of these pods, as a controller might."""
        for index in pods:
            i = index % cluster.pod_count
            path = f"/api/v1/namespaces/{cluster.pod_namespace(i)}/pods/{cluster.pod_name(i)}"
            self._change(path, {"metadata": {"labels": {"changed": str(index)}}})

    def change_node(self, name: str, at: str) -> None:
        """Renew the status of a node, as its kubelet does every five minutes."""
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": at}
        self._change(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [condition]}})

    def _change(self, path: str, body: Object) -> None:
        status, answer = self.request("PATCH", path, body)
        assert status == 200, answer


def cpu_seconds(pid: int) -> float:
    """The CPU that a process has used, user and system time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    """The largest memory that a process has had so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def _stored(cluster: SyntheticCluster) -> Iterator[tuple[str, bytes]]:
    """Keys and values of etcd."""
    for kind, version, folder, objects in (
        ("Node", "v1", "minions", cluster.nodes()),
        ("Namespace", "v1", "namespaces", _namespaces(cluster)),
        ("Pod", "v1", "pods", cluster.pods()),
        ("ReplicaSet", "apps/v1", "replicasets", _with_templates(cluster, cluster.replica_sets())),
        ("Deployment", "apps/v1", "deployments", _with_templates(cluster, cluster.deployments())),
    ):
        for item in objects:
            metadata = {k: v for k, v in item["metadata"].items() if k != "resourceVersion"}
            steps = (folder, metadata.get("namespace"), metadata["name"])
            value = {"apiVersion": version, "kind": kind, **item, "metadata": metadata}
            yield "/registry/" + "/".join(filter(None, steps)), msgspec.json.encode(value)


def _namespaces(cluster: SyntheticCluster) -> Iterator[Object]:
    for name in sorted({cluster.pod_namespace(i) for i in range(cluster.pod_count)}):
        yield {"metadata": {"name": name}, "status": {"phase": "Active"}}


def _with_templates(cluster: SyntheticCluster, controllers: Iterator[Object]) -> Iterator[Object]:
    """The controllers as an API server stores them; pod number n is of workload number n."""
    for number, item in enumerate(controllers):
        pod = cluster.pod(number)
        labels = pod["metadata"]["labels"]
        spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        selector = {"matchLabels": labels}
        yield item | {"spec": {"selector": selector, **item["spec"], "template": template}}


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
