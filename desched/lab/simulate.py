"""Runs policies side by side from a snapshot on, each beside the same time without desched."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

from msgspec.structs import replace

from desched.lab.closed_loop import (
    Act,
    Descheduler,
    LoopResult,
    Pace,
    RecordingEvictor,
    load_by_step,
    run_cycles,
)
from desched.lab.continuation import Continuation
from desched.lab.cycle_counts import CycleCounts
from desched.lab.figures import PolicyFigures, Simulated
from desched.lab.history import Floats
from desched.lab.load import MEASURED
from desched.lab.past.backtest import lead_seconds
from desched.lab.policy_run import PolicyRun
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.policy.policy import Policy
from desched.ports import World

WITHOUT = "no descheduler"

Progress = Callable[[float], None]
"""Called with the share that is done."""


class Beginning(NamedTuple):
    """What a simulation begins with; `policy` is the one for which the load was measured."""

    snapshot: Snapshot
    state: State
    policy: Policy
    target: str


class Course(NamedTuple):
    """How long a simulation lasts, how often a cycle runs, and the seed of the scheduler."""

    hours: float
    interval_seconds: float = 300.0
    step_seconds: float = 60.0
    seed: int = 0


def simulate(
    beginning: Beginning,
    policies: Sequence[Policy],
    course: Course,
    progress: Progress = lambda _: None,
) -> Simulated:
    """The figures of each policy over the course."""
    lead = float(lead_seconds((beginning.policy, *policies)))
    continuation = Continuation(beginning.snapshot, beginning.policy, lead, course.seed)
    runs = _Runs(beginning, continuation, lead, course)
    parts = len(policies) + 1
    load = runs.without(lambda done: progress(done / parts))
    figures = []
    for number, policy in enumerate(policies, 1):

        def share(done: float, number: int = number) -> None:
            progress((number + done) / parts)

        figures.append(runs.figures(policy, load, share))
    started_at = beginning.snapshot.taken_at
    return Simulated(
        target=beginning.target,
        started_at=started_at,
        ended_at=started_at + timedelta(hours=course.hours),
        interval_seconds=course.interval_seconds,
        step_seconds=course.step_seconds,
        seed=course.seed,
        nodes=len(continuation.nodes),
        pods=continuation.pods,
        policies=tuple(figures),
        assumed=continuation.assumed(policies),
    )


class _Runs:
    """Runs of the same continuation."""

    def __init__(
        self, beginning: Beginning, continuation: Continuation, lead: float, course: Course
    ) -> None:
        self._beginning, self._continuation = beginning, continuation
        self._pace = Pace(course.interval_seconds, lead, course.step_seconds)
        self._cycles = max(1, int(course.hours * 3600 // course.interval_seconds) - 1)

    def without(self, progress: Progress) -> Floats:
        """The load of each node in each step if nothing is evicted."""
        load, _ = self._run(lambda _: None, progress)
        return load

    def figures(self, policy: Policy, without: Floats, progress: Progress) -> PolicyFigures:
        """The figures of one policy."""
        beginning, counts = self._beginning, CycleCounts(policy)
        desched = Descheduler(policy, beginning.target, beginning.state)
        load, evictor = self._run(lambda world: counts.add(desched.cycle(world)), progress)
        nodes = self._continuation.nodes
        run = PolicyRun(
            policy.source,
            WITHOUT,
            beginning.snapshot.taken_at,
            nodes,
            frozenset(r for r in MEASURED if beginning.policy.windows(r)),
            counts,
        )
        after = evictor.result(nodes, load, run.targets, self._pace)
        before = LoopResult(without, after.targets, (), after.seconds, {}, self._pace.step_seconds)
        found = run.figures(before, after)
        return replace(found, figures_before=counts.first, figures_after=counts.last)

    def _run(self, act: Act, progress: Progress) -> tuple[Floats, RecordingEvictor]:
        simulation = self._continuation.begin()
        evictor = RecordingEvictor(simulation)

        def step(world: World) -> None:
            progress(self._pace.done_share(simulation.clock.monotonic(), self._cycles))
            act(world)

        run_cycles(simulation, step, self._cycles, self._pace, evictor)
        return load_by_step(simulation, self._continuation.nodes, self._pace), evictor
