"""Real cycles on a simulated cluster whose load they change, and their results.

The same day can be run with several policies, or with another descheduler.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.history.overload import Overload, overload_of
from desched.lab.history import Floats, LoadHistory
from desched.lab.load import MEASURED, NodeLoads
from desched.lab.scheduler.choice import NodeSample
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import Node, PodRef
from desched.model.report import CycleReport, EvictionVerdict, Mode
from desched.model.resources import Amounts
from desched.model.state import State
from desched.policy.policy import Policy
from desched.ports import Announcement, EvictionAnswer, World

Act = Callable[[World], object]
"""Runs one cycle."""
Event = Callable[[Simulation], None]
"""Puts what happens to the cluster on the clock of a new simulation."""

INTERVAL_SECONDS = 300.0
REPEAT_SECONDS = 3600.0
"""A workload or pod that is evicted again within this time is a repeat."""
LANDED_SECONDS = 180.0
"""The time from a landing to the check whether its node is overloaded."""


@dataclass(frozen=True)
class Deployment:
    """A Deployment with a replica for each of its template's series; `nodes` has its first pods."""

    name: str
    template: PodTemplate
    nodes: tuple[str, ...] = ()
    namespace: str = "default"


@dataclass(frozen=True)
class Day:
    """A cluster at second 0 with the load of its pods; every run begins in the same state.

    For each pod, the scheduler compares a random `compared_share` of the nodes. Of equal nodes, it
    chooses the first by name, or with `random_ties` any of them, as kube-scheduler does. The
    events are the same in every run.
    """

    nodes: Mapping[str, Amounts]
    deployments: tuple[Deployment, ...]
    compared_share: float = 1.0
    random_ties: bool = False
    events: tuple[Event, ...] = ()

    def begin(self) -> Simulation:
        """A new simulation of this day."""
        sampled = self.random_ties or self.compared_share < 1.0
        simulation = Simulation(NodeSample(self.compared_share) if sampled else None)
        for name, size in self.nodes.items():
            simulation.cluster.add_node(
                name, cpu_millicores=size.cpu_millicores, memory_bytes=size.memory_bytes
            )
        for deployment in self.deployments:
            replicas = len(deployment.template.usage_by_replica)
            simulation.cluster.add_deployment(
                deployment.namespace,
                deployment.name,
                replicas,
                deployment.template,
                nodes=deployment.nodes,
            )
        for event in self.events:
            event(simulation)
        return simulation


class LoopMove(NamedTuple):
    """An accepted eviction and the landing of the replacement; `landed_at` is None before it.

    `workload` is the uid of the ReplicaSet, `pod` and `replacement` are uids, the latter empty if
    no pod was wanted any longer; `ref` is the evicted pod. `overloaded` is whether `landed_on` was
    above a target LANDED_SECONDS after the landing.
    """

    at: float
    workload: str
    pod: str
    node: str
    replacement: str
    landed_at: float | None = None
    landed_on: str = ""
    overloaded: bool = False
    ref: PodRef = PodRef("", "")


class Pace(NamedTuple):
    """When cycles run and which time a result covers, in seconds since the simulation began.

    The result begins at `begins_at`, the first cycle follows after one interval. The load of the
    result is in steps of `step_seconds`.
    """

    interval_seconds: float = INTERVAL_SECONDS
    begins_at: float = 0.0
    step_seconds: float = 60.0

    def done_share(self, now: float, cycles: int) -> float:
        """The share of so many intervals that has passed."""
        return min(1.0, (now - self.begins_at) / (cycles * self.interval_seconds))


ORDINARY_PACE = Pace()


@dataclass(frozen=True)
class LoopResult:
    """The result of a run; `load` is node x step x (CPU, memory) as shares of the capacity.

    It is NaN where it is not known, and more than 1 where pods ask for more than the node has.
    `targets` has the same form, or one that numpy extends to it.
    `replicas` has the number of replicas by the workload's uid as in `moves`. Without
    `demand_is_known`, the load is what pods got, which may be less than they asked for.
    """

    load: Floats
    targets: Floats
    moves: Sequence[LoopMove]
    seconds: float
    replicas: Mapping[str, int]
    step_seconds: float = 60.0
    demand_is_known: bool = True

    @property
    def overloaded(self) -> NDArray[np.bool_]:
        """Whether CPU or memory is above its target, node x step."""
        mask: NDArray[np.bool_] = np.any(self.load > self.targets, axis=2)
        return mask

    @cached_property
    def overload(self) -> Overload:
        """How long, and how far, nodes were above their targets."""
        targets = np.broadcast_to(self.targets, self.load.shape)
        loads = {r: (self.load[:, :, i], targets[:, :, i]) for i, r in enumerate(MEASURED)}
        minutes = self.step_seconds / 60
        if not self.demand_is_known:
            return overload_of(loads, minutes)
        found = overload_of(loads, minutes, full_ratio=1.0)
        return msgspec.structs.replace(found, unmet_cpu_node_minutes=self.unmet_cpu_node_minutes)

    @property
    def unmet_cpu_node_minutes(self) -> float:
        """The CPU that pods asked for and did not get; the CPU of a node for a minute is 1."""
        missing = np.nan_to_num(self.load[:, :, 0] - 1).clip(min=0)
        return float(missing.sum() * self.step_seconds / 60)

    @property
    def share_within_hour(self) -> float:
        """The largest share of a workload's replicas that moved within an hour, of any workload."""
        times: dict[str, list[float]] = {}
        for move in self.moves:
            times.setdefault(move.workload, []).append(move.at)
        shares = (
            (i - bisect_left(moved, moved[i] - REPEAT_SECONDS, hi=i) + 1) / self.replicas[workload]
            for workload, moved in times.items()
            for i in range(len(moved))
        )
        return max(shares, default=0.0)

    @property
    def replica_repeats(self) -> int:
        """Evictions of the replacement of a pod that was evicted less than an hour before."""
        return _repeats((move.at, move.pod, move.replacement) for move in self.moves)

    @property
    def came_back(self) -> int:
        """Replacements that landed on the node that the pod had left."""
        return sum(move.landed_on == move.node for move in self.moves)

    @property
    def landed_overloaded(self) -> int:
        """Replacements that landed on another node, which became or stayed overloaded."""
        return sum(move.overloaded and move.landed_on != move.node for move in self.moves)

    @property
    def pending_minutes(self) -> float:
        """The sum of the times that replacements waited for a node."""
        moves = [move for move in self.moves if move.replacement]
        ends = [self.seconds if m.landed_at is None else m.landed_at for m in moves]
        return (sum(ends) - sum(move.at for move in moves)) / 60


class Descheduler:
    """desched itself: real cycles, each with the state of the cycle before."""

    def __init__(
        self,
        policy: Policy,
        target: str,
        state: State | None = None,
    ) -> None:
        self._policy = policy
        self._target = target
        self._state = state or State()
        self._cycles = 0

    def cycle(self, world: World) -> CycleReport:
        """Run the next cycle."""
        self._cycles += 1
        info = CycleInfo(self._cycles, Mode.EVICT, self._target)
        report, _ = run_cycle(world, self._policy, self._state, info)
        self._state = report.state
        return report

    @property
    def has_nothing_under_way(self) -> bool:
        """Whether the next cycle only needs to act if a node is overloaded.

        It need not if a cycle has run, and no earlier move can change the state but by its age.
        """
        state = self._state
        moves = state.evictions, state.nodes, state.extras
        return state.last_cycle is not None and not any((*moves, state.pauses, state.failures))


def run(
    simulation: Simulation,
    act: Act,
    policy: Policy,
    cycles: int,
    pace: Pace = ORDINARY_PACE,
) -> LoopResult:
    """Call `act` with the simulated world in each cycle, as `run_cycles`.

    A node is overloaded above a target of the policy. A node counts while it exists.
    """
    evictor = RecordingEvictor(simulation)
    run_cycles(simulation, act, cycles, pace, evictor)
    nodes = simulation.cluster.all_nodes
    load = load_by_step(simulation, nodes, pace)
    return evictor.result(nodes, load, targets_of(policy), pace)


def run_cycles(
    simulation: Simulation,
    act: Act,
    cycles: int,
    pace: Pace,
    evictor: "RecordingEvictor",
) -> None:
    """Call `act` on each tick, then let one more interval pass."""
    world = simulation.world(acting=True)._replace(evictor=evictor)
    clock = simulation.clock
    for tick in range(1, cycles + 2):
        # Acting takes time, too; the next cycle begins on its tick nevertheless.
        clock.advance(pace.begins_at + tick * pace.interval_seconds - clock.monotonic())
        if tick <= cycles:
            act(world)


def load_by_step(simulation: Simulation, nodes: Sequence[Node], pace: Pace) -> Floats:
    """The mean load of nodes in each step of a result: node x step x (CPU, memory)."""
    loads = NodeLoads(nodes, simulation.cluster)
    steps = int((simulation.clock.monotonic() - pace.begins_at) // pace.step_seconds)
    ends = [pace.begins_at + (i + 1) * pace.step_seconds for i in range(steps)]
    return np.stack([loads.shares(end - pace.step_seconds, end) for end in ends], axis=1)


def targets_of(policy: Policy) -> Floats:
    """The targets of CPU and memory as ratios; infinite without a rule for the resource."""
    ratios = {rule.resource: rule.target_ratio for rule in policy.rules}
    return np.array([ratios.get(resource, np.inf) for resource in MEASURED])


class RecordingEvictor:
    """The Evictor port of a simulation; it records accepted evictions."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._moves: list[LoopMove] = []
        self._replicas: dict[str, int] = {}

    def evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        """Request the eviction of exactly this pod, once."""
        cluster = self._simulation.cluster
        evicted = cluster.pod(pod)
        answer = self._simulation.evictor.evict(pod, reason)
        if answer.verdict is EvictionVerdict.EVICTED and evicted and evicted.owner:
            now, owner = self._simulation.clock.monotonic(), evicted.owner.uid
            newest = cluster.newest_pod()  # the ReplicaSet replaces a deleted pod at once,
            still_wanted = newest.owner is not None and newest.owner.uid == owner
            new = newest.uid if still_wanted else ""
            self._moves.append(
                LoopMove(now, owner, evicted.uid, evicted.node, new, ref=evicted.ref)
            )
            replicas = cluster.replicas_of(owner)
            self._replicas[owner] = max(replicas, self._replicas.get(owner, 0))
        return answer

    def would_evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        """The answer that `evict` would get now."""
        return self._simulation.evictor.would_evict(pod, reason)

    def announce(self, announcements: Sequence[Announcement]) -> None:
        """Do nothing: the simulation has no Events."""
        self._simulation.evictor.announce(announcements)

    def result(
        self, nodes: Sequence[Node], load: Floats, targets: Floats, pace: Pace
    ) -> LoopResult:
        """The result of the run, with the load of these nodes and their targets."""
        judged: NDArray[np.bool_] = np.any(load > targets, axis=2)
        overloaded = dict(zip((node.name for node in nodes), judged, strict=True))
        history = self._simulation.cluster.history
        moves = [landed(move, history, overloaded, pace) for move in self._moves]
        seconds = self._simulation.clock.monotonic() - pace.begins_at
        return LoopResult(load, targets, moves, seconds, self._replicas, pace.step_seconds)


def landed(
    move: LoopMove,
    history: LoadHistory,
    overloaded: Mapping[str, NDArray[np.bool_]],
    pace: Pace,
) -> LoopMove:
    """The move with its landing; its times are since the start of the result.

    `overloaded` has for each node whether it was overloaded in each step.
    """
    move = move._replace(at=move.at - pace.begins_at)
    stays = history.stays_of(move.replacement)
    if not stays:
        return move
    stay = stays[0]
    steps, landed_at = overloaded[stay.node], stay.began - pace.begins_at
    judged = steps[
        min(int((landed_at // 60 * 60 + LANDED_SECONDS) // pace.step_seconds), len(steps) - 1)
    ]
    return move._replace(landed_at=landed_at, landed_on=stay.node, overloaded=bool(judged))


def _repeats(events: Iterable[tuple[float, str, str]]) -> int:
    """Count the events whose subject was affected by another event less than an hour before."""
    last: dict[str, float] = {}
    repeats = 0
    for at, subject, affected in events:
        repeats += subject in last and at - last[subject] < REPEAT_SECONDS
        last[affected] = at
    return repeats
