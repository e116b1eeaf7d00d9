"""The time to plan for large clusters with soft taints: `python -m benchmarks.planning`.

The clusters are like those that production has: few workloads have many pods and most have few,
usage is heavy-tailed, and requests say little about it. 50 nodes are overloaded. In "nothing fits"
each pod on them requests more than any node has free. In "comes back" they are the least requested
nodes, so the scheduler prefers them. In "full" requests fill the cluster.

With `--gangs` each case is planned once more with HyperNodes, and with every second workload as a
gang that can spare a fifth of its pods.
"""

import argparse
import statistics
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import product

import msgspec
import numpy as np

from benchmarks.closed_loop import default_policy
from benchmarks.measures import measured_by
from desched.decision import decide
from desched.model.cluster import ClusterState, Node, Owner, Pod, SchedulingClass, Workload
from desched.model.load import ClusterLoad, Level, Measured, PodUsage
from desched.model.plan import Plan
from desched.model.resources import Amounts, Resource
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.network.objects import HyperNode, NetworkObjects
from desched.policy.policy import Policy

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=3)
CORES, MEMORY_GIB, PODS = 32, 128, 30
OVERLOADED = 50
GIB = 2**30
RUNS = 3
WELL_PACED = State(most_evictions=10_000)
"""After the slow start."""


class Case(StrEnum):
    """What keeps the pods of overloaded nodes where they are."""

    ORDINARY = "ordinary"
    NOTHING_FITS = "nothing fits"
    COMES_BACK = "comes back"
    FULL = "full"


REQUESTED = {
    Case.ORDINARY: (0.5, 0.8),
    Case.NOTHING_FITS: (0.85, 0.95),
    Case.COMES_BACK: (0.7, 0.9),
    Case.FULL: (0.93, 0.99),
}
"""The requests on a node that is not overloaded, as a share of its capacity."""
HOT_REQUESTED = {Case.NOTHING_FITS: 6.0, Case.COMES_BACK: 0.3, Case.FULL: 0.95}


def a_cluster(nodes: int, case: Case, seed: int = 1) -> Snapshot:
    """A random cluster; nodes `n00000` to `n00049` are overloaded."""
    chance = np.random.default_rng(seed)
    count = nodes * PODS
    sizes = np.minimum(chance.zipf(1.6, count) + 1, 600)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), count)) + 1]
    owner_of = chance.permutation(np.repeat(np.arange(len(sizes)), sizes)[:count])
    pods, usage, nodes_load = [], {}, {}
    classes: dict[tuple[int, int], SchedulingClass] = {}
    for number in range(nodes):
        hot = number < OVERLOADED
        busy = chance.uniform(0.85, 0.97) if hot else chance.uniform(0.1, 0.6)
        used = chance.lognormal(0.0, 1.0, PODS)
        used *= busy * CORES * 1000 / used.sum()
        requested = chance.lognormal(0.0, 0.6, PODS)
        share = HOT_REQUESTED.get(case, 0.7) if hot else chance.uniform(*REQUESTED[case])
        requested *= min(share, 1.0) * CORES * 1000 / requested.sum()
        for i in range(PODS):
            owner = int(owner_of[number * PODS + i])
            millicores = max(10, round(requested[i], -1))
            if hot and case is Case.NOTHING_FITS:
                millicores = CORES * 1000 // PODS * 5
            found = classes.setdefault(
                (owner, int(millicores)),
                SchedulingClass(Amounts(int(millicores), GIB // 2, pods=1)),
            )
            pods.append(_pod(number, i, owner, found))
            usage["shop", pods[-1].name] = PodUsage((float(used[i]),), (float(GIB // 4),))
        nodes_load[f"n{number:05}"] = {
            Resource.CPU: Measured((Level(300, float(busy)),)),
            Resource.MEMORY: Measured((Level(300, 0.2),)),
        }
    owners = {
        ("shop", f"rs-{w}"): Workload("Deployment", "shop", f"w{w}", f"d-{w}", n, ready_replicas=n)
        for w, n in Counter(owner_of.tolist()).items()
    }
    cluster = ClusterState(tuple(map(_node, range(nodes))), tuple(pods), owners)
    return Snapshot(cluster, ClusterLoad(nodes_load, usage), NOW)


def _node(number: int) -> Node:
    size = Amounts(CORES * 1000, MEMORY_GIB * GIB, pods=110)
    name = f"n{number:05}"
    return Node(
        name=name,
        uid=name,
        created_at=LONG_AGO,
        labels={"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        capacity=size,
        allocatable=size,
    )


def _pod(node: int, number: int, owner: int, scheduling: SchedulingClass) -> Pod:
    return Pod(
        namespace="shop",
        name=f"w{owner}-{node}-{number}",
        uid=f"p-{node}-{number}",
        scheduling=scheduling,
        created_at=LONG_AGO,
        started_at=LONG_AGO,
        labels={"app": f"w{owner}"},
        owner=Owner("ReplicaSet", f"w{owner}-1", f"rs-{owner}", "apps/v1"),
        node=f"n{node:05}",
    )


def with_gangs(seen: Snapshot) -> Snapshot:
    """The same cluster with a network of racks, blocks and halls, and with gangs."""
    state = seen.cluster
    of_gang = {
        uid: {
            "gang.scheduling.koordinator.sh/name": workload.name,
            "gang.scheduling.koordinator.sh/min-available": str(workload.desired_replicas * 4 // 5),
        }
        for (_, uid), workload in state.workloads.items()
        if int(workload.name[1:]) % 2 == 0
    }
    pods = tuple(
        msgspec.structs.replace(pod, annotations=of_gang.get(pod.owner.uid, {}))
        for pod in state.pods
        if pod.owner is not None
    )
    below = [node.name for node in state.nodes]
    hyper_nodes: list[HyperNode] = []
    for tier, (level, size) in enumerate((("rack", 20), ("block", 10), ("hall", 10)), 1):
        parts = [tuple(below[i : i + size]) for i in range(0, len(below), size)]
        found = [
            HyperNode(f"{level}{i}", tier, level, *((part, ()) if tier == 1 else ((), part)))
            for i, part in enumerate(parts)
        ]
        below = [each.name for each in found]
        hyper_nodes += found
    changed = msgspec.structs.replace(
        state, pods=pods, extras=NetworkObjects(tuple(hyper_nodes)).extras
    )
    return msgspec.structs.replace(seen, cluster=changed)


def plan(seen: Snapshot, policy: Policy) -> tuple[Plan, float]:
    """The plan, and the CPU seconds for it."""
    began = time.process_time()
    decision = decide(seen, policy, WELL_PACED)
    return decision.plan, time.process_time() - began


def main() -> None:
    """Plan each case several times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--gangs", action="store_true")
    options = parser.parse_args()
    print(
        f"{measured_by()}; {options.nodes:,} nodes, "
        f"{options.nodes * PODS:,} pods, {OVERLOADED} overloaded; CPU seconds, medians of {RUNS}"
    )
    policy = msgspec.structs.replace(default_policy(), eviction_price_minutes=0.0)
    with_or_without = (False, True) if options.gangs else (False,)
    print(f"{'':<26}{'seconds':>10}{'evictions':>11}  mostly refused for")
    for case, gangs in product(Case, with_or_without):
        plain = a_cluster(options.nodes, case)
        seen = with_gangs(plain) if gangs else plain
        runs = [plan(seen, policy) for _ in range(RUNS)]
        found, seconds = runs[0][0], statistics.median(each for _, each in runs)
        refused = Counter(r.reason.value for r in found.refusals).most_common(3)
        why = ", ".join(f"{name} {number}" for name, number in refused)
        title = f"{case}, gangs" if gangs else case
        print(f"{title:<26}{seconds:>10.2f}{len(found.evictions):>11}  {why}")


if __name__ == "__main__":
    main()
