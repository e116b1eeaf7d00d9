"""Measures observing and planning of whole clusters: `python -m benchmarks.cycle`.

Each case runs through the real adapters, in a process of its own. The server is another process, so
that the peak memory is that of desched. 10 % of the nodes are overloaded.
"""

import gc
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.measures import measured_by
from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.decision import decide
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.policy_file.loading import parse_policy

CASES = ((1_000, "fits"), (5_000, "fits"), (1_000, "nothing fits"), (5_000, "nothing fits"))
PODS_PER_NODE = 30
RUNS = 5

POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: benchmark
  pluginConfig:
  - name: LoadAware
    args:
      metrics: {type: Prometheus}
      targetThresholds: {cpu: 80, memory: 85}
      thresholds: {cpu: 30, memory: 30}
  plugins: {balance: {enabled: [LoadAware]}}
"""


def kubeconfig(url: str, directory: str) -> Path:
    path = Path(directory) / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "synthetic",
                "clusters": [{"name": "synthetic", "cluster": {"server": url}}],
                "users": [{"name": "nobody", "user": {}}],
                "contexts": [
                    {"name": "synthetic", "context": {"cluster": "synthetic", "user": "nobody"}}
                ],
            }
        )
    )
    return path


def measure(node_count: int, fits: str) -> None:
    """Run one case in this process and print a JSON line."""
    command = [sys.executable, "-m", "benchmarks.server", str(node_count), str(PODS_PER_NODE), fits]
    with (
        tempfile.TemporaryDirectory() as directory,
        subprocess.Popen(  # noqa: S603 (this very module's server)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server,
    ):
        assert server.stdout is not None
        assert server.stdin is not None
        url = server.stdout.readline().strip()
        policy = parse_policy(POLICY, "benchmark").policy
        cluster_reader = KubernetesReader(connect(kubeconfig(url, directory), None))
        load_reader = PrometheusLoadReader(PrometheusConnection(url=url), lambda _: False)
        observing, planning, evictions, refusals = [], [], 0, 0
        for _ in range(RUNS):
            began = time.perf_counter()
            cluster = cluster_reader.read_cluster()
            load = load_reader.read_load(cluster, policy)
            now = datetime.now(UTC)
            observed = time.perf_counter()
            plan = decide(Snapshot(cluster, load, now), policy, State()).plan
            planning.append(time.perf_counter() - observed)
            observing.append(observed - began)
            evictions, refusals = len(plan.evictions), len(plan.refusals)
            assert plan.hold is None, plan.hold_detail
            del cluster, load, plan
            gc.collect()
        server.stdin.close()
    print(
        json.dumps(
            {
                "observe": statistics.median(observing),
                "plan": statistics.median(planning),
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "evictions": evictions,
                "refusals": refusals,
            }
        )
    )


def main() -> None:
    """Run all cases, each in a process of its own."""
    print(f"{measured_by()}; medians of {RUNS} cycles")
    print(f"{'case':<42}{'observe':>9}{'plan':>9}{'peak':>11}{'evictions':>11}{'refusals':>10}")
    found = {}
    for node_count, fits in CASES:
        run = subprocess.run(  # noqa: S603 (this very module)
            [sys.executable, "-m", "benchmarks.cycle", str(node_count), fits],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        case = found[node_count, fits] = json.loads(run.stdout)
        name = f"{node_count:,} nodes, {node_count * PODS_PER_NODE:,} pods, {fits}"
        print(
            f"{name:<42}"[:42]
            + f"{case['observe']:>7.2f} s{case['plan']:>7.2f} s{case['peak_mib']:>7.0f} MiB"
            f"{case['evictions']:>11}{case['refusals']:>10}"
        )
    for fits in ("fits", "nothing fits"):
        small, large = found[1_000, fits], found[5_000, fits]
        print(
            f"five times the size, {fits}: observe x{large['observe'] / small['observe']:.1f}, "
            f"plan x{large['plan'] / small['plan']:.1f}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]), sys.argv[2])
    else:
        main()
