"""Compares fragmentation with the published simulator, and times the survey of GPUs.

`python -m benchmarks.gpu_fragmentation` replays the trace of Weng et al. (USENIX ATC 2023): pods
arrive in random order and stay, until what they ask for is a share of all GPUs. It needs the trace:
`openb_node_list_gpu_node.csv` and `openb_pod_list_default.csv` from the folder `data/csv` of
github.com/hkust-adsl/kubernetes-scheduler-simulator (Apache-2.0), in `--trace DIR`, by default
`../shared/data/alibaba-gpu-v2023`. It ends with 1 if a figure is not as published, or too slow.
"""

import argparse
import csv
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

from desched.model.cluster import (
    ClusterState,
    ControllerKey,
    Node,
    Owner,
    Pod,
    SchedulingClass,
    Workload,
)
from desched.model.load import ClusterLoad, PodUsage
from desched.model.resources import Amounts, Resource
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.planning.arrays import Floats, Ints, Mask, Positions
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.pod_usage import UsageBook
from desched.plugins.gpus.fragmentation import fragmentation, popular
from desched.plugins.gpus.survey import GpuNodes, measured, survey
from desched.policy.policy import MetricsSource, Policy, ResourceRule

TRACE = Path("../shared/data/alibaba-gpu-v2023")
MOST_GPUS = 8
TOLERANCE_POINTS = 0.5
ROUNDING = 1e-9

NODES, CLASSES, WORKLOADS, WAITING, RUNS = 5_000, 120, 500, 10, 5
MOST_SECONDS = 0.5
GPU = "nvidia.com/gpu"
RACK = "topology.kubernetes.io/rack"
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


class TracePod(NamedTuple):
    """What a pod asks for: the share `gpu_share` of each of `gpus` GPUs."""

    cpu_millicores: int
    memory_mib: int
    gpus: int
    gpu_share: float

    @property
    def demand(self) -> float:
        """The GPUs that it asks for in sum."""
        return self.gpus * self.gpu_share


class Trace(NamedTuple):
    """Nodes with shapes (nodes,) and (nodes, GPUs), and the pods in the order of the file."""

    cpu_millicores: Ints
    memory_mib: Ints
    gpus: Floats
    pods: Sequence[TracePod]


class Room(NamedTuple):
    """What is free of each node; `gpus`, shape (nodes, GPUs), has 1.0 for an idle one."""

    cpu_millicores: Ints
    memory_mib: Ints
    gpus: Floats

    def enough_gpus(self, pod: TracePod) -> Mask:
        """The nodes with enough GPUs."""
        found: Mask = (self.gpus >= pod.gpu_share - ROUNDING).sum(axis=1) >= pod.gpus
        return found

    def take(self, node: int, pod: TracePod, gpus: Positions) -> None:
        """Put the pod on these GPUs of the node."""
        self.cpu_millicores[node] -= pod.cpu_millicores
        self.memory_mib[node] -= pod.memory_mib
        self.gpus[node, gpus] -= pod.gpu_share


Choice = Callable[[TracePod, Positions, Room, np.random.Generator], tuple[int, Positions]]
"""The node of a pod, of those where it fits, and its GPUs."""


def read_trace(folder: Path) -> Trace:
    with (folder / "openb_node_list_gpu_node.csv").open() as file:
        nodes = list(csv.DictReader(file))
    with (folder / "openb_pod_list_default.csv").open() as file:
        rows = list(csv.DictReader(file))
    gpus = np.array([int(row["gpu"]) for row in nodes])
    return Trace(
        np.array([int(row["cpu_milli"]) for row in nodes], dtype=np.int64),
        np.array([int(row["memory_mib"]) for row in nodes], dtype=np.int64),
        (np.arange(MOST_GPUS) < gpus[:, None]).astype(np.float64),
        [
            TracePod(
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]),
                int(row["gpu_milli"]) / 1000 if row["num_gpu"] != "0" else 0.0,
            )
            for row in rows
        ],
    )


def at_random(
    pod: TracePod, nodes: Positions, room: Room, chance: np.random.Generator
) -> tuple[int, Positions]:
    """Any node, and any of its GPUs that fit."""
    node = int(chance.choice(nodes))
    fitting = np.flatnonzero(room.gpus[node] >= pod.gpu_share - ROUNDING)
    return node, chance.permutation(fitting)[: pod.gpus]


def best_fit(
    pod: TracePod, nodes: Positions, room: Room, _: np.random.Generator
) -> tuple[int, Positions]:
    """The node with the least left of CPU and GPUs, of equal ones the first; its fullest GPUs."""
    cpu = (room.cpu_millicores[nodes] - pod.cpu_millicores) / room.cpu_millicores.max(initial=1)
    gpus = (room.gpus[nodes].sum(axis=1) - pod.demand) / MOST_GPUS
    node = int(nodes[int(np.argmin(cpu + gpus))])
    fitting = np.flatnonzero(room.gpus[node] >= pod.gpu_share - ROUNDING)
    return node, fitting[np.argsort(room.gpus[node, fitting], kind="stable")][: pod.gpus]


PUBLISHED: Mapping[str, tuple[Choice, float, float]] = {
    "Random": (at_random, 0.8, 15.92),
    "BestFit": (best_fit, 0.9, 7.41),
}
"""How nodes are chosen, the demand as a share of all GPUs, and the published fragmentation, in
percent of all GPUs: the means of ten seeds in the simulator's `expected_results`."""


def replayed(trace: Trace, choose: Choice, demand: float, seed: int) -> float:
    """The fragmentation in percent of all GPUs, once pods that ask for this share have come."""
    chance = np.random.default_rng(seed)
    room = Room(trace.cpu_millicores.copy(), trace.memory_mib.copy(), trace.gpus.copy())
    come, all_gpus = 0.0, float(trace.gpus.sum())
    for number in chance.permutation(len(trace.pods)):
        pod = trace.pods[number]
        come += pod.demand
        if come > demand * all_gpus:
            break
        fits = room.enough_gpus(pod) & (room.cpu_millicores >= pod.cpu_millicores)
        nodes = np.flatnonzero(fits & (room.memory_mib >= pod.memory_mib))
        if len(nodes):
            node, gpus = choose(pod, nodes, room, chance)
            room.take(node, pod, gpus)
    return 100 * float(_fragmentation(trace, room).sum()) / all_gpus


def _fragmentation(trace: Trace, room: Room) -> Floats:
    kinds = popular(Counter(pod._replace(memory_mib=0) for pod in trace.pods))
    hosts = [
        room.enough_gpus(kind) & (room.cpu_millicores >= kind.cpu_millicores) for kind in kinds
    ]
    return fragmentation(
        np.where(room.gpus < ROUNDING, 0.0, room.gpus),
        np.array(hosts),
        np.array([kind.gpu_share - ROUNDING for kind in kinds]),
        np.array(list(kinds.values())),
    )


def _large_cluster() -> EligibilityContext:
    """Nodes with eight GPUs in racks, and pods of many classes on them; some more wait."""
    chance = np.random.default_rng(1)
    size = Amounts(128_000, 2**40, pods=110, extended=((GPU, MOST_GPUS),))
    nodes = tuple(
        Node(f"g{i:04}", f"g{i}", NOW, {RACK: f"r{i // 16}"}, size, size) for i in range(NODES)
    )
    shapes = [(gpus, cpu) for gpus in (0, 1, 2, 4) for cpu in range(1, CLASSES // 4 + 1)]
    classes = [
        SchedulingClass(Amounts(cpu * 500, cpu * 2**30, pods=1, extended=((GPU, gpus),)))
        for gpus, cpu in shapes
    ]
    pods, workloads = list[Pod](), dict[ControllerKey, Workload]()
    for node in nodes:
        idle = MOST_GPUS
        for number in chance.integers(len(classes), size=6):
            if shapes[number][0] <= idle:
                idle -= shapes[number][0]
                pods.append(_pod(len(pods), classes[number], node.name))
    large = SchedulingClass(Amounts(1_000, 2**30, pods=1, extended=((GPU, MOST_GPUS),)))
    pods += [_pod(len(pods) + i, large) for i in range(WAITING)]
    for pod in pods:
        if pod.owner is not None:
            uid = pod.owner.uid
            workloads["apps", uid] = Workload("Deployment", "apps", uid, uid, 100)
    cluster = ClusterState(nodes, tuple(pods), workloads)
    usage = {("apps", pod.name): PodUsage((100.0,), (2.0**30,)) for pod in pods}
    rules = tuple(
        ResourceRule(resource, 0.3, 0.8, 0.05, 0.1, (300,))
        for resource in (Resource.CPU, Resource.MEMORY)
    )
    policy = Policy("benchmark", "benchmark", rules, MetricsSource(""))
    seen = Snapshot(cluster, ClusterLoad({}, usage), NOW)
    return EligibilityContext.of(UsageBook(seen, policy, NOW), State())


def _pod(number: int, scheduling: SchedulingClass, node: str = "") -> Pod:
    uid = f"w{number % WORKLOADS}"
    return Pod(
        "apps",
        f"p{number}",
        f"p{number}",
        scheduling,
        NOW - timedelta(days=1),
        owner=Owner("ReplicaSet", uid, uid, "apps/v1"),
        node=node,
        started_at=NOW - timedelta(days=1),
        unschedulable=not node,
    )


def seconds() -> tuple[float, float]:
    """The CPU time of measuring a large cluster, and of all that is answered; of several runs."""
    context, measuring, answering = _large_cluster(), list[float](), list[float]()
    for _ in range(RUNS):
        began = time.process_time()
        nodes = GpuNodes.of(context)
        assert nodes is not None
        found = measured(context, nodes)
        measuring.append(time.process_time() - began)
        assert 0 < found.fragmented < found.idle
        began = time.process_time()
        everything = survey(context)
        answering.append(time.process_time() - began)
        assert everything is not None
        assert len(everything.waits) == WAITING
    return statistics.median(measuring), statistics.median(answering)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    measuring, answering = seconds()
    print(
        f"{NODES:,} nodes, {CLASSES} classes: measured in {measuring:.2f} s of CPU; with the pods "
        f"that may move and the answers for {WAITING} kinds of waiting pods {answering:.2f} s"
    )
    good = measuring <= MOST_SECONDS
    if not arguments.trace.is_dir():
        print(f"There is no trace in {arguments.trace}, so nothing is compared.\n{__doc__}")
        return 1
    trace = read_trace(arguments.trace)
    for name, (choose, demand, published) in PUBLISHED.items():
        found = [replayed(trace, choose, demand, seed) for seed in range(arguments.seeds)]
        mean = statistics.mean(found)
        good &= abs(mean - published) <= TOLERANCE_POINTS
        each = ", ".join(f"{value:.2f}" for value in found)
        print(f"{name} at {demand:.0%}: {mean:.2f} % ({each}), published {published:.2f} %")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
