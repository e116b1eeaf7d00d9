"""A Prometheus with the past of a synthetic cluster, in a process of its own.

`python -m benchmarks.past_server NODES PODS_PER_NODE DAYS` prints its address and serves until its
standard input ends. Answers are put together from pieces of text that series share, so that they
cost little beside what desched does with them.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import numpy as np
from numpy.typing import NDArray

BEGIN = 1_767_225_600
"""2026-01-01 00:00 UTC."""

STEP_SECONDS = 300
HOUR_SECONDS = 3600
BEFORE_SECONDS = 2 * HOUR_SECONDS
"""The recording begins so much earlier, for the windows of the first cycles."""

CURVES = 64
"""The number of different courses of load; each pod follows one of them."""

NODE_CORES, NODE_GIB = 16, 64
REPLICAS = 10
GIB = 2**30


Floats = NDArray[np.float64]


class Life(NamedTuple):
    """A pod on its node between two times."""

    name: str
    replica_set: str
    node: int
    curve: int
    began: int
    ended: int

    @property
    def labels(self) -> dict[str, str]:
        """What its series have in common."""
        return {"namespace": "shop", "pod": self.name, "uid": self.name}


class RecordedCluster:
    """Workloads of ten replicas; each third one is rolled out once in the time."""

    def __init__(self, nodes: int, pods_per_node: int, days: int) -> None:
        self.nodes = nodes
        self.end = BEGIN + days * 86_400
        self._first = BEGIN - BEFORE_SECONDS
        self._steps = (self.end - self._first) // STEP_SECONDS
        chance = np.random.default_rng(1)
        self.curves = self._courses(chance, pods_per_node)
        self.lives = list(self._made(chance, nodes * pods_per_node))
        self.ratios = self._ratios()

    def _courses(self, chance: np.random.Generator, pods_per_node: int) -> Floats:
        """Cores: a day's rhythm, a level of its own, and noise that lasts for an hour."""
        hours = np.arange(self._steps) * STEP_SECONDS / HOUR_SECONDS
        day = 1 + 0.35 * np.sin(2 * np.pi * (hours + chance.uniform(0, 6, (CURVES, 1))) / 24)
        level = chance.lognormal(0, 0.6, (CURVES, 1)) * NODE_CORES * 0.4 / pods_per_node / 1.2
        slow = np.repeat(chance.normal(0, 0.2, (CURVES, self._steps // 12 + 1)), 12, axis=1)
        cores: Floats = np.clip(level * day * (1 + slow[:, : self._steps]), 0.001, None)
        return cores.round(5)

    def _made(self, chance: np.random.Generator, pods: int) -> Iterator[Life]:
        hours = (self.end - BEGIN) // HOUR_SECONDS
        for number in range(pods):
            workload = number // REPLICAS
            node, curve = (int(x) for x in chance.integers((self.nodes, CURVES)))
            rolled = self.end + 1
            if workload % 3 == 0:
                rolled = BEGIN + (workload * 7 % (hours - 2) + 1) * HOUR_SECONDS
            names = f"w{workload}-1-{number}", f"w{workload}-1"
            yield Life(*names, node, curve, self._first, rolled)
            if rolled <= self.end:
                other = int(chance.integers(self.nodes))
                names = f"w{workload}-2-{number}", f"w{workload}-2"
                yield Life(*names, other, curve, rolled, self.end + 1)

    def _ratios(self) -> Floats:
        """The CPU load of each node at the end of each step; the host itself uses half a core."""
        used = np.full((self.nodes, self._steps), 0.5)
        for life in self.lives:
            first, last = self.steps_of(life)
            used[life.node, first:last] += self.curves[life.curve, first:last]
        ratios: Floats = np.clip(used / NODE_CORES, 0, 1)
        return ratios.round(4)

    def steps_of(self, life: Life) -> tuple[int, int]:
        """The first step of a life and the one after its last."""
        first = (life.began - self._first) // STEP_SECONDS
        return first, min(self._steps, (life.ended - self._first) // STEP_SECONDS)

    def step_ending(self, at: int) -> int:
        """The number of the step that ends at this time."""
        return (at - self._first) // STEP_SECONDS - 1


class Answers:
    """Range vectors as JSON."""

    def __init__(self, cluster: RecordedCluster) -> None:
        self._cluster = cluster
        node_names = [f"n{i}" for i in range(cluster.nodes)]
        self._of_node = [{"node": name} for name in node_names]
        self._of_instance = [{"instance": name} for name in node_names]
        self._info = [
            life.labels
            | {"node": f"n{life.node}", "created_by_kind": "ReplicaSet"}
            | {"created_by_name": life.replica_set}
            for life in cluster.lives
        ]
        # The first metric that the query names answers it.
        self._measures: tuple[tuple[str, Callable[[list[int]], Iterator[bytes]]], ...] = (
            ("min_over_time.*kube_pod_info", lambda times: self._seen(times, first=True)),
            ("max_over_time.*kube_pod_info", lambda times: self._seen(times, first=False)),
            ("kube_pod_created", self._created),
            ("kube_pod_container_resource_requests", self._requests),
            ("kube_replicaset_owner", self._owners),
            ("kube_node_status_(capacity|allocatable)", self._sizes),
            ("kube_node_status_condition", lambda times: self._nodes(times, "1")),
            ("kube_node_created", lambda times: self._nodes(times, "1700000000")),
            ("node_cpu_seconds_total", self._node_cpu),
            ("node_memory_", self._node_memory),
            ("container_cpu_", self._pod_cpu),
            ("container_memory_", self._pod_memory),
        )

    def query_range(self, promql: str, begin: int, end: int, step: int) -> bytes:
        """The answer; an unknown query has no series."""
        times = list(range(begin, end + 1, step))
        found: list[bytes] = []
        for pattern, measure in self._measures:
            if re.search(pattern, promql):
                found = list(measure(times))
                break
        if promql.startswith("count(") and found:
            found = [_series({}, [f'[{at},"{len(found)}"]' for at in times])]
        head = b'{"status":"success","data":{"resultType":"matrix","result":['
        return head + b",".join(found) + b"]}}"

    def _seen(self, times: list[int], *, first: bool) -> Iterator[bytes]:
        whole = [f'[{at},"{at - HOUR_SECONDS + 60 if first else at}"]' for at in times]
        for life, labels in zip(self._cluster.lives, self._info, strict=True):
            pieces = []
            for at, text in zip(times, whole, strict=True):
                began, ended = at - HOUR_SECONDS, at
                if life.began >= ended or life.ended <= began:
                    continue
                if life.began <= began and life.ended >= ended:
                    pieces.append(text)
                else:
                    seen = max(life.began, began + 60) if first else min(life.ended, ended)
                    pieces.append(f'[{at},"{seen}"]')
            if pieces:
                yield _series(labels, pieces)

    def _there(self, times: list[int]) -> Iterator[tuple[Life, slice]]:
        """The lives, and which of the times each has seen."""
        for life in self._cluster.lives:
            there = [i for i, at in enumerate(times) if life.began < at <= life.ended + 3540]
            if there:
                yield life, slice(there[0], there[-1] + 1)

    def _created(self, times: list[int]) -> Iterator[bytes]:
        for life, there in self._there(times):
            yield _series(life.labels, [f'[{at},"{life.began}"]' for at in times[there]])

    def _requests(self, times: list[int]) -> Iterator[bytes]:
        amounts = (("cpu", "0.1"), ("memory", str(GIB // 2)))
        for resource, amount in amounts:
            pieces = [f'[{at},"{amount}"]' for at in times]
            for life, there in self._there(times):
                yield _series(life.labels | {"resource": resource}, pieces[there])

    def _owners(self, times: list[int]) -> Iterator[bytes]:
        pieces = [f'[{at},"1"]' for at in times]
        for name in dict.fromkeys(life.replica_set for life in self._cluster.lives):
            owner = {"owner_kind": "Deployment", "owner_name": name[:-2]}
            yield _series({"namespace": "shop", "replicaset": name} | owner, pieces)

    def _sizes(self, times: list[int]) -> Iterator[bytes]:
        amounts = (("cpu", NODE_CORES), ("memory", NODE_GIB * GIB), ("pods", 250))
        for resource, amount in amounts:
            pieces = [f'[{at},"{amount}"]' for at in times]
            for labels in self._of_node:
                yield _series(labels | {"resource": resource}, pieces)

    def _nodes(self, times: list[int], value: str) -> Iterator[bytes]:
        pieces = [f'[{at},"{value}"]' for at in times]
        for labels in self._of_node:
            yield _series(labels, pieces)

    def _node_cpu(self, times: list[int]) -> Iterator[bytes]:
        steps = [self._cluster.step_ending(at) for at in times]
        for labels, ratios in zip(self._of_instance, self._cluster.ratios, strict=True):
            values = ratios[steps].tolist()
            yield _series(labels, [f'[{at},"{x}"]' for at, x in zip(times, values, strict=True)])

    def _node_memory(self, times: list[int]) -> Iterator[bytes]:
        pieces = [f'[{at},"0.5"]' for at in times]
        for labels in self._of_instance:
            yield _series(labels, pieces)

    def _pod_cpu(self, times: list[int]) -> Iterator[bytes]:
        steps = [self._cluster.step_ending(at) for at in times]
        curves = [
            [f'[{at},"{x}"]' for at, x in zip(times, curve[steps].tolist(), strict=True)]
            for curve in self._cluster.curves
        ]
        return self._pods(steps, curves)

    def _pod_memory(self, times: list[int]) -> Iterator[bytes]:
        steps = [self._cluster.step_ending(at) for at in times]
        curves = [
            [f'[{at},"{GIB // 4 + curve * GIB // 128}"]' for at in times] for curve in range(CURVES)
        ]
        return self._pods(steps, curves)

    def _pods(self, steps: list[int], curves: list[list[str]]) -> Iterator[bytes]:
        whole = [",".join(pieces).encode() for pieces in curves]
        for life in self._cluster.lives:
            first, last = self._cluster.steps_of(life)
            labels = {"namespace": "shop", "pod": life.name, "node": f"n{life.node}"}
            if first <= steps[0] and steps[-1] < last:
                yield _series_of(labels, whole[life.curve])
            elif pieces := [
                piece
                for step, piece in zip(steps, curves[life.curve], strict=True)
                if first <= step < last
            ]:
                yield _series(labels, pieces)


def _series(labels: dict[str, str], pieces: list[str]) -> bytes:
    return _series_of(labels, ",".join(pieces).encode())


def _series_of(labels: dict[str, str], values: bytes) -> bytes:
    inside = ",".join(f'"{name}":"{value}"' for name, value in labels.items())
    return b'{"metric":{' + inside.encode() + b'},"values":[' + values + b"]}"


def serve(answers: Answers) -> ThreadingHTTPServer:
    """A server on a free loopback port, not started."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body are two writes

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            begin, end = (int(float(query[key][0])) for key in ("start", "end"))
            step = int(query["step"][0].removesuffix("s"))
            body = answers.query_range(query["query"][0], begin, end, step)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing: standard output is the address."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def main(nodes: str, pods_per_node: str, days: str) -> None:
    """Serve until standard input ends."""
    server = serve(Answers(RecordedCluster(int(nodes), int(pods_per_node), int(days))))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
