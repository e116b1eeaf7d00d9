"""An API server and a Prometheus for a synthetic cluster, in a process of its own.

`python -m benchmarks.server NODES PODS_PER_NODE FITS [OVERLOADED_SHARE [CORES]]` prints its address
and serves until its standard input ends. In a separate process, it does not count in the measured
memory.
"""

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import msgspec

from benchmarks.synthetic import NODE_CORES, NODE_MEMORY_GIB, SyntheticCluster
from desched.adapters.prometheus.queries import PART_LABEL

KINDS = {
    "/api/v1/nodes": ("v1", "NodeList"),
    "/api/v1/pods": ("v1", "PodList"),
    "/api/v1/namespaces": ("v1", "NamespaceList"),
    "/api/v1/persistentvolumeclaims": ("v1", "PersistentVolumeClaimList"),
    "/api/v1/persistentvolumes": ("v1", "PersistentVolumeList"),
    "/api/v1/services": ("v1", "ServiceList"),
    "/apis/apps/v1/replicasets": ("apps/v1", "ReplicaSetList"),
    "/apis/apps/v1/deployments": ("apps/v1", "DeploymentList"),
    "/apis/apps/v1/statefulsets": ("apps/v1", "StatefulSetList"),
    "/apis/batch/v1/jobs": ("batch/v1", "JobList"),
    "/apis/autoscaling/v2/horizontalpodautoscalers": (
        "autoscaling/v2",
        "HorizontalPodAutoscalerList",
    ),
    "/apis/policy/v1/poddisruptionbudgets": ("policy/v1", "PodDisruptionBudgetList"),
    "/apis/scheduling.k8s.io/v1/priorityclasses": ("scheduling.k8s.io/v1", "PriorityClassList"),
    "/apis/storage.k8s.io/v1/storageclasses": ("storage.k8s.io/v1", "StorageClassList"),
    "/apis/storage.k8s.io/v1/csinodes": ("storage.k8s.io/v1", "CSINodeList"),
}

PART = re.compile(rf'label_replace\((.*?), "{PART_LABEL}", "(\w+)", "node", "\.\*"\)(?: or |$)')
MATCHER = re.compile(r'(node|instance|pod)=~"([^"]*)"')
LONG_AGO = 1000000000.125
"""Stands for the time of an answer while it is kept."""

Samples = Iterator[tuple[dict[str, str], float]]


class Answers:
    """All answers for one cluster; objects are encoded once."""

    def __init__(self, cluster: SyntheticCluster) -> None:
        encode = msgspec.json.encode
        self._cluster = cluster
        self._items = {
            "/api/v1/nodes": [encode(o) for o in cluster.nodes()],
            "/api/v1/pods": [encode(o) for o in cluster.pods()],
            "/apis/apps/v1/replicasets": [encode(o) for o in cluster.replica_sets()],
            "/apis/apps/v1/deployments": [encode(o) for o in cluster.deployments()],
        }
        # The first expression that matches the query answers it.
        self._measures: tuple[tuple[str, Callable[[], Samples]], ...] = (
            (r"^count_over_time\(", lambda: self._nodes(lambda _: 10.0)),
            (r"^quantile\(", lambda: iter([({}, 30.0)])),
            (r"^time\(\) - ", lambda: self._nodes(lambda _: 12.0)),
            (r"_throttled_periods_", lambda: iter(())),
            (r"node_uname_info", lambda: self._nodes(lambda _: 1.0)),
            (r"^count without", lambda: self._nodes(lambda _: cluster.cores)),
            (r"^max without \(\) \(node_memory_MemTotal", lambda: self._nodes(_whole_memory)),
            (r"^min by .*container_cpu_", lambda: self._sums(self._cores)),
            (r"^min by .*container_memory_", lambda: self._sums(cluster.pod_memory_bytes)),
            (r"node_cpu_seconds_total", lambda: self._nodes(cluster.node_busy)),
            (r"node_memory_", lambda: self._nodes(self._node_memory)),
            (r"machine_memory_bytes", lambda: self._sums(lambda _: 1.0)),
            (r"/kubepods", lambda: iter(())),
            (r"^sum without .*container_cpu_", lambda: self._sums(self._cores)),
            (
                r"sum without .*container_memory_",
                lambda: self._sums(cluster.pod_memory_bytes),
            ),
            (r"container_cpu_", lambda: self._pods(self._cores)),
            (r"container_memory_", lambda: self._pods(cluster.pod_memory_bytes)),
        )
        self._cached: dict[str, bytes] = {}

    def api(self, path: str, query: dict[str, list[str]]) -> bytes | None:
        """A page of a list, or the version; None for an unknown path."""
        if path == "/version":
            return b'{"gitVersion":"v1.36.3"}'
        if path not in KINDS:
            return None
        version, kind = KINDS[path]
        items = self._items.get(path, [])
        first = int(query.get("continue", ["0"])[0])
        last = first + int(query.get("limit", [str(len(items) or 1)])[0])
        rest = f'"continue":"{last}",' if last < len(items) else ""
        head = f'{{"apiVersion":"{version}","kind":"{kind}","metadata":{{{rest}'
        return (
            head.encode()
            + b'"resourceVersion":"1"},"items":['
            + (b",".join(items[first:last]) + b"]}")
        )

    def query_range(self, promql: str, begin: float, end: float, step: float) -> bytes:
        """A range vector: the values of the instant vector at every point."""
        times = [begin + i * step for i in range(int((end - begin) / step) + 1)]
        result = [
            {"metric": labels, "values": [[at, repr(value)] for at in times]}
            for labels, value in self._samples(promql)
        ]
        data = {"resultType": "matrix", "result": result}
        return msgspec.json.encode({"status": "success", "data": data})

    def query(self, promql: str) -> bytes:
        """An instant vector."""
        if promql not in self._cached:
            self._cached[promql] = self._vector(self._samples(promql))
        return self._cached[promql].replace(repr(LONG_AGO).encode(), repr(time.time()).encode())

    def _samples(self, promql: str) -> Samples:
        """The samples of a query, or of all its parts."""
        for part, name in PART.findall(promql) or [(promql, "")]:
            found = next(samples for pattern, samples in self._measures if re.search(pattern, part))
            matcher = MATCHER.search(part)
            label, expression = matcher.groups() if matcher else ("node", "")
            wanted = re.compile(expression or ".*")
            for labels, value in found():
                if wanted.fullmatch(labels.get(label, "")):
                    yield labels | ({PART_LABEL: name} if name else {}), value

    def _nodes(self, value: Callable[[int], float]) -> Samples:
        for i in range(self._cluster.node_count):
            instance = f"{self._cluster.node_address(i)}:9100"
            yield {"node": f"node-{i:05d}", "instance": instance}, value(i)

    def _pods(self, value: Callable[[int], float]) -> Samples:
        for i in range(self._cluster.pod_count):
            node = i // self._cluster.pods_per_node
            yield (
                {
                    "namespace": self._cluster.pod_namespace(i),
                    "pod": self._cluster.pod_name(i),
                    "node": f"node-{node:05d}",
                    "instance": f"{self._cluster.node_address(node)}:10250",
                },
                value(i),
            )

    def _cores(self, index: int) -> float:
        return self._cluster.pod_cores[index]

    def _sums(self, value: Callable[[int], float]) -> Samples:
        for i in range(self._cluster.node_count):
            labels = {
                "node": f"node-{i:05d}",
                "instance": f"{self._cluster.node_address(i)}:10250",
            }
            yield labels, self._sum(i, value)

    def _sum(self, node: int, value: Callable[[int], float]) -> float:
        first = node * self._cluster.pods_per_node
        return sum(value(i) for i in range(first, first + self._cluster.pods_per_node))

    def _node_memory(self, index: int) -> float:
        used = self._sum(index, self._cluster.pod_memory_bytes)
        return used / (NODE_MEMORY_GIB * 2**30)

    @staticmethod
    def _vector(samples: Samples) -> bytes:
        result = [{"metric": labels, "value": [LONG_AGO, repr(value)]} for labels, value in samples]
        data = {"resultType": "vector", "result": result}
        return msgspec.json.encode({"status": "success", "data": data})


def _whole_memory(_: int) -> float:
    return float(NODE_MEMORY_GIB * 2**30)


def serve(answers: Answers) -> ThreadingHTTPServer:
    """A server on a free loopback port, not started."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body are two writes

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            body: bytes | None
            if url.path == "/api/v1/query":
                body = answers.query(query["query"][0])
            elif url.path == "/api/v1/query_range":
                begin, end = (float(query[key][0]) for key in ("start", "end"))
                step = float(query["step"][0].removesuffix("s"))
                body = answers.query_range(query["query"][0], begin, end, step)
            else:
                body = answers.api(url.path, query)
            self.send_response(200 if body is not None else 404)
            body = body if body is not None else b"{}"
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing: standard output is the address."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def main(
    nodes: str, pods_per_node: str, fits: str, overloaded: str = "0.1", cores: str = str(NODE_CORES)
) -> None:
    """Serve until standard input ends."""
    size = int(nodes), int(pods_per_node)
    cluster = SyntheticCluster(*size, float(overloaded), fits=fits == "fits", cores=int(cores))
    server = serve(Answers(cluster))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
