"""A small cluster of real nodes on this machine, and Prometheus that scrapes them."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.metrics_server import metrics_server
from tests.controlplane.process import Server
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.waiting import wait_for
from tests.nodes import cgroups, node
from tests.nodes.cgroups import Cgroup
from tests.nodes.machine import SPACES
from tests.nodes.network import own_network
from tests.nodes.registry import Registry

NAMES = ("node1", "node2", "node3")
ADDED = "node4"
"""Started by a story; Prometheus would scrape it."""

Meter = Callable[[], dict[str, float]]

MEMORY_BYTES = 3 << 30
SCRAPE_SECONDS = 15


class Node(Server):
    """A node's processes, of which `unshare` is the first; they end with it."""

    def __init__(
        self, name: str, cgroup: Cgroup, directory: Path, configuration: Mapping[str, Any]
    ) -> None:
        self.address: str = configuration["address"]
        self.cgroup = cgroup
        cgroup.limit(cpus=1, memory_bytes=MEMORY_BYTES)
        inside = "".join(f"echo 0 > {path}/cgroup.procs; " for path in cgroup.folders.values())
        program = f"{sys.executable} {node.__file__}"
        script = f'{inside} exec unshare {" ".join(SPACES)} {program} "$0"'
        super().__init__(name, ["sh", "-euc", script, json.dumps(configuration)], directory)

    def program(self, name: str) -> int:
        """The process id of one of the programs of the node."""

        def found() -> int:
            (first,) = _children(self.pid)
            named = (each for each in _children(first) if _comm(each) == name[:15])
            return next(named, 0)

        return self.wait_until(f"{name} of {self.name}", found)

    @contextmanager
    def silent_kubelet(self) -> Iterator[None]:
        """The kubelet does nothing meanwhile, and its pods run on."""
        kubelet = self.program("kubelet")
        os.kill(kubelet, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(kubelet, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """One of its programs, which is started again at once."""
        os.kill(self.program(name), signal.SIGKILL)

    def log_tail(self) -> str:
        """Of each of its programs."""
        folder = self.log.parent / self.name
        logs = [self.log, *sorted(folder.glob("*.log"))]
        return "\n".join(f"{log}: …{log.read_text(errors='replace')[-2000:]}" for log in logs)


class Lab:
    """Starts on entering, and leaves nothing; everything listens in its own network."""

    def __init__(self, binaries: Mapping[str, Path]) -> None:
        self._binaries = binaries
        named = enumerate((*NAMES, ADDED), start=1)
        self._addresses = {name: f"10.77.0.{10 + number}" for number, name in named}
        self.nodes: dict[str, Node] = {}
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _start(self) -> None:
        enter = self._cleanup.enter_context
        enter(own_network(self._addresses.values()))
        self.plane = enter(ControlPlane(self._binaries, real_nodes=True))
        self.registry = enter(Registry(self._binaries["burn"]))
        self.registry.names |= {"pause", "burn"}
        cgroups.remove_leftovers()
        self._cgroup = Cgroup(f"{cgroups.PREFIX}{os.getpid()}")
        self._cleanup.callback(self._cgroup.remove)
        self._cgroup.set("cpu.shares", cgroups.SHARES)
        for name in NAMES:
            self.start_node(name)
        jobs = list(_scrape_jobs(self._addresses))
        directory = self.plane.directory / "prometheus"
        interval = f"{SCRAPE_SECONDS}s"
        prometheus = self._binaries["prometheus"]
        self.prometheus = enter(PrometheusServer(prometheus, None, directory, interval, jobs))
        for name in NAMES:
            self.wait_until_ready(name)

    def start_node(self, name: str) -> None:
        """It becomes Ready after some seconds."""
        directory = self.plane.directory / name
        directory.mkdir()
        configuration = {
            "name": name,
            "address": self._addresses[name],
            "pods": f"10.88.{name.removeprefix('node')}.0/24",
            "memory_bytes": MEMORY_BYTES,
            "directory": str(directory),
            "kubeconfig": str(self.plane.admin_kubeconfig),
            "binaries": str(self._binaries["kubelet"].parent),
            "registry": self.registry.url,
        }
        cgroup = self._cgroup.child(name)
        self.nodes[name] = Node(name, cgroup, self.plane.directory, configuration)
        self._cleanup.callback(self.nodes[name].stop)

    def wait_until_ready(self, name: str) -> None:
        self.nodes[name].wait_until(f"{name} is Ready", partial(self.is_ready, name))

    def wait_until_not_ready(self, name: str) -> None:
        """Or has a taint, because its kubelet is silent or short of memory."""
        self.nodes[name].wait_until(f"{name} is not Ready", lambda: not self.is_ready(name))

    def is_ready(self, name: str) -> bool:
        """As the API server says."""
        status, found = self.plane.request("GET", f"/api/v1/nodes/{name}")
        return (
            status == 200
            and not found["spec"].get("taints")
            and any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in found["status"]["conditions"]
            )
        )

    def metrics_server(self, directory: Path) -> AbstractContextManager[Server]:
        """It reads the kubelets as Prometheus does."""
        flags = ("--kubelet-insecure-tls", "--kubelet-preferred-address-types=InternalIP")
        return metrics_server(self.plane, self._binaries["metrics-server"], directory, *flags)

    def meter(self) -> Meter:
        """How much CPU nodes have used since then, by name, and pods, by uid: the truth."""
        began, before = time.monotonic(), self._cpu_seconds()

        def since_then() -> dict[str, float]:
            passed, after = time.monotonic() - began, self._cpu_seconds()
            return {name: (after[name] - before[name]) / passed for name in after.keys() & before}

        return since_then

    def busy(self, seconds: float) -> dict[str, float]:
        """The same in the next seconds."""
        began, read = time.monotonic(), self.meter()
        wait_for("a mean", lambda: time.monotonic() - began >= seconds)
        return read()

    def _cpu_seconds(self) -> dict[str, float]:
        return {
            each: seconds
            for name, node in self.nodes.items()
            for each, seconds in {name: node.cgroup.cpu_seconds(), **node.cgroup.pods()}.items()
        }


def _scrape_jobs(addresses: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Those of kube-prometheus, with its labels."""
    for path in ("/metrics/cadvisor", "/metrics/resource", "/metrics/probes"):
        yield {
            "job_name": f"kubelet{path}",
            "metrics_path": path,
            "scheme": "https",
            "tls_config": {"insecure_skip_verify": True},
            "honor_labels": True,
            "static_configs": [
                {
                    "targets": [f"{address}:10250"],
                    "labels": {
                        "job": "kubelet",
                        "metrics_path": path,
                        "namespace": "kube-system",
                        "service": "kubelet",
                        "endpoint": "https-metrics",
                        "node": name,
                    },
                }
                for name, address in addresses.items()
            ],
        }
    yield {
        "job_name": "node-exporter",
        "static_configs": [
            {
                "targets": [f"{address}:9100"],
                "labels": {
                    "instance": name,
                    "namespace": "monitoring",
                    "container": "node-exporter",
                    "endpoint": "https",
                    "service": "node-exporter",
                },
            }
            for name, address in addresses.items()
        ],
    }


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
