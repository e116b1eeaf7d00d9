"""Attacks of tenants, each again and again, and what the tenants forge.

`Attack.count` is how often each was done.
"""

import itertools
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import urllib3

from tests.controlplane.cluster import ControlPlane, UnexpectedAnswerError
from tests.controlplane.large_objects import OTHER_KINDS, budget, labels, service
from tests.controlplane.manifests import Object, pod_spec, volcano_group
from tests.controlplane.soak_cluster import NODE_MILLICORES
from tests.controlplane.stranger import (
    SERVICES_JOB,
    Samples,
    Stranger,
    busy_exporter,
    exporter_of,
    gpu_samples,
)
from tests.controlplane.tenants import (
    BACK,
    COLLECTIONS,
    FAILING,
    GATE,
    GROUPS,
    LABELS,
    LARGE,
    PATCHED,
    RETURNING,
    Tenant,
    Tenants,
    pending_pods,
)

ADDRESS = "127.0.0.66"
"""From which tenants speak to desched; the kubelet has another."""

LABEL_BYTES = 58 * 2**10
LARGE_AT_A_TIME = 8
CONNECTIONS = 80
FAKE_BYTES = 9 * 2**30


class Attacked(Protocol):
    """What attackers have to know of a cluster."""

    plane: ControlPlane
    tenants: Tenants
    stranger: Stranger
    gpu_exporter: Stranger
    forged: Sequence[str]
    gpu_nodes: Sequence[str]
    probes_port: int
    pages_port: int


@dataclass
class Attack:
    """Something harmful that is done again and again; `act` returns how often it was."""

    what: str
    act: Callable[[], int]
    every_seconds: float
    count: int = 0
    failed: int = 0
    last_failure: str = ""

    def run(self, stopping: threading.Event) -> None:
        """Go on until all is over."""
        while not stopping.is_set():
            try:
                self.count += self.act()
            except (urllib3.exceptions.HTTPError, OSError, UnexpectedAnswerError) as error:
                self.failed += 1
                self.last_failure = str(error)[:300]
            stopping.wait(self.every_seconds)


class Patches:
    """One pod, whose labels are different each time."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._numbers = itertools.count()

    def __call__(self) -> int:
        """Patch it once."""
        path = f"{COLLECTIONS['Pod'].format(LABELS)}/{PATCHED}"
        value = labels(next(self._numbers), LABEL_BYTES)
        patch = [{"op": "replace", "path": "/metadata/labels", "value": value}]
        self._tenant.asks("PATCH", path, patch, "json-patch+json")
        return 1


def _labelled(spec: Object) -> Callable[[int], Object]:
    return lambda number: {"metadata": {"labels": labels(number)}, "spec": spec}


_TEMPLATE: Object = {"metadata": {"labels": {"app": "x"}}, "spec": pod_spec()}
_SELECTED: Object = {
    "replicas": 0,
    "selector": {"matchLabels": {"app": "x"}},
    "template": _TEMPLATE,
}
_JOB: Object = {
    "suspend": True,
    "manualSelector": True,
    "selector": _SELECTED["selector"],
    "template": {**_TEMPLATE, "spec": pod_spec(restartPolicy="Never")},
}
_CLAIM: Object = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "none",
    "resources": {"requests": {"storage": "1Gi"}},
}
_TARGET: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}

LARGE_KINDS: Mapping[str, Callable[[int], Object]] = {
    "/api/v1/namespaces/{}/pods": _labelled(pod_spec(schedulerName="nobody")),
    "/api/v1/namespaces/{}/services": service,
    "/api/v1/namespaces/{}/persistentvolumeclaims": _labelled(_CLAIM),
    "/apis/policy/v1/namespaces/{}/poddisruptionbudgets": budget,
    "/apis/apps/v1/namespaces/{}/deployments": OTHER_KINDS["deployments"][1],
    "/apis/apps/v1/namespaces/{}/replicasets": _labelled(_SELECTED),
    "/apis/apps/v1/namespaces/{}/statefulsets": _labelled({**_SELECTED, "serviceName": "none"}),
    "/apis/batch/v1/namespaces/{}/jobs": _labelled(_JOB),
    "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers": _labelled(
        {"maxReplicas": 2, "scaleTargetRef": _TARGET}
    ),
    COLLECTIONS["PodGroup"]: _labelled({"minMember": 1}),
}
"""Kinds that a tenant may create and that desched reads, with what makes them large."""


class LargeObjects:
    """Objects of 1.4 MiB, of each kind in turn; of each kind only the newest stay."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._numbers = itertools.count()
        self._there: dict[str, deque[str]] = {kind: deque() for kind in LARGE_KINDS}

    def __call__(self) -> int:
        """Make one."""
        number = next(self._numbers)
        kind, made = list(LARGE_KINDS.items())[number % len(LARGE_KINDS)]
        path, there = kind.format(LARGE), self._there[kind]
        document = made(number)
        document["metadata"] = document.get("metadata", {}) | {"name": f"large-{number}"}
        if "podgroups" in path:
            document |= {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
        self._tenant.asks("POST", path, document)
        there.append(f"{path}/large-{number}")
        if len(there) > LARGE_AT_A_TIME:
            now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
            self._tenant.asks("DELETE", there.popleft(), now)
        return 1


class SlowClients:
    """Connections that send a byte at a time, and come back when they are closed."""

    def __init__(self, *ports: int) -> None:
        self._all = {(port, number): None for port in ports for number in range(CONNECTIONS)}
        self._open: dict[tuple[int, int], socket.socket] = {}

    def __call__(self) -> int:
        """Send a byte on each, and return how many were opened anew."""
        opened = 0
        for each in self._all:
            if each not in self._open:
                self._open[each] = self._connected(each[0])
                opened += 1
            try:
                self._open[each].send(b"x")
            except OSError:
                self._open.pop(each).close()
        return opened

    def _connected(self, port: int) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", port), 5, source_address=(ADDRESS, 0))
        client.settimeout(0)
        with suppress(OSError):
            client.send(b"GET / HTTP/1.1\r\nHost: ")
        return client


class Questions:
    """Requests for everything that desched serves."""

    def __init__(self, probes: int, pages: int) -> None:
        self._http = urllib3.PoolManager(
            retries=False, timeout=10, source_address=(ADDRESS, 0), maxsize=1
        )
        self._urls = [
            f"http://127.0.0.1:{probes}/metrics",
            *(f"http://127.0.0.1:{pages}/{path}" for path in ("", "status", "explain?pod=apps/x")),
        ]

    def __call__(self) -> int:
        """Ask for each."""
        for url in self._urls:
            self._http.request("GET", url)
        return len(self._urls)


class Groups:
    """PodGroups that need another number of pods each second."""

    COUNT = 5

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._numbers = itertools.count(1)
        names = [f"group-{number}" for number in range(self.COUNT)]
        tenant.creates(*(volcano_group(GROUPS, name, 1) for name in names))
        self._paths = [f"{COLLECTIONS['PodGroup'].format(GROUPS)}/{name}" for name in names]

    def __call__(self) -> int:
        """Change each."""
        patch = {"spec": {"minMember": 1 + next(self._numbers) % 1000}}
        for path in self._paths:
            self._tenant.asks("PATCH", path, patch)
        return len(self._paths)


class Gates:
    """Pods that run only once the tenant lets them; their replacements wait for the next time."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant

    def __call__(self) -> int:
        """Let all run that wait, and return how many these were."""
        waiting = [
            pod["metadata"]
            for namespace in FAILING
            for pod in self._tenant.asks("GET", COLLECTIONS["Pod"].format(namespace))["items"]
            if any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", ()))
        ]
        for pod in waiting:
            path = f"{COLLECTIONS['Pod'].format(pod['namespace'])}/{pod['name']}"
            patch = [{"op": "remove", "path": "/spec/schedulingGates"}]
            self._tenant.asks("PATCH", path, patch, "json-patch+json")
        return len(waiting)


class Returns:
    """ReplicaSets whose next pod is bound to the node of the first one, without a scheduler."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._nodes = dict.fromkeys(RETURNING, "")

    def __call__(self) -> int:
        """Return how many were changed."""
        changed = 0
        for namespace, known in self._nodes.items():
            pods = self._tenant.asks("GET", COLLECTIONS["Pod"].format(namespace))["items"]
            placed = sorted(pod["spec"].get("nodeName", "") for pod in pods)
            if placed and placed[-1] != known:
                path = f"{COLLECTIONS['ReplicaSet'].format(namespace)}/{BACK}"
                spec = {"template": {"spec": {"nodeName": placed[-1]}}}
                self._tenant.asks("PATCH", path, {"spec": spec})
                self._nodes[namespace] = placed[-1]
                changed += 1
        return changed


class Forgeries:
    """What a tenant exposes where `honor_labels` lets it replace the labels of the target.

    Of some nodes it has the exporter's and the kubelet's own labels: where these are more than a
    tenth of all nodes, no cycle evicts, as the threat model says.
    """

    def __init__(
        self, plane: ControlPlane, forged: Sequence[str], gpu_node: str, gpu_instance: str
    ) -> None:
        self._plane = plane
        self._forged = forged
        self._gpu_node, self._gpu_instance = gpu_node, gpu_instance
        cores = NODE_MILLICORES // 1000
        names = [node["metadata"]["name"] for node in plane.seen_nodes]
        exporters = {name: exporter_of(plane, name, "node-exporter") for name in names}
        elsewhere = {"cluster": "evil", "namespace": "evil"}
        self._busy = [
            *(busy_exporter(exporters[name], cores, 0.93) for name in forged),
            *(
                busy_exporter(labels | {"job": SERVICES_JOB} | elsewhere, cores, 0.93)
                for labels in exporters.values()
            ),
        ]
        self._scraped = self._counted = 0

    def scrapes(self) -> int:
        """How many there were since the last time."""
        before, self._counted = self._counted, self._scraped
        return self._counted - before

    def __call__(self) -> Samples:
        """All samples of now."""
        self._scraped += 1
        return [
            *(sample for busy in self._busy for sample in busy()),
            *self._working_sets(),
            *self._gpus(),
        ]

    def _working_sets(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """As of a stranger for all pods, and under the name of the kubelet for those of some."""
        for pod in self._plane.seen_pods:
            node = pod["spec"].get("nodeName", "")
            found = {
                "namespace": pod["metadata"]["namespace"],
                "pod": pod["metadata"]["name"],
                "container": "x",
                "node": node,
            }
            kubelet = {"job": "kubernetes-nodes-cadvisor", "instance": node, "node": ""}
            forged = kubelet if node in self._forged else {}
            yield "container_memory_working_set_bytes", found | forged, FAKE_BYTES

    def _gpus(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """As the operator's exporter of one node, but with a label more and busy all the time."""
        for metric, gpu, _ in gpu_samples(self._plane, self._gpu_node):
            own = {"job": "dcgm-exporter", "instance": self._gpu_instance, "more": "evil"}
            yield metric, {**gpu, **own}, 100.0


class Attackers:
    """All that attack a service at once, from `start` until all is over."""

    def __init__(self, world: Attacked, over: threading.Event) -> None:
        tenants = world.tenants
        self._over = over
        self._pending = tenants.create(pending_pods())
        gpus = (world.gpu_nodes[0], world.gpu_exporter.address)
        forgeries = Forgeries(world.plane, world.forged, *gpus)
        world.stranger.exposing = forgeries
        ports = (world.probes_port, world.pages_port)
        self.attacks = [
            Attack("patches of a pod's labels, 58 KiB", Patches(tenants.of(LABELS)), 1),
            Attack("objects of 1.4 MiB, of ten kinds", LargeObjects(tenants.of(LARGE)), 4),
            Attack("slow connections to both listeners", SlowClients(*ports), 1),
            Attack("requests for pages and metrics", Questions(*ports), 0.5),
            Attack("changes of PodGroups", Groups(tenants.of(GROUPS)), 1),
            Attack("replacements let in after they failed", Gates(tenants.of(FAILING[0])), 900),
            Attack("templates with the node to return to", Returns(tenants.of(RETURNING[0])), 5),
            Attack("scrapes of forged series", forgeries.scrapes, 1),
        ]

    def start(self) -> list[threading.Thread]:
        """Begin each in a thread of its own."""
        threads = [
            threading.Thread(target=attack.run, args=(self._over,), daemon=True)
            for attack in self.attacks
        ]
        for thread in threads:
            thread.start()
        return threads
