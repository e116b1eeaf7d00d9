"""Processes of desched in virtual time that die, and a witness of what they do to the world."""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from desched.cycle_report import CycleInfo
from desched.eviction.pacing import BURST
from desched.lab.budgets import SimulatedBudget
from desched.lab.history import Usage
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import PodRef, SchedulingClass
from desched.model.report import CycleReport, EvictionVerdict, Mode
from desched.model.resources import Amounts
from desched.model.state import State
from desched.model.stored_state import StoredState
from desched.plugins.gpus.drains.rules import GpuDrainRules
from desched.plugins.gpus.plugin import Gpus
from desched.plugins.states import decode_state
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import EvictionLimits, Policy, SteeringRules
from desched.policy.share import Share, count_of
from desched.policy_file.loading import LoadedPolicy
from desched.ports import EvictionAnswer
from desched.service.cycles.runner import CycleRunner
from desched.service.inputs.policy_file import PolicyFile
from desched.service.inputs.state_keeper import StateKeeper
from tests.builders import house, policy, selector
from tests.mortal import Step, mortal, mortal_world
from tests.simulated_state_store import SimulatedConfigMap, SimulatedStateStore

INTERVAL_SECONDS = 300.0
HOUR = timedelta(hours=1)
ROUNDING_SECONDS = 0.01
MIB = 2**20
GPU = "nvidia.com/gpu"


class Death(BaseException):
    """The end of a process, which nothing in it may notice."""


@dataclass
class Lifetime:
    """How many steps a process makes before it dies; from then on the world is deaf to it.

    Only steps count that can have been seen outside, or that take time: what is between two of them
    is all the same to the world.
    """

    steps: int | None = None
    made: list[Step] = field(default_factory=list)

    def fate(self, step: Step) -> None:
        if step.call.startswith("clock.") and step.call != "clock.wait":
            return
        if len(self.made) == self.steps:
            raise Death
        self.made.append(step)


class Witness(SimulatedConfigMap):
    """The Eviction API, and the ConfigMap with the state: they see what is written when."""

    def __init__(self, simulation: Simulation, by: Policy) -> None:
        super().__init__()
        self._simulation = simulation
        self._by = by
        self.evicted: list[tuple[datetime, PodRef, str]] = []
        self.unsettled: set[str] = set()
        self._replacements: dict[str, str] = {}

    def evict(self, ref: PodRef, reason: str) -> EvictionAnswer:
        now = self._simulation.clock.now()
        pod = self._simulation.cluster.pod(ref)
        remembered = self._remembered()
        assert ref in {record.pod for record in remembered.in_flight}
        assert pod is None or pod.labels["app"] != "protected"
        nodes = len(self._simulation.cluster.read_cluster().nodes)
        most = count_of(self._by.limits.in_flight_total, nodes)
        assert most is None or len(remembered.in_flight) <= most
        answer = self._simulation.evictor.evict(ref, reason)
        if answer.verdict is EvictionVerdict.EVICTED and pod is not None and pod.owner is not None:
            self.evicted.append((now, ref, pod.owner.uid))
            new = self._simulation.cluster.newest_pod()  # a deleted pod is replaced at once
            self._replacements[ref.uid] = new.uid
            self.unsettled.add(ref.uid)
        return answer

    def would_evict(self, ref: PodRef, reason: str) -> EvictionAnswer:
        return self._simulation.evictor.would_evict(ref, reason)

    def announce(self, *_: object) -> None:
        pass

    def write(self, text: str | None) -> None:
        """Whatever was evicted stays in the state until it is known what became of it."""
        super().write(text)
        evictions = {record.pod.uid: record for record in self._remembered().evictions}
        assert evictions.keys() >= self.unsettled
        self.unsettled = {uid for uid in self.unsettled if evictions[uid].in_flight}

    def check_pace(self) -> None:
        """No replica moves twice within an hour; limits by the hour and the minute hold."""
        limits = self._by.limits
        cluster = self._simulation.cluster.read_cluster()
        replicas_of = {uid: each.desired_replicas for (_, uid), each in cluster.workloads.items()}
        for at, ref, workload in self.evicted:
            hour = [(r, w) for t, r, w in self.evicted if at <= t < at + HOUR]
            assert self._replacements[ref.uid] not in {each.uid for each, _ in hour}
            most = count_of(limits.workload_hourly, replicas_of[workload])
            assert most is None or sum(w == workload for _, w in hour) <= most
        if limits.per_minute is not None:
            most = limits.per_minute + min(BURST, limits.per_minute)
            minute = timedelta(seconds=60 - ROUNDING_SECONDS)
            for at, _, _ in self.evicted:
                assert sum(at <= t < at + minute for t, _, _ in self.evicted) <= most

    def _remembered(self) -> State:
        found = StoredState(State()) if self.text is None else decode_state(self.text)
        assert found.state is not None, found.problem
        return found.state


class Story:
    """A simulated world, and the processes that live on it one after the other."""

    def __init__(self, simulation: Simulation, by: Policy) -> None:
        self._simulation = simulation
        self._by = by
        self.witness = Witness(simulation, by)

    def live(self, life: Lifetime, cycles: int) -> None:
        """A service from its start until its death, or for so many cycles."""
        runner = self._started(life)
        with suppress(Death):
            for _ in range(cycles):
                self._check_after_cycle(runner.run())
                self.rest(INTERVAL_SECONDS)
        self.witness.check_pace()

    def rest(self, seconds: float) -> None:
        """Nothing runs."""
        self._simulation.clock.advance(seconds)

    def _started(self, life: Lifetime) -> CycleRunner:
        world = self._simulation.world(acting=True)._replace(evictor=self.witness)
        world = mortal_world(world, life.fate)
        store = mortal(SimulatedStateStore(self.witness), "state", life.fate)
        afresh = State(since=self._simulation.clock.now())
        state = StateKeeper(store, world.clock, afresh, lambda: True)
        info = CycleInfo(0, Mode.EVICT, "simulated", "", 2 * INTERVAL_SECONDS)
        return CycleRunner(world, PolicyFile(lambda: LoadedPolicy(self._by, ())), state, info)

    def _check_after_cycle(self, report: CycleReport) -> None:
        assert {uid for uid in self.witness.unsettled if self._overdue(uid)} == set()
        assert all(until > report.started_at for until in self.taints.values())

    def _overdue(self, uid: str) -> bool:
        longest = timedelta(seconds=self._by.follow_up.patience_seconds + INTERVAL_SECONDS)
        at = next(at for at, ref, _ in self.witness.evicted if ref.uid == uid)
        return self._simulation.clock.now() - at > longest + timedelta(seconds=60)

    @property
    def taints(self) -> dict[str, datetime]:
        """The nodes with desched's own soft taint, and until when."""
        nodes = self._simulation.cluster.read_cluster().nodes
        return {n.name: n.steered_until for n in nodes if n.steered_until is not None}

    @property
    def destinations(self) -> list[tuple[str, str]]:
        """How many pods of which app are on which node."""
        pods = self._simulation.cluster.read_cluster().pods
        return sorted((pod.node, pod.labels["app"]) for pod in pods)


def template(app: str, uses: float, requests: int, gpus: int = 0) -> PodTemplate:
    devices = ((GPU, gpus),) if gpus else ()
    amounts = Amounts(requests, 256 * MIB, pods=1, extended=devices)
    return PodTemplate(
        scheduling=SchedulingClass(amounts),
        usage=Usage(uses, 200 * MIB),
        labels={"app": app},
    )


def trap() -> Story:
    """Two moves are needed, and one of them a soft taint: its replacement would come back."""
    simulation = Simulation()
    cluster, overloaded, cold = simulation.cluster, ("hot1", "hot2"), ("cold1", "cold2")
    for name in overloaded:
        cluster.add_node(name, host_usage=Usage(1600, 0))
    for name in cold:
        cluster.add_node(name)
    cluster.add_namespace("apps")
    cluster.add_deployment("apps", "filler", 2, template("filler", 200, 3000), nodes=cold)
    cluster.add_deployment("apps", "alone", 2, template("alone", 800, 100), nodes=overloaded)
    cluster.add_deployment("apps", "crowd", 4, template("crowd", 500, 100), nodes=overloaded * 2)
    simulation.clock.advance(3600)
    steering = SteeringRules(SteeringMode.WHEN_NEEDED, Share(0.5))
    # With one move of a workload, the same two pods move whenever the process dies.
    limits = EvictionLimits(workload_hourly=1)
    by = policy(limits=limits, max_landing_risk=0.15, steering=steering)
    return Story(simulation, by)


def drain() -> Story:
    """A pod waits for eight GPUs, and a node with two pods is drained for it in two cycles."""
    simulation = Simulation()
    cluster = simulation.cluster
    for i in range(4):
        cluster.add_node(f"gpu{i}", cpu_millicores=64_000, extended={GPU: 8})
    cluster.add_namespace("apps")
    cluster.add_namespace("train")
    for app, nodes in (("a", (0, 1)), ("b", (0, 2)), ("c", (1, 3)), ("d", (2, 3))):
        on = [f"gpu{i}" for i in nodes]
        cluster.add_deployment("apps", app, 2, template(app, 200, 1000, gpus=1), nodes=on)
    simulation.clock.advance(3600)
    cluster.add_pod("train", "big", template("big", 200, 1000, gpus=8))
    steering = SteeringRules(SteeringMode.WHEN_NEEDED, Share(1.0))
    limits = EvictionLimits(node=1, workload_hourly=1)
    rules = GpuDrainRules(namespaces=("train",), pending_seconds=60)
    by = policy(limits=limits, max_landing_risk=0.15, steering=steering, plugins=house(Gpus(rules)))
    return Story(simulation, by)


def any_story(chance: Random) -> Story:
    """Hot nodes and cooler ones, pods of all kinds on them, and a policy."""
    simulation = Simulation()
    cluster = simulation.cluster
    overloaded = [f"hot{i}" for i in range(chance.randint(1, 3))]
    cold = [f"cold{i}" for i in range(chance.randint(1, 3))]
    for name in overloaded:
        cluster.add_node(name, host_usage=Usage(chance.choice([1600, 2400]), 0))
    for name in cold:
        cluster.add_node(name, host_usage=Usage(chance.choice([0, 800]), 0))
    cluster.add_namespace("apps")
    filler = template("filler", 200, chance.choice([100, 2000, 3000]))
    cluster.add_deployment("apps", "filler", len(cold), filler, nodes=cold)
    cluster.add_pod("apps", "bare", template("protected", 300, 100), chance.choice(overloaded))
    for app in ("web", "db", "cache", "mail")[: chance.randint(1, 4)]:
        uses, requests = chance.choice([200, 400, 800]), chance.choice([100, 400])
        on = [chance.choice(overloaded) for _ in range(chance.randint(1, 4))]
        cluster.add_deployment("apps", app, len(on), template(app, uses, requests), nodes=on)
        if chance.random() < 0.3:
            guard = selector(app=app)
            cluster.add_budget(SimulatedBudget("apps", app, guard, max_unavailable=1))
    simulation.clock.advance(3600)
    of_workload = chance.choice([1, 1, 2])
    limits = EvictionLimits(
        total=chance.choice([1, 5, 20]),
        node=chance.choice([1, 2, 5]),
        workload=of_workload,
        in_flight_total=chance.choice([1, 2, 20]),
        in_flight_workload=of_workload,
        in_flight_destination=chance.choice([1, 2, 5]),
        per_minute=chance.choice([None, 1, 2, 20]),
    )
    most_nodes: list[int | Share] = [1, Share(0.6)]
    steering = SteeringRules(chance.choice(list(SteeringMode)), chance.choice(most_nodes))
    risk = chance.choice([0.15, 1.0])
    return Story(simulation, policy(limits=limits, max_landing_risk=risk, steering=steering))
