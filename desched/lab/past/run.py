"""One policy over a time of the past."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from desched.lab.closed_loop import (
    Descheduler,
    LoopResult,
    Pace,
    RecordingEvictor,
    load_by_step,
    run_cycles,
)
from desched.lab.cycle_counts import CycleCounts
from desched.lab.figures import PolicyFigures
from desched.lab.history import Floats, host_of
from desched.lab.load import MEASURED
from desched.lab.past.calm import CalmCycles
from desched.lab.past.replay import Replay
from desched.lab.policy_run import PolicyRun
from desched.policy.policy import Policy
from desched.ports import World

COLLECTED_CYCLES = 500
"""The garbage of so many cycles is collected at once."""

TARGET = "the past"
HAPPENED = "what happened"

Progress = Callable[[float], None]
"""Called with the share that is done."""


class Span(NamedTuple):
    """The time to judge: cycles begin at `started_at` and follow each other by the interval."""

    started_at: datetime
    ended_at: datetime
    interval_seconds: float = 300.0


class PastRun:
    """One policy over a span of the past."""

    def __init__(self, replay: Replay, policy: Policy, span: Span) -> None:
        past = replay.past
        self._replay = replay
        begins_at = (span.started_at - past.started_at).total_seconds()
        self._pace = Pace(span.interval_seconds, begins_at, float(past.step_seconds))
        seconds = (span.ended_at - span.started_at).total_seconds()
        # The last interval only shows the results of the last cycle.
        self._cycles = max(0, int(seconds // span.interval_seconds) - 1)
        self._counts = CycleCounts(policy)
        self._run = PolicyRun(
            policy.source,
            HAPPENED,
            span.started_at,
            replay.nodes,
            frozenset(past.node_ratios),
            self._counts,
        )
        self._simulation = replay.begin()
        self._evictor = RecordingEvictor(self._simulation)
        self._desched = Descheduler(policy, TARGET)
        self._calm = CalmCycles(self._simulation, policy, has_gpus=replay.has_gpus)
        self._acted = 0

    def figures(self, progress: Progress = lambda _: None) -> PolicyFigures:
        """The figures of the run, beside what really happened."""

        def act(world: World) -> None:
            progress(self._pace.done_share(self._simulation.clock.monotonic(), self._cycles))
            self._act(world)

        with _without_garbage_collection():
            run_cycles(self._simulation, act, self._cycles, self._pace, self._evictor)
        result = self._evictor.result(self._run.nodes, self._load(), self._run.targets, self._pace)
        after = replace(result, demand_is_known=False)
        return self._run.figures(self._happened(after), after)

    def _act(self, world: World) -> None:
        self._acted += 1
        if self._acted % COLLECTED_CYCLES == 0:
            gc.collect()
        if self._calm.is_next(self._desched):
            self._counts.add_calm(world.clock.now())
        else:
            self._counts.add(self._desched.cycle(world))

    def _load(self) -> Floats:
        """The load in all steps: node x step x MEASURED; nodes that never joined have none."""
        nodes, history = self._run.nodes, self._simulation.cluster.history
        there = [i for i, node in enumerate(nodes) if history.stays_of(host_of(node.name))]
        load_there = load_by_step(self._simulation, [nodes[i] for i in there], self._pace)
        load: Floats = np.full((len(nodes), *load_there.shape[1:]), np.nan)
        load[there] = load_there
        return load

    def _happened(self, like: LoopResult) -> LoopResult:
        """What really happened, in the same steps and with the same targets."""
        load: Floats = np.full(like.load.shape, np.nan)
        past = self._replay.past
        first = int(self._pace.begins_at // past.step_seconds)
        steps = slice(first, first + load.shape[1])
        for i, resource in enumerate(MEASURED):
            if (ratios := past.node_ratios.get(resource)) is not None:
                load[:, :, i] = ratios[:, steps]
        return replace(like, load=load, moves=(), replicas={})


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Collections would visit again and again what lasts as long as the run.

    Cycles hardly create reference cycles; `COLLECTED_CYCLES` is enough.
    """
    was_enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
