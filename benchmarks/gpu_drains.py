"""Drains nodes of a real trace for pods that wait for eight GPUs.

`python -m benchmarks.gpu_drains` places the pods of the trace of Weng et al. (USENIX ATC 2023; see
`benchmarks.gpu_fragmentation` for its files) on its nodes until they ask for a share of all GPUs.
A pod with a part of a GPU counts as one with a whole GPU: desched leaves nodes out whose GPUs pods
share. Then pods wait for eight GPUs, 64 cores and 128 GiB each, and desched plans cycle after
cycle, with all its default limits but the one by the hour: each pod is a workload of its own.

The scheduler is a stand-in in numpy: filters by requests, the scores LeastAllocated (or
MostAllocated with `--packed`), BalancedAllocation and TaintToleration, ties at random.
"""

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from benchmarks.gpu_fragmentation import TRACE, Trace, read_trace
from desched.decision import Decision, decide
from desched.eviction.journal import Journal
from desched.lab.clock import VirtualClock
from desched.model.cluster import (
    STEERING_TAINT,
    ClusterState,
    ControllerKey,
    Node,
    Owner,
    Pod,
    SchedulingClass,
    Workload,
)
from desched.model.load import ClusterLoad, Level, Measured, PodUsage
from desched.model.resources import Amounts, Resource
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.planning.arrays import Floats, Ints
from desched.plugins import HOUSE
from desched.plugins.gpus.drains.drain import DrainPlan
from desched.plugins.gpus.drains.rules import GpuDrainRules
from desched.plugins.gpus.plugin import Gpus
from desched.policy.policy import EvictionLimits, MetricsSource, Policy, Protections, ResourceRule
from desched.policy.schedulers import SchedulerRules, ScoringStrategy

GPU = "nvidia.com/gpu"
DRAINS = Gpus(GpuDrainRules(namespaces=("train",), pending_seconds=60, daily_moves=1000))
MIB = 2**20
CYCLE = timedelta(minutes=5)
BEGAN = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
WINDOW_SECONDS = 300
LOAD, USAGE = 0.3, PodUsage((100.0,), (64.0 * MIB,))


class Shape(NamedTuple):
    """What a pod requests, or a node has."""

    cpu_millicores: int
    memory_mib: int
    gpus: int

    @property
    def scheduling(self) -> SchedulingClass:
        """The same as a pod has it."""
        memory, devices = self.memory_mib * MIB, ((GPU, self.gpus),) if self.gpus else ()
        amounts = Amounts(self.cpu_millicores, memory, pods=1, extended=devices)
        return SchedulingClass(
            amounts, scored_cpu_millicores=self.cpu_millicores, scored_memory_bytes=memory
        )

    @classmethod
    def of(cls, pod: Pod) -> "Shape":
        """What the pod requests."""
        wanted = pod.scheduling.requests
        gpus = dict(wanted.extended).get(GPU, 0)
        return cls(wanted.cpu_millicores, wanted.memory_bytes // MIB, gpus)


WANTED = Shape(64_000, 128 * 1024, 8)


class Machine:
    """Nodes and pods, and a scheduler."""

    def __init__(self, trace: Trace, seed: int, *, packed: bool) -> None:
        gpus = trace.gpus.sum(axis=1).astype(np.int64)
        self.sizes: Ints = np.stack([trace.cpu_millicores, trace.memory_mib, gpus])
        self.free = self.sizes.copy()
        self.chance = np.random.default_rng(seed)
        self.packed = packed
        self.names = tuple(f"node-{i:04}" for i in range(len(gpus)))
        self.index = {name: i for i, name in enumerate(self.names)}
        self.tainted: dict[str, datetime] = {}
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[ControllerKey, Workload] = {}
        self._made = 0

    def put(self, pod: Pod, at: datetime) -> bool:
        """Place the pod, or leave it waiting; whether it has a node."""
        shape = Shape.of(pod)
        node = self._choose(shape)
        if node is None:
            self.pods[pod.uid] = replace(pod, unschedulable=True)
            return False
        self.free[:, node] -= np.array(shape)
        self.pods[pod.uid] = replace(
            pod, node=self.names[node], started_at=at, unschedulable=False, phase="Running"
        )
        return True

    def _choose(self, shape: Shape) -> int | None:
        """The node of a pod by kube-scheduler's scores."""
        wanted = np.array(shape, dtype=np.int64)[:, None]
        fits = (self.free >= wanted).all(axis=0)
        if not fits.any():
            return None
        after = self.free - wanted
        share = after if not self.packed else self.sizes - after
        rows = slice(2, 3) if self.packed else slice(0, 2)  # a packing profile scores GPUs
        fit = (share[rows] * 100 // self.sizes[rows]).mean(axis=0).astype(np.int64)
        change = self._balance(after) - self._balance(self.free)
        taints = np.array([name in self.tainted for name in self.names])
        most = max(1, int(taints[fits].max()))
        scores = fit + 50 + (50 + change) // 2 + 3 * (100 - 100 * taints // most)
        best = np.flatnonzero(fits & (scores == scores[fits].max()))
        return int(self.chance.choice(best))

    def _balance(self, free: Ints) -> Ints:
        used: Floats = 1 - free[:2] / self.sizes[:2]
        found: Ints = ((1 - np.abs(used[0] - used[1]) / 2) * 100).astype(np.int64)
        return found

    def evict(self, uid: str, at: datetime) -> None:
        """Take the pod off its node, and create its replacement."""
        pod = self.pods.pop(uid)
        self.free[:, self.index[pod.node]] += np.array(Shape.of(pod))
        self._made += 1
        name = f"{pod.name.rpartition('-')[0]}-{self._made}"
        self.put(replace(pod, name=name, uid=name, node="", created_at=at, started_at=None), at)

    def schedule(self, at: datetime) -> None:
        """Place what waits, by name."""
        for pod in sorted((p for p in self.pods.values() if not p.node), key=lambda p: p.name):
            self.put(pod, at)

    @property
    def waiting(self) -> int:
        """The number of pods without a node."""
        return sum(not pod.node for pod in self.pods.values())

    def snapshot(self, now: datetime) -> Snapshot:
        """All of it, with the same moderate load everywhere."""
        measured = Measured((Level(WINDOW_SECONDS, LOAD),))
        load = {Resource.CPU: measured, Resource.MEMORY: measured}
        pods = tuple(self.pods.values())
        cluster = ClusterState(tuple(map(self._node, self.names)), pods, self.workloads)
        usage = {(pod.namespace, pod.name): USAGE for pod in pods if pod.node}
        return Snapshot(cluster, ClusterLoad(dict.fromkeys(self.names, load), usage), now)

    def _node(self, name: str) -> Node:
        size = Shape(*map(int, self.sizes[:, self.index[name]])).scheduling.requests
        size = replace(size, pods=110)
        until = self.tainted.get(name)
        return Node(
            name,
            name,
            BEGAN - timedelta(days=30),
            {"kubernetes.io/hostname": name},
            size,
            size,
            taints=(STEERING_TAINT,) if until else (),
            steered_until=until,
        )


def filled(flags: argparse.Namespace, trace: Trace, seed: int) -> Machine:
    """The cluster once pods have come that ask for the share of all GPUs, and others wait."""
    machine = Machine(trace, seed, packed=flags.packed)
    come, most = 0, flags.demand * int(machine.sizes[2].sum())
    for number in machine.chance.permutation(len(trace.pods)):
        found = trace.pods[number]
        come += found.gpus
        if come > most:
            break
        stays = bool(found.gpus) and machine.chance.random() >= flags.movable
        name, started = (
            f"app-{number}",
            BEGAN - CYCLE - timedelta(hours=12 * machine.chance.random()),
        )
        owner = Owner("ReplicaSet", f"{name}-rs", name, "apps/v1")
        pod = Pod(
            "apps",
            f"{name}-0",
            f"{name}-0",
            Shape(found.cpu_millicores, found.memory_mib, found.gpus).scheduling,
            started,
            annotations={"desched.io/evict": "false"} if stays else {},
            owner=owner,
        )
        if machine.put(pod, started):
            workload = Workload("Deployment", "apps", name, name, 1, ready_replicas=1)
            machine.workloads["apps", owner.uid] = workload
        else:
            del machine.pods[pod.uid]
    for i in range(flags.pending):
        name = f"big-{i:02}"
        machine.put(Pod("train", name, name, WANTED.scheduling, BEGAN, phase="Pending"), BEGAN)
    return machine


def policy_of(flags: argparse.Namespace) -> Policy:
    strategy = ScoringStrategy.MOST_ALLOCATED if flags.packed else ScoringStrategy.LEAST_ALLOCATED
    return Policy(
        "benchmark",
        "benchmark",
        tuple(
            ResourceRule(resource, 0.3, 0.8, 0.05, 0.1, (WINDOW_SECONDS,))
            for resource in (Resource.CPU, Resource.MEMORY)
        ),
        MetricsSource(""),
        limits=EvictionLimits(workload_hourly=None),
        protections=Protections(single_replicas=False),
        scheduler=SchedulerRules(strategy),
        plugins=tuple(DRAINS if isinstance(plugin, Gpus) else plugin for plugin in HOUSE),
    )


def acted(machine: Machine, decision: Decision, policy: Policy, now: datetime) -> State:
    """Change the taints, evict one pod after the other, and return the state after that."""
    plan, clock = decision.plan, VirtualClock(now)
    journal = Journal(decision.state, lambda _: None, policy.follow_up, clock)
    for removal in plan.removed_taints:
        machine.tainted.pop(removal.node, None)
    until, pods = now + 2 * CYCLE, {eviction.pod for eviction in plan.evictions}
    for taint in plan.taints:
        if taint.until_landed_of not in pods:
            machine.tainted[taint.node] = until
    for eviction in plan.evictions:
        machine.tainted |= dict.fromkeys(eviction.steered, until)
        journal.remember(eviction)
        machine.evict(eviction.pod.uid, now)
        machine.schedule(now)
    return journal.state


def run(flags: argparse.Namespace, trace: Trace, seed: int) -> str:
    """The figures of a run as a row."""
    machine, policy, state = filled(flags, trace, seed), policy_of(flags), State()
    idle, moves, longest, before = int(machine.free[2].sum()), 0, 0.0, machine.waiting
    cycle = 0
    while machine.waiting and cycle < flags.cycles:
        cycle += 1
        now = BEGAN + cycle * CYCLE
        began = time.perf_counter()
        decision = decide(machine.snapshot(now), policy, state)
        longest = max(longest, time.perf_counter() - began)
        state = acted(machine, decision, policy, now)
        machine.schedule(now)
        moves += len(decision.plan.evictions)
        if flags.verbose:
            whys = [each.why for each in DrainPlan.of(decision.plan.extras).unserved[:1]]
            print(f"  {cycle}: {len(decision.plan.evictions)} moves", *whys)
    row = (seed, idle, before, machine.waiting, moves, cycle, f"{longest:.1f}")
    return " | ".join(f"{each:>8}" for each in row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--demand", type=float, default=0.8, help="as a share of all GPUs")
    parser.add_argument("--movable", type=float, default=1.0, help="share of pods with GPUs")
    parser.add_argument("--pending", type=int, default=20)
    parser.add_argument("--packed", action="store_true", help="a scheduler that packs GPUs")
    parser.add_argument("--cycles", type=int, default=40, help="the most")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--verbose", action="store_true")
    flags = parser.parse_args()
    trace = read_trace(flags.trace)
    print(" | ".join(f"{name:>8}" for name in HEADER))
    for seed in range(flags.seeds):
        print(run(flags, trace, seed), flush=True)


HEADER: Sequence[str] = ("seed", "idle", "waiting", "left", "moves", "cycles", "longest")


if __name__ == "__main__":
    main()
