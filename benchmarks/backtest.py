"""Measures backtests of a week: `python -m benchmarks.backtest [NODES PODS_PER_NODE DAYS]`.

Prometheus is a process of its own with a synthetic past (`benchmarks.past_server`), so that time on
the processor and peak memory are those of desched.
"""

import json
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

from benchmarks.cycle import POLICY
from benchmarks.measures import measured_by
from benchmarks.past_server import BEGIN, STEP_SECONDS
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.lab.past.backtest import backtest, lead_seconds
from desched.lab.past.run import Span
from desched.lab.prometheus.objects import Stretch
from desched.lab.prometheus.reader import HowToRead, PastReader
from desched.policy_file.loading import parse_policy

CASES = ((100, 16, 7), (1_000, 30, 7))


def measure(nodes: int, pods_per_node: int, days: int) -> None:
    """Run one case in this process and print a JSON line."""
    sizes = list(map(str, (nodes, pods_per_node, days)))
    command = [sys.executable, "-m", "benchmarks.past_server", *sizes]
    with subprocess.Popen(  # noqa: S603 (this very package's server)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        url = server.stdout.readline().strip()
        policy = parse_policy(POLICY, "benchmark").policy
        started_at = datetime.fromtimestamp(BEGIN, UTC)
        span = Span(started_at, started_at + timedelta(days=days))
        requests = 0

        def count(_done: int, of_all: int) -> None:
            nonlocal requests
            requests = of_all

        began = time.perf_counter(), time.process_time()
        how = HowToRead(span.ended_at + timedelta(days=1), progress=count)
        reader = PastReader(PrometheusConnection(url=url), lambda _: False, how)
        lead = -(-lead_seconds([policy]) // STEP_SECONDS) * STEP_SECONDS
        stretch = Stretch(BEGIN - lead, int(span.ended_at.timestamp()), STEP_SECONDS)
        past = reader.read([policy], stretch)
        reader.close()
        server.stdin.close()
    read = time.perf_counter(), time.process_time()
    peak_reading = _peak_mib()
    (found,) = backtest(past, [policy], span).policies
    ended = time.perf_counter(), time.process_time()
    print(
        json.dumps(
            {
                "chunks": requests,
                "read_seconds": read[0] - began[0],
                "read_cpu_seconds": read[1] - began[1],
                "replay_seconds": ended[0] - read[0],
                "replay_cpu_seconds": ended[1] - read[1],
                "peak_reading_mib": peak_reading,
                "peak_mib": _peak_mib(),
                "pods": len(past.pods),
                "overloaded_before": found.without.node_minutes,
                "overloaded_after": found.with_policy.node_minutes,
                "evictions": found.evictions,
            }
        )
    )


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run all cases, each in a process of its own."""
    print(f"{measured_by()}; seconds on the processor (of the clock)")
    for case in CASES:
        nodes, pods_per_node, days = case
        run = subprocess.run(  # noqa: S603 (this very module)
            [sys.executable, "-m", "benchmarks.backtest", *map(str, case)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found = json.loads(run.stdout)
        print(
            f"{days} days of {nodes:,} nodes and {nodes * pods_per_node:,} pods: read "
            f"{found['read_cpu_seconds']:.0f} ({found['read_seconds']:.0f}) s in "
            f"{found['chunks']} parts, replay {found['replay_cpu_seconds']:.0f} "
            f"({found['replay_seconds']:.0f}) s, peak {found['peak_mib']:,.0f} MiB; overloaded "
            f"{found['overloaded_before']:,.0f} → {found['overloaded_after']:,.0f} node-minutes "
            f"by {found['evictions']:,} evictions"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(*map(int, sys.argv[1:]))
    else:
        main()
