"""Shows one relief in any cluster: `python -m tests.controlplane.relief --kubeconfig FILE`.

Pods with load go to one worker, while the others take none. Then desched has to move some of them,
so that the worker is not overloaded any more. With `--image` it is installed by the chart, and the
pods of the load use CPU for real; without, it runs as a process here. It needs kubectl, and for
`--image` helm. Load comes from metrics-server, or from `--prometheus-url`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.manifests import Object, deployment
from tests.controlplane.waiting import wait_for
from tests.repository import ROOT

NAMESPACE = "desched-relief"
SYSTEM = "desched-system"
WORKLOADS = ("load-a", "load-b", "load-c")
REPLICAS = 2
SHARE = 0.08
"""Of the worker's CPU, by each pod; all together are above the target, and two fewer are below."""
TARGET_PERCENT = 40
PATIENCE_SECONDS = 900
BURN = """
import time
while True:
    begin = time.monotonic()
    while time.monotonic() - begin < {busy}: pass
    time.sleep({idle})
"""
SLICE_SECONDS = 0.1


class Cluster:
    """The cluster of a kubeconfig, by kubectl."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return run("kubectl", f"--kubeconfig={self.kubeconfig}", *arguments, stdin=stdin)

    def items(self, *arguments: str) -> list[Object]:
        found: list[Object] = json.loads(self.kubectl("get", *arguments, "-o", "json"))["items"]
        return found

    def workers(self) -> list[Object]:
        """The nodes that take pods."""
        return [node for node in self.items("nodes") if not node["spec"].get("taints")]

    def places(self) -> dict[str, str]:
        """Pods with load that stay, by the node that they are on."""
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
            for pod in self.items("pods", "-n", NAMESPACE)
            if "deletionTimestamp" not in pod["metadata"]
        }

    def wait_until_ready(self) -> None:
        for name in WORKLOADS:
            self.kubectl(
                *("rollout", "status", f"deployment/{name}", "-n", NAMESPACE),
                f"--timeout={PATIENCE_SECONDS}s",
            )


def run(*command: str, stdin: str | None = None) -> str:
    """What a program writes.

    Raises:
        SystemExit: it fails; the message has what it wrote.
    """
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def load(name: str, image: str, node: Object) -> Object:
    """A Deployment whose pods use a share of this node's CPU."""
    cores = int(node["status"]["capacity"]["cpu"])
    used = SHARE * cores
    whole = deployment(name, REPLICAS, f"{round(used * 1000)}m", NAMESPACE, cpu_request="10m")
    (container,) = whole["spec"]["template"]["spec"]["containers"]
    busy = used * SLICE_SECONDS
    code = BURN.format(busy=busy, idle=SLICE_SECONDS - busy)
    container |= {"image": image, "command": ["python3", "-c", code]}
    return whole


def policy(prometheus_url: str, window: str) -> str:
    """Overloaded above the target; nothing else is special."""
    source = {"type": "prometheus", "address": prometheus_url}
    arguments = {
        "metrics": source if prometheus_url else {"type": "metrics-server"},
        "thresholds": {"cpu": 20, "memory": 20},
        "targetThresholds": {"cpu": TARGET_PERCENT, "memory": 95},
        "windows": {"cpu": [window], "memory": [window]},
    }
    profile = {
        "name": "relief",
        "pluginConfig": [{"name": "LoadAware", "args": arguments}],
        "plugins": {"balance": {"enabled": ["LoadAware"]}},
    }
    document = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [profile],
    }
    return yaml.safe_dump(document)


def make_overload(cluster: Cluster, image: str) -> str:
    """Puts the load on one worker, and returns its name."""
    hot, *others = cluster.workers()
    if not others:
        sys.exit("Two nodes without taints are needed.")
    names = [node["metadata"]["name"] for node in others]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    manifests = [namespace, *(load(name, image, hot) for name in WORKLOADS)]
    try:
        cluster.kubectl("cordon", *names)
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))
        cluster.wait_until_ready()
    finally:
        cluster.kubectl("uncordon", *names)
    return str(hot["metadata"]["name"])


@contextmanager
def installed(cluster: Cluster, image: str, file: Path) -> Iterator[Callable[[], bool]]:
    """The chart, with the rights to evict and to steer; its log is written if the relief fails."""
    repository, _, tag = image.rpartition(":")
    run(
        *("helm", "upgrade", "--install", "desched", str(ROOT / "deploy" / "chart")),
        *("--kubeconfig", str(cluster.kubeconfig), "--namespace", SYSTEM, "--create-namespace"),
        *("--set", f"image.repository={repository},image.tag={tag},mode=evict"),
        *("--set", "schedule.interval=1m", "--set-file", f"policy={file}"),
        *("--wait", "--timeout", "5m"),
    )
    try:
        yield lambda: True
    except BaseException:
        label = "app.kubernetes.io/name=desched"
        print(cluster.kubectl("logs", "-n", SYSTEM, "-l", label, "--prefix", "--tail=200"))
        raise


@contextmanager
def running(cluster: Cluster, file: Path, log: Path) -> Iterator[Callable[[], bool]]:
    """A process of this machine that evicts, and whether it still runs; its log is in a file."""
    command = (sys.executable, "-m", "desched", "--evict", "--interval", "5s")
    where = ("--kubeconfig", str(cluster.kubeconfig), "--policy", str(file))
    address = ("--listen-address", "127.0.0.1:0", "--pages-address", "127.0.0.1:0")
    state = ("--state-namespace", NAMESPACE)
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, *where, *address, *state], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield lambda: process.poll() is None
        except BaseException:
            print(log.read_text()[-20_000:])
            raise
        finally:
            process.terminate()
            process.wait()


def node_class(cluster: Cluster, file: Path, node: str, *, wait: bool) -> str:
    """What a plan of desched makes of the node."""
    command = (sys.executable, "-m", "desched", "plan", "--output", "json", "--policy", str(file))
    patience = ("--wait", "3m") if wait else ()
    where = ("--kubeconfig", str(cluster.kubeconfig), "--state-namespace", NAMESPACE)
    done = subprocess.run(
        [*command, *where, *patience], capture_output=True, text=True, check=False
    )
    if not done.stdout.startswith("{"):
        sys.exit(done.stderr)
    nodes: list[Any] = json.loads(done.stdout)["plan"]["nodes"]
    return next(str(each["node_class"]) for each in nodes if each["node"] == node)


def relieved(
    cluster: Cluster, file: Path, hot: str, runs: Callable[[], bool], *, wait: bool
) -> list[str]:
    """The pods that moved to other nodes, once the node is not overloaded any more."""

    def moved() -> list[str]:
        return [pod for pod, node in cluster.places().items() if node not in {"", hot}]

    def enough() -> list[str]:
        if not runs():
            sys.exit("desched ended.")
        found = moved()
        if not found or node_class(cluster, file, hot, wait=wait) in {"overloaded", "unknown"}:
            return []
        return found

    wait_for("a relief", enough, PATIENCE_SECONDS)
    cluster.wait_until_ready()
    return moved()


def main(arguments: list[str]) -> None:
    """Exits with an error if there is no relief."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--image", default="", help="of desched, which the nodes have")
    parser.add_argument("--prometheus-url", default="")
    parser.add_argument("--window", default="2m", help="over which load counts")
    given = parser.parse_args(arguments)
    cluster = Cluster(given.kubeconfig)
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        file = Path(directory) / "policy.yaml"
        file.write_text(policy(given.prometheus_url, given.window))
        hot = make_overload(cluster, given.image or "python")
        print(f"{len(cluster.places())} pods with load are on {hot}", flush=True)
        runs = stack.enter_context(
            installed(cluster, given.image, file)
            if given.image
            else running(cluster, file, Path(directory) / "log")
        )
        moved = relieved(cluster, file, hot, runs, wait=not given.prometheus_url)
        print(f"{hot} is relieved: {len(moved)} pods moved, the others stayed")
    if len(moved) > len(WORKLOADS):
        sys.exit("Two moves would have been enough.")


if __name__ == "__main__":
    main(sys.argv[1:])
