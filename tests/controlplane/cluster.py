"""A real Kubernetes control plane on loopback, with KWOK in the place of the kubelets."""

import base64
import csv
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import urllib3
import yaml

from tests.controlplane.logs import GrowingLog
from tests.controlplane.manifests import VERTICAL_AUTOSCALERS
from tests.controlplane.pod_network import PodNetwork
from tests.controlplane.process import GO, Server, free_ports
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.usage_exporter import REFRESH_SECONDS, UsageExporter
from tests.controlplane.waiting import PATIENCE_SECONDS, wait_for
from tests.controlplane.watched import Objects, Watched

T = TypeVar("T")

HERE = Path(__file__).parent
TOKEN_SECONDS = 4 * 3600
"""Longer than any run."""

BINARIES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    "prometheus",
)

# An EC private key (SEC 1) on P-256: this DER prefix, 32 random bytes, this suffix.
EC_KEY_PREFIX = bytes.fromhex("30310201010420")
EC_KEY_SUFFIX = bytes.fromhex("a00a06082a8648ce3d030107")

NAMESPACES = "/api/v1/namespaces"
SECOND_VIEW_OF_EVENTS = "events.k8s.io"

ObjectKey = tuple[str, str, str]


class UnexpectedAnswerError(Exception):
    """Carries what the API server or kubectl said instead of obeying."""


class ControlPlane:
    """Starts on entering, stops on leaving, and speaks to the API server as its administrator."""

    def __init__(
        self,
        binaries: Mapping[str, Path],
        scheduler_flags: Sequence[str] = (),
        usage_refresh_seconds: float = REFRESH_SECONDS,
        with_usage: Callable[[Objects], Objects] = lambda pods: pods,
        *,
        real_nodes: bool = False,
    ) -> None:
        """`with_usage` returns pods with the annotations by which the exporters count.

        With `real_nodes` KWOK plays none: kubelets that others start are the only ones.
        """
        self._real_nodes = real_nodes
        self._binaries = binaries
        self._with_usage = with_usage
        self._scheduler_flags = scheduler_flags
        self._usage_refresh_seconds = usage_refresh_seconds
        self._addresses = (f"10.1.{high}.{low}" for high in range(256) for low in range(1, 255))
        self._plain_http = urllib3.PoolManager(retries=False, timeout=PATIENCE_SECONDS)
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}
        self._token = secrets.token_urlsafe()
        self._cleanup = ExitStack()
        self._etcd_port, self._etcd_peer_port, self._port, *self._ports = free_ports(6)
        (self._pod_network_port,) = free_ports(1)
        self.url = f"https://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="controlplane-"))
        self._cleanup.callback(shutil.rmtree, self.directory, ignore_errors=True)
        try:
            self._start()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    # Start

    def _start(self) -> None:
        self._start_etcd()
        self._start_api_server()
        self._start_controllers()
        self._initial = frozenset(self._objects())
        self._initial_keys = self._keys()
        self._nodes, self._pods = map(self._watch, ("/api/v1/nodes", "/api/v1/pods"))
        self.metrics = UsageExporter(
            lambda: (self.seen_nodes, self._with_usage(self.seen_pods)), self._usage_refresh_seconds
        )
        self._cleanup.callback(self.metrics.stop)

    def _serve(self, binary: str, *arguments: str | Path, **variables: str) -> Server:
        command = [self._binaries[binary], *arguments]
        server = Server(binary, command, self.directory, {**GO, **variables})
        self._cleanup.callback(server.stop)
        return server

    def _start_etcd(self) -> None:
        client = f"http://127.0.0.1:{self._etcd_port}"
        peer = f"http://127.0.0.1:{self._etcd_peer_port}"
        etcd = self._serve(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--heartbeat-interval=500",  # to no other member
            "--election-timeout=5000",
            "--log-level=warn",
        )
        etcd.wait_until("etcd is healthy", lambda: _answers(self._plain_http, f"{client}/health"))

    def _start_api_server(self) -> None:
        certificates = self.directory / "certificates"
        self.ca_file = certificates / "apiserver.crt"
        self.key_file = certificates / "apiserver.key"
        self._service_account_key = self.directory / "service-account.key"
        self._service_account_key.write_text(_ec_private_key())
        tokens = self.directory / "tokens.csv"
        with tokens.open("w", newline="") as file:
            csv.writer(file).writerow([self._token, "admin", "admin", "system:masters"])
        server = self._serve(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={certificates}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={self._service_account_key}",
            f"--service-account-signing-key-file={self._service_account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--endpoint-reconciler-type=none",
            f"--audit-policy-file={self._write_audit_policy()}",
            f"--audit-log-path={self.audit_log}",
            HTTP_PROXY=f"socks5://127.0.0.1:{self._pod_network_port}",
            NO_PROXY="127.0.0.1",  # as it is anyway, but in place of what the machine has
        )
        server.wait_until("the API server has a certificate", self.key_file.exists)
        self._http = urllib3.PoolManager(
            maxsize=8, ca_certs=str(self.ca_file), retries=False, timeout=PATIENCE_SECONDS
        )
        server.wait_until(
            "the API server is ready",
            lambda: _answers(self._http, f"{self.url}/readyz", self._headers()),
        )
        self.admin_kubeconfig = self._write_kubeconfig("admin", self._token, "default")

    def _write_audit_policy(self) -> Path:
        """Records ServiceAccounts alone, whose rights the tests ask about.

        What they write down in ConfigMaps and Leases is recorded with its text.
        """
        self.audit_log = self.directory / "audit.log"
        self._audit = GrowingLog(self.audit_log)
        self._reset_at = datetime.now(UTC)
        path = self.directory / "audit-policy.json"
        accounts = {"userGroups": ["system:serviceaccounts"]}
        written_down = [
            {"group": "", "resources": ["configmaps"]},
            {"group": "coordination.k8s.io", "resources": ["leases"]},
        ]
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {**accounts, "level": "Request", "resources": written_down},
                {**accounts, "level": "Metadata"},
            ],
        }
        path.write_text(json.dumps(policy))
        return path

    def _start_controllers(self) -> None:
        manager_port, scheduler_port, kwok_port = self._ports
        kubeconfig = self.admin_kubeconfig
        delegated = (
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={self.ca_file}",
            f"--tls-private-key-file={self.key_file}",
        )
        manager = self._serve(
            "kube-controller-manager",
            *delegated,
            f"--kubeconfig={kubeconfig}",
            f"--secure-port={manager_port}",
            f"--root-ca-file={self.ca_file}",
            f"--service-account-private-key-file={self._service_account_key}",
            "--leader-elect=false",
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
            # KWOK renews the leases of nodes rarely.
            *(() if self._real_nodes else ("--node-monitor-grace-period=20m",)),
        )
        scheduler = self._serve(
            "kube-scheduler",
            *delegated,
            f"--secure-port={scheduler_port}",
            f"--config={self._write_scheduler_configuration()}",
            *self._scheduler_flags,
        )
        self.scheduler_log = scheduler.log
        self._scheduler = scheduler
        if not self._real_nodes:
            self._start_kwok(kwok_port)
        manager.wait_until(
            "the controller manager equips the namespaces", self._are_namespaces_ready
        )
        scheduler.wait_until(
            "the scheduler is healthy",  # no /readyz before 1.31
            lambda: _answers(self._http, f"https://127.0.0.1:{scheduler_port}/healthz"),
        )

    def _start_kwok(self, port: int) -> None:
        kwok = self._serve(
            "kwok",
            f"--kubeconfig={self.admin_kubeconfig}",
            "--manage-all-nodes",
            f"--config={HERE / 'kwok.yaml'}",
            "--cidr=10.244.0.0/16",
            "--node-lease-duration-seconds=400",  # renewed four times in it
            f"--server-address=127.0.0.1:{port}",
        )
        kwok.wait_until(
            "KWOK is healthy",
            lambda: _answers(self._plain_http, f"http://127.0.0.1:{port}/healthz"),
        )

    def _write_scheduler_configuration(self) -> Path:
        """Serves Volcano's scheduler name too, so that its users' manifests run unchanged."""
        path = self.directory / "scheduler.json"
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {
                "kubeconfig": str(self.admin_kubeconfig),
                "qps": 2000,
                "burst": 4000,
            },
            "profiles": [{"schedulerName": name} for name in ("default-scheduler", "volcano")],
        }
        path.write_text(json.dumps(configuration))
        return path

    def _are_namespaces_ready(self) -> bool:
        return all(
            self._is_namespace_ready(name)
            for name in ("default", "kube-node-lease", "kube-public", "kube-system")
        )

    def _is_namespace_ready(self, name: str) -> bool:
        """Checks what pods need at admission: the ServiceAccount and the CA for its token."""
        return all(
            self.request("GET", f"/api/v1/namespaces/{name}/{item}")[0] == 200
            for item in ("serviceaccounts/default", "configmaps/kube-root-ca.crt")
        )

    # Credentials

    def _headers(self, token: str = "") -> dict[str, str]:
        return {"Authorization": f"Bearer {token or self._token}", "Accept": "application/json"}

    def _write_kubeconfig(self, user: str, token: str, namespace: str) -> Path:
        path = self.directory / f"{user.replace(':', '_')}.kubeconfig"
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "controlplane",
                    "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)},
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [
                {
                    "name": "controlplane",
                    "context": {"cluster": "controlplane", "user": user, "namespace": namespace},
                }
            ],
            "current-context": "controlplane",
        }
        path.write_text(yaml.safe_dump(configuration))
        path.chmod(0o600)
        return path

    def token_for(self, namespace: str, service_account: str) -> str:
        """Mints a token as the kubelet does for a pod."""
        status, answer = self.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_SECONDS},
            },
        )
        if status != 201:
            raise UnexpectedAnswerError(f"no token for {namespace}/{service_account}: {answer}")
        token: str = answer["status"]["token"]
        return token

    def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Writes a kubeconfig under which exactly the ServiceAccount's RBAC rules hold."""
        return self._write_kubeconfig(
            f"system:serviceaccount:{namespace}:{service_account}",
            self.token_for(namespace, service_account),
            namespace,
        )

    def audit_events(self, namespace: str, service_account: str) -> list[dict[str, Any]]:
        """Lists what the ServiceAccount asked for since the last reset, in order.

        Each has its verb, objectRef and responseStatus.
        """
        user = f"system:serviceaccount:{namespace}:{service_account}"
        return [
            event
            for event in self._audit.events()
            if event["user"]["username"] == user
            and datetime.fromisoformat(event["requestReceivedTimestamp"]) >= self._reset_at
        ]

    # Requests

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str | None = None,
        accept: str | None = None,
        token: str = "",
    ) -> tuple[int, Any]:
        """Makes one request, and leaves the status to the caller to judge.

        It is the administrator's unless there is a token of somebody else.
        """
        headers = self._headers(token)
        if accept is not None:
            headers["Accept"] = accept
        if body is not None:
            default = "merge-patch+json" if method == "PATCH" else "json"
            headers["Content-Type"] = content_type or f"application/{default}"
        response = self._http.request(
            method,
            self.url + path,
            body=None if body is None else json.dumps(body).encode(),
            headers=headers,
        )
        return response.status, _decoded(response.data)

    def get(self, path: str) -> Any:
        """Reads an object that has to be there."""
        status, answer = self.request("GET", path)
        if status != 200:
            raise UnexpectedAnswerError(f"GET {path}: {status} {answer}")
        return answer

    def items(self, path: str) -> list[dict[str, Any]]:
        """Reads the items of a collection."""
        items: list[dict[str, Any]] = self.get(path)["items"]
        return items

    def _watch(self, path: str) -> Watched:
        watched = Watched(self._open_stream, path)
        self._cleanup.callback(watched.stop)
        return watched

    def _open_stream(self, path: str) -> urllib3.BaseHTTPResponse:
        return self._http.request(
            "GET",
            self.url + path,
            headers=self._headers(),
            preload_content=False,
            timeout=urllib3.Timeout(connect=PATIENCE_SECONDS, read=None),
        )

    @property
    def seen_nodes(self) -> Objects:
        """All nodes as of a moment ago, without a request."""
        return self._nodes.items

    @property
    def seen_pods(self) -> Objects:
        """All pods as of a moment ago, without a request."""
        return self._pods.items

    def kubectl_command(self, *arguments: str | Path) -> list[str]:
        """The command of kubectl as administrator, for another process."""
        kubeconfig = ("--kubeconfig", self.admin_kubeconfig)
        return [str(each) for each in (self._binaries["kubectl"], *kubeconfig, *arguments)]

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Runs kubectl as administrator, or under the kubeconfig that the arguments name."""
        run = subprocess.run(
            [self._binaries["kubectl"], *arguments],
            check=False,
            env=os.environ | GO | {"KUBECONFIG": str(self.admin_kubeconfig)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        if run.returncode != 0:
            raise UnexpectedAnswerError(f"kubectl {' '.join(map(str, arguments))}: {run.stderr}")
        return run.stdout

    def apply(self, *manifests: Mapping[str, Any] | str) -> None:
        """Applies objects, or text of one or more YAML documents, as `kubectl apply` does."""
        for manifest in _documents(manifests):
            status, answer = self.request(
                "PATCH",
                f"{self._path_of(manifest)}?fieldManager=kubectl",
                manifest,
                content_type="application/apply-patch+yaml",
            )
            if status not in (200, 201):
                name = f"{manifest['kind']} {manifest['metadata']['name']}"
                raise UnexpectedAnswerError(f"apply {name}: {status} {answer}")

    def delete(self, *manifests: Mapping[str, Any] | str) -> None:
        """Deletes at once what apply made, and returns when it is gone."""
        for manifest in _documents(manifests):
            path = self._path_of(manifest)
            self.request("DELETE", path, {"gracePeriodSeconds": 1})
            self.wait_for(f"no {path}", partial(self._is_gone, path))

    def _is_gone(self, path: str) -> bool:
        return self.request("GET", path)[0] == 404

    def _path_of(self, manifest: Mapping[str, Any]) -> str:
        version, kind = manifest["apiVersion"], manifest["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (root, kind) not in self._resources:
            for found in self.get(root)["resources"]:
                if "/" not in found["name"]:
                    self._resources[root, found["kind"]] = (found["name"], found["namespaced"])
        resource, namespaced = self._resources[root, kind]
        metadata = manifest["metadata"]
        scope = f"namespaces/{metadata.get('namespace', 'default')}/" if namespaced else ""
        return f"{root}/{scope}{resource}/{metadata['name']}"

    def wait_for(
        self, description: str, predicate: Callable[[], T], timeout: float = PATIENCE_SECONDS
    ) -> T:
        """Polls until the predicate's value is true and returns it."""
        return wait_for(description, predicate, timeout)

    # Objects that most tests need

    def add_node(
        self,
        *names: str,
        cpu: str = "4",
        memory: str = "16Gi",
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        resources: Mapping[str, str] | None = None,
        unschedulable: bool = False,
    ) -> None:
        """Adds alike nodes and returns when all are Ready and the scheduler has seen them."""
        version = self.get("/version")["gitVersion"]
        capacity = {"cpu": cpu, "memory": memory, "pods": str(pods), **(resources or {})}
        for name in names:
            status, answer = self.request(
                "POST",
                "/api/v1/nodes",
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {
                        "name": name,
                        "labels": {
                            "kubernetes.io/arch": "amd64",
                            "kubernetes.io/hostname": name,
                            "kubernetes.io/os": "linux",
                            **(labels or {}),
                        },
                        "annotations": {"kwok.x-k8s.io/node": "fake", **(annotations or {})},
                    },
                    "spec": {"taints": list(taints), "unschedulable": unschedulable},
                    "status": {
                        "capacity": capacity,
                        "allocatable": capacity,
                        "addresses": [
                            {"type": "InternalIP", "address": next(self._addresses)},
                            {"type": "Hostname", "address": name},
                        ],
                        "nodeInfo": {
                            "architecture": "amd64",
                            "kubeletVersion": version,
                            "operatingSystem": "linux",
                        },
                    },
                },
            )
            if status != 201:
                raise UnexpectedAnswerError(f"node {name}: {answer}")
        self.wait_for(f"Ready nodes {', '.join(names)}", lambda: self._are_ready(names))
        self.wait_for_scheduler()

    def _are_ready(self, names: Iterable[str]) -> bool:
        return {
            node["metadata"]["name"]
            for node in self.items("/api/v1/nodes")
            if _has_condition(node, "Ready") and not _has_not_ready_taint(node)
        }.issuperset(names)

    @contextmanager
    def paused_scheduler(self) -> Iterator[None]:
        """The scheduler does nothing meanwhile, and has seen all that was done when it ends.

        It would try pods that fit nowhere yet again and again, with two requests each time.
        """
        self._scheduler.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._scheduler.signal(signal.SIGCONT)
        self.wait_for_scheduler()

    def wait_for_scheduler(self) -> None:
        """Returns when the scheduler has seen which nodes are open to pods and which are not.

        It learns of nodes later than the API server does. A pod that is too large for any node
        makes it report how many are open, and takes no room meanwhile. If it looked too early,
        another pod asks again: it may not look at the same one again for minutes.
        """
        self.wait_for("the scheduler sees the nodes", self._has_seen_nodes)

    def _has_seen_nodes(self) -> bool:
        """Whether the scheduler's words on a pod too large name as many nodes as there are."""
        with self._too_large() as path:
            message: str = self.wait_for(
                "the scheduler looks at a pod", lambda: self._refusal_of(path)
            )
            nodes = self.items("/api/v1/nodes")
        found = re.search(r"(\d+) Insufficient cpu", message)
        return message.startswith(f"0/{len(nodes)} nodes are available: ") and int(
            found[1] if found else 0
        ) == sum(map(_is_open, nodes))

    @contextmanager
    def _too_large(self) -> Iterator[str]:
        """The path of a pod that fits nowhere, and that is there meanwhile."""
        pods = "/api/v1/namespaces/default/pods"
        name = f"too-large-{secrets.token_hex(4)}"
        requests = {"cpu": "1000000"}
        container = {"name": "main", "image": "none", "resources": {"requests": requests}}
        body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        status, answer = self.request("POST", pods, body)
        if status != 201:
            raise UnexpectedAnswerError(f"pod {name}: {answer}")
        try:
            yield f"{pods}/{name}"
        finally:
            self.request("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 0})

    def _refusal_of(self, path: str) -> str:
        """What the scheduler says of a pod that it has not placed, empty before that."""
        conditions = self.get(path)["status"].get("conditions") or []
        return next((c["message"] for c in conditions if c["type"] == "PodScheduled"), "")

    def create_namespace(
        self, name: str | None = None, labels: Mapping[str, str] | None = None
    ) -> str:
        """Creates a namespace, of a fresh name if none is given, in which pods are admitted."""
        name = name or f"test-{secrets.token_hex(4)}"
        metadata = {"name": name, "labels": dict(labels or {})}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.wait_for(f"namespace {name}", lambda: self._is_namespace_ready(name))
        return name

    def serve_vertical_autoscalers(self) -> None:
        """Define their kind, which no API server has on its own."""
        self.serve(VERTICAL_AUTOSCALERS)

    def serve(self, definition: Mapping[str, Any]) -> None:
        """Applies a CustomResourceDefinition, and returns when its objects can be listed."""
        self.apply(definition)
        spec = definition["spec"]
        for version in spec["versions"]:
            path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            self.wait_for(path, partial(self._lists, path))

    def _lists(self, path: str) -> bool:
        return self.request("GET", path)[0] == 200

    def pods(self, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Lists the pods of a namespace."""
        return self.items(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")

    def wait_for_ready_pods(
        self, namespace: str, count: int, selector: str = "", timeout: float = PATIENCE_SECONDS
    ) -> list[dict[str, Any]]:
        """Waits until exactly so many pods are there and all of them are Ready and stay."""

        def ready() -> list[dict[str, Any]]:
            pods = self.pods(namespace, selector)
            settled = [
                pod
                for pod in pods
                if _has_condition(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]
            ]
            return settled if len(settled) == len(pods) == count else []

        return self.wait_for(f"{count} Ready pods in {namespace}", ready, timeout)

    def make_older(self, age: timedelta) -> None:
        """Lets all nodes and pods look as old as this, which only what is in etcd can."""
        born = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ")
        for kind, folder in (("Node", "minions"), ("Pod", "pods")):
            for found in self.items(f"/api/v1/{kind.lower()}s"):
                metadata = found["metadata"]
                metadata["creationTimestamp"] = born
                if kind == "Pod":
                    found["status"]["startTime"] = born
                names = filter(None, (metadata.get("namespace"), metadata["name"]))
                manifest = {"apiVersion": "v1", "kind": kind, **found}
                self._store(f"/registry/{folder}/{'/'.join(names)}", json.dumps(manifest))

    def _store(self, key: str, value: str) -> None:
        """Puts what the API server decodes as well as its own form into etcd."""
        answer = self._plain_http.request(
            "POST",
            f"http://127.0.0.1:{self._etcd_port}/v3/kv/put",
            json={"key": _base64(key), "value": _base64(value)},
        )
        if answer.status != 200:
            raise UnexpectedAnswerError(f"{key}: {answer.data!r}")

    def prometheus(
        self, scrape_interval: str = "1s", more_jobs: Sequence[Mapping[str, Any]] = ()
    ) -> PrometheusServer:
        """Makes a Prometheus for this cluster's metrics, with empty storage and not yet started."""
        directory = Path(tempfile.mkdtemp(prefix="prometheus-", dir=self.directory))
        return PrometheusServer(
            self._binaries["prometheus"], self.metrics, directory, scrape_interval, more_jobs
        )

    def pod_network(self, servers: Mapping[str, str]) -> PodNetwork:
        """Lets the API server reach pods: the URLs that stand for them, by `ADDRESS:PORT`."""
        return PodNetwork(self._pod_network_port, servers)

    # Isolation of tests

    def reset(self) -> None:
        """Deletes all that was not there after the start, of whatever kind."""
        self._asked_to_delete: frozenset[str] = frozenset()
        self.wait_for("an empty cluster", self._is_empty)
        self.metrics.forget()
        self._audit.forget()
        self._reset_at = datetime.now(UTC)  # a watch may be logged when it ends, after this

    def _is_empty(self) -> bool:
        """Deletes what is new, since owners bring their pods back until they are gone themselves.

        One look into etcd shows whether there is any; to list each kind takes a hundred times as
        long.
        """
        left = self._keys() - self._initial_keys
        if not left:
            return True
        if all(key.startswith("/registry/namespaces/") for key in left):
            self._finalize(key.rpartition("/")[2] for key in left)
        if left <= self._asked_to_delete:
            self._asked_to_delete = frozenset()  # ask again next time
            return False
        self._asked_to_delete = left
        return self._delete_leftovers(left)

    def _keys(self) -> frozenset[str]:
        """What etcd holds."""
        first, end = map(_base64, ("/registry/", "/registry0"))
        answer = self._plain_http.request(
            "POST",
            f"http://127.0.0.1:{self._etcd_port}/v3/kv/range",
            json={"key": first, "range_end": end, "keys_only": True},
        )
        return frozenset(base64.b64decode(kv["key"]).decode() for kv in answer.json()["kvs"])

    def _delete_leftovers(self, keys: frozenset[str]) -> bool:
        """Makes one round, and reports whether there was nothing to delete.

        It looks at the kinds of these keys; at all if there is nothing of those.
        """
        of_kinds = self._objects(_kinds_of(keys)) - self._initial
        leftovers = of_kinds or self._objects() - self._initial
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        namespaces = {name for collection, _, name in leftovers if collection == NAMESPACES}
        paths = {_deletion_path(key, namespaces) for key in leftovers}
        for path in sorted(paths, key=lambda path: not path.startswith(f"{NAMESPACES}/")):
            try:
                self.request("DELETE", path, options)
            except urllib3.exceptions.HTTPError:  # no answer: the next round asks again
                return False
        return not leftovers

    def _finalize(self, namespaces: Iterable[str]) -> None:
        """Ends empty ones: their controller would wait five seconds before it looks at each."""
        for name in namespaces:
            body = {"metadata": {"name": name}, "spec": {"finalizers": []}}
            self.request("PUT", f"{NAMESPACES}/{name}/finalize", body)

    def _objects(self, kinds: Container[str] | None = None) -> set[ObjectKey]:
        """Names every object, or those of these kinds, by collection, namespace and name."""
        return {
            (collection, item["metadata"].get("namespace", ""), item["metadata"]["name"])
            for collection in self._collections()
            if kinds is None or collection.rpartition("/")[2] in kinds
            for item in self._names_in(collection)
        }

    def _names_in(self, collection: str) -> list[dict[str, Any]]:
        status, answer = self.request(
            "GET",
            collection,
            accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        )
        return (answer["items"] or []) if status == 200 else []

    def _collections(self) -> Iterable[str]:
        for root in ("/api", "/apis"):
            _, discovery = self.request(
                "GET",
                root,
                accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            )
            for group in discovery["items"]:
                name = group["metadata"].get("name")
                version = group["versions"][0]
                scope = f"{root}/{name}/{version['version']}" if name else "/api/v1"
                for resource in version["resources"]:
                    deletable = {"list", "delete"} <= set(resource["verbs"])
                    if deletable and name != SECOND_VIEW_OF_EVENTS:
                        yield f"{scope}/{resource['resource']}"


def _answers(http: urllib3.PoolManager, url: str, headers: Mapping[str, str] | None = None) -> bool:
    try:
        return bool(http.request("GET", url, headers=headers).status == 200)
    except urllib3.exceptions.HTTPError:
        return False


def _documents(manifests: Iterable[Mapping[str, Any] | str]) -> Iterator[Mapping[str, Any]]:
    for manifest in manifests:
        if isinstance(manifest, str):
            yield from filter(None, yaml.safe_load_all(manifest))
        else:
            yield manifest


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _ec_private_key() -> str:
    """Makes a signing key without a cryptography library; the public half follows from it."""
    der = EC_KEY_PREFIX + secrets.token_bytes(32) + EC_KEY_SUFFIX
    body = base64.b64encode(der).decode()
    lines = (body[start : start + 64] for start in range(0, len(body), 64))
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----\n"])


def _kinds_of(keys: Iterable[str]) -> set[str]:
    """The plurals that etcd's keys may have, as in /registry/pods/… or /registry/GROUP/PLURAL/….

    Nodes have a name of their own there.
    """
    parts = {part for key in keys for part in key.split("/")[2:4]}
    return parts | {"nodes"} if "minions" in parts else parts


def _has_condition(item: Mapping[str, Any], kind: str) -> bool:
    conditions = item["status"].get("conditions") or []
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _is_open(node: Mapping[str, Any]) -> bool:
    spec = node["spec"]
    taints = spec.get("taints") or []
    hard = [taint for taint in taints if taint["effect"] != "PreferNoSchedule"]
    return not hard and not spec.get("unschedulable")


def _has_not_ready_taint(node: Mapping[str, Any]) -> bool:
    taints = node["spec"].get("taints") or []
    return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)


def _deletion_path(key: ObjectKey, whole_namespaces: Container[str]) -> str:
    """Takes a collection at a time from namespaces that go as a whole: events are many."""
    collection, namespace, name = key
    if not namespace:
        return f"{collection}/{name}"
    scope, _, resource = collection.rpartition("/")
    in_namespace = f"{scope}/namespaces/{namespace}/{resource}"
    return in_namespace if namespace in whole_namespaces else f"{in_namespace}/{name}"
