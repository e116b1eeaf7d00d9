"""Drains nodes of a real trace for pods that wait for eight GPUs.

`python -m benchmarks.gpu_drains` places the pods of the trace of Weng et al. (USENIX ATC 2023; see
`benchmarks.gpu_fragmentation` for the files) on its nodes as kube-scheduler with its defaults does,
until they hold a share of all GPUs. A pod with a part of a GPU counts as one with a whole GPU: its
place on a device is not known to desched, which leaves such nodes out. Then twenty pods wait for
eight GPUs, 64 cores and 128 GiB each, and desched plans cycle after cycle. Of the pods with GPUs,
a share may move. The scheduler here is a stand-in in numpy: filters by requests and cordons, scores
LeastAllocated, BalancedAllocation and TaintToleration, ties at random.
"""

import argparse
import csv
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from desched.decision import decide
from desched.eviction.journal import Journal
from desched.model.cluster import (
    ClusterState,
    ControllerKey,
    Node,
    Owner,
    Pod,
    SchedulingClass,
    Workload,
)
from desched.model.load import ClusterLoad, Level, Measured, PodUsage
from desched.model.plan import Plan
from desched.model.resources import Amounts, Resource
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.policy.gpu_drains import GpuDrainRules
from desched.policy.policy import (
    EvictionLimits,
    MetricsSource,
    Policy,
    Protections,
    ResourceRule,
)

TRACE = Path("../shared/data/alibaba-gpu-v2023")
GPU = "nvidia.com/gpu"
MIB = 2**20
CYCLE = timedelta(minutes=5)
BEGAN = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
WANTED = Amounts(64_000, 128 * 1024 * MIB, pods=1, extended=((GPU, 8),))
WINDOW_SECONDS = 300


class Shape(NamedTuple):
    cpu_millicores: int
    memory_mib: int
    gpus: int

    @property
    def amounts(self) -> Amounts:
        devices = ((GPU, self.gpus),) if self.gpus else ()
        return Amounts(self.cpu_millicores, self.memory_mib * MIB, pods=1, extended=devices)


class Machine:
    """Nodes and pods, and a scheduler that spreads."""

    def __init__(self, sizes: Sequence[Shape], seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.sizes = np.array(sizes, dtype=np.int64).T
        self.free = self.sizes.copy()
        self.names = tuple(f"node-{i:04}" for i in range(len(sizes)))
        self.index = {name: i for i, name in enumerate(self.names)}
        self.tainted: dict[str, datetime] = {}
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[ControllerKey, Workload] = {}
        self.made = 0

    def choose(self, shape: Shape) -> int | None:
        """The node of a pod, by the scores of kube-scheduler's defaults."""
        wanted = np.array(shape, dtype=np.int64)[:, None]
        fits = (self.free >= wanted).all(axis=0)
        if not fits.any():
            return None
        left = (self.free - wanted)[:2]
        least = (left * 100 // self.sizes[:2]).sum(axis=0) // 2
        before, after = (1 - part / self.sizes[:2] for part in (self.free[:2], left))
        balance = [(1 - np.abs(used[0] - used[1]) / 2) * 100 for used in (before, after)]
        balanced = 50 + ((50 + balance[1].astype(int) - balance[0].astype(int)) / 2).astype(int)
        taints = np.array([name in self.tainted for name in self.names])
        most = max(1, int(taints[fits].max()))
        scores = np.where(fits, least + balanced + 3 * (100 - 100 * taints // most), -1)
        return int(self.chance.choice(np.flatnonzero(scores == scores.max())))

    def put(self, pod: Pod, shape: Shape, at: datetime) -> bool:
        """Place the pod, or leave it waiting."""
        node = self.choose(shape)
        if node is None:
            self.pods[pod.uid] = replace(pod, unschedulable=True)
            return False
        self.free[:, node] -= np.array(shape)
        self.pods[pod.uid] = replace(
            pod, node=self.names[node], started_at=at, unschedulable=False, phase="Running"
        )
        return True

    def evict(self, uid: str, at: datetime) -> None:
        """Take the pod off its node, and place its replacement."""
        pod = self.pods.pop(uid)
        shape = shape_of(pod)
        self.free[:, self.index[pod.node]] += np.array(shape)
        self.made += 1
        name = f"{pod.name.rpartition('-')[0]}-{self.made}"
        new = replace(pod, name=name, uid=f"uid-{name}", node="", created_at=at, started_at=None)
        self.put(new, shape, at)

    def schedule(self, at: datetime) -> None:
        """Place what waits."""
        for pod in sorted((p for p in self.pods.values() if not p.node), key=lambda p: p.name):
            self.put(pod, shape_of(pod), at)

    def waiting(self) -> int:
        return sum(not pod.node for pod in self.pods.values())


def shape_of(pod: Pod) -> Shape:
    requests = pod.scheduling.requests
    gpus = dict(requests.extended).get(GPU, 0)
    return Shape(requests.cpu_millicores, requests.memory_bytes // MIB, gpus)


def read_trace(folder: Path) -> tuple[list[Shape], list[Shape]]:
    with (folder / "openb_node_list_gpu_node.csv").open() as file:
        nodes = [Shape(*(int(r[k]) for k in ("cpu_milli", "memory_mib", "gpu"))) for r in csv.DictReader(file)]
    with (folder / "openb_pod_list_default.csv").open() as file:
        pods = [Shape(*(int(r[k]) for k in ("cpu_milli", "memory_mib", "num_gpu"))) for r in csv.DictReader(file)]
    return nodes, pods


def filled(flags: argparse.Namespace, seed: int) -> Machine:
    """The cluster once pods that ask for the share of all GPUs have come."""
    nodes, shapes = read_trace(flags.trace)
    machine = Machine(nodes, seed)
    come, most = 0, flags.demand * sum(node.gpus for node in nodes)
    for number in machine.chance.permutation(len(shapes)):
        shape = shapes[number]
        come += shape.gpus
        if come > most:
            break
        name = f"app-{number}"
        stays = bool(shape.gpus) and machine.chance.random() >= flags.movable
        owner = Owner("ReplicaSet", f"{name}-rs", f"uid-{name}", "apps/v1")
        key = ("apps", owner.uid)
        annotations = {"desched.io/evict": "false"} if stays else {}
        pod = Pod(
            "apps",
            f"{name}-0",
            f"uid-{name}-0",
            SchedulingClass(shape.amounts, scored_cpu_millicores=shape.cpu_millicores, scored_memory_bytes=shape.memory_mib * MIB),
            BEGAN - timedelta(days=float(machine.chance.exponential(0.5))),
            annotations=annotations,
            owner=owner,
        )
        if machine.put(pod, shape, pod.created_at):
            machine.workloads[key] = Workload("Deployment", "apps", name, f"d-{name}", 1, ready_replicas=1)
        else:
            del machine.pods[pod.uid]
    return machine


def with_demand(machine: Machine, count: int) -> None:
    for i in range(count):
        pod = Pod("train", f"big-{i:02}", f"uid-big-{i:02}", SchedulingClass(WANTED, scored_cpu_millicores=WANTED.cpu_millicores, scored_memory_bytes=WANTED.memory_bytes), BEGAN, phase="Pending")
        machine.put(pod, shape_of(pod), BEGAN)


def snapshot(machine: Machine, now: datetime) -> Snapshot:
    nodes = []
    for i, name in enumerate(machine.names):
        cpu, memory, gpus = (int(each) for each in machine.sizes[:, i])
        size = Amounts(cpu, memory * MIB, 0, 110, ((GPU, gpus),))
        until = machine.tainted.get(name)
        from desched.model.cluster import STEERING_TAINT

        taints = (STEERING_TAINT,) if until else ()
        nodes.append(Node(name, f"uid-{name}", BEGAN - timedelta(days=30), {"kubernetes.io/hostname": name}, size, size, taints=taints, steered_until=until))
    level = Measured((Level(WINDOW_SECONDS, 0.3),))
    loads = {name: {Resource.CPU: level, Resource.MEMORY: level} for name in machine.names}
    usage = {
        (pod.namespace, pod.name): PodUsage((100.0,), (float(2**26),))
        for pod in machine.pods.values()
        if pod.node
    }
    cluster = ClusterState(tuple(nodes), tuple(machine.pods.values()), machine.workloads)
    return Snapshot(cluster, ClusterLoad(loads, usage), now)


def rules() -> Policy:
    def rule(resource: Resource) -> ResourceRule:
        return ResourceRule(resource, 0.3, 0.8, 0.05, 0.1, (WINDOW_SECONDS,))

    return Policy(
        "benchmark",
        "benchmark",
        (rule(Resource.CPU), rule(Resource.MEMORY)),
        MetricsSource(""),
        limits=EvictionLimits(workload_hourly=None),
        protections=Protections(single_replicas=False),
        gpu_drains=GpuDrainRules(namespaces=("train",), pending_seconds=60, daily_moves=1000),
    )


def acted(machine: Machine, plan: Plan, state: State, policy: Policy, now: datetime) -> State:
    """Set the taints, and evict one pod after the other."""

    class Now:
        def now(self) -> datetime:
            return now

    journal = Journal(state, lambda _: None, policy.follow_up, Now())  # type: ignore[arg-type]
    lasting = now + 2 * CYCLE
    for removal in plan.removed_taints:
        machine.tainted.pop(removal.node, None)
    pods = {eviction.pod for eviction in plan.evictions}
    for taint in plan.taints:
        if taint.until_landed_of not in pods:
            machine.tainted[taint.node] = lasting
    for eviction in plan.evictions:
        for node in eviction.steered:
            machine.tainted[node] = lasting
        journal.remember(eviction)
        machine.evict(eviction.pod.uid, now + timedelta(seconds=5))
        machine.schedule(now + timedelta(seconds=10))
    return journal.state


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--demand", type=float, default=0.8)
    parser.add_argument("--movable", type=float, default=1.0)
    parser.add_argument("--pending", type=int, default=20)
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    flags = parser.parse_args(arguments)
    for seed in range(flags.seeds):
        machine = filled(flags, seed)
        with_demand(machine, flags.pending)
        state, policy, moves = State(), rules(), 0
        waiting = machine.waiting()
        print(f"seed {seed}: {len(machine.pods)} pods, {int(machine.free[2].sum())} GPUs idle, {waiting} of {flags.pending} wait")
        for cycle in range(flags.cycles):
            now = BEGAN + (cycle + 1) * CYCLE
            began = time.perf_counter()
            decision = decide(snapshot(machine, now), policy, state)
            seconds = time.perf_counter() - began
            plan = decision.plan
            state = acted(machine, plan, decision.state, policy, now)
            machine.schedule(now + timedelta(seconds=20))
            moves += len(plan.evictions)
            ends = [(str(d), d.end.value, d.why) for d in state.drains if d.end and d.ended_at == now]
            print(f"cycle {cycle}: {len(plan.evictions)} moves, {machine.waiting()} wait, {seconds:.1f} s, under way {sum(d.under_way for d in state.drains)}, held {len(machine.tainted)}", plan.hold, plan.unserved[:1], ends[:3], flush=True)
            if not machine.waiting():
                break
        print(f"seed {seed}: {flags.pending - machine.waiting()} of {flags.pending} placed after {moves} moves in {cycle + 1} cycles")


if __name__ == "__main__":
    main()
