"""One policy over a time of the past, which can pause and go on."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from desched.model.report import CycleReport
from desched.policy.policy import Policy
from desched.ports import World
from desched.whatif.closed_loop import (
    Descheduler,
    LoopResult,
    Pace,
    RecordingEvictor,
    each_cycle,
    load_by_step,
)
from desched.whatif.cycle_counts import CycleCounts
from desched.whatif.figures import PolicyFigures
from desched.whatif.history import Floats, host_of
from desched.whatif.load import MEASURED
from desched.whatif.past.calm import CalmCycles
from desched.whatif.past.replay import Replay
from desched.whatif.policy_run import PolicyRun

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

    @property
    def intervals(self) -> int:
        """How many whole intervals it has."""
        return int((self.ended_at - self.started_at).total_seconds() // self.interval_seconds)


class PastRun:
    """One policy over a span of the past.

    `lines` counts the run by whose lines overload is judged; by default that is this one.
    """

    def __init__(
        self, replay: Replay, policy: Policy, span: Span, lines: CycleCounts | None = None
    ) -> None:
        past = replay.past
        self._replay, self._span = replay, span
        begins_at = (span.started_at - past.started_at).total_seconds()
        self._pace = Pace(span.interval_seconds, begins_at, float(past.step_seconds))
        self.counts = CycleCounts(policy)
        self._run = PolicyRun(
            policy.source,
            HAPPENED,
            span.started_at,
            replay.nodes,
            frozenset(past.node_ratios),
            self.counts,
            lines,
        )
        self._simulation = replay.begin()
        self._evictor = RecordingEvictor(self._simulation)
        self._desched = Descheduler(policy, TARGET, interval_seconds=span.interval_seconds)
        self._calm = CalmCycles(self._simulation, policy, has_gpus=replay.has_gpus)
        self._acted = 0
        # The last interval only shows the results of the last cycle.
        cycles = max(0, span.intervals - 1)
        self._last_tick = cycles + 1
        self._ticks = each_cycle(self._simulation, self._act, cycles, self._pace, self._evictor)
        self._loads: list[Floats] = []

    def advance(self, intervals: int | None = None, progress: Progress = lambda _: None) -> None:
        """Go on until so many intervals of the span have passed; None: to its end.

        `progress` may raise an exception, which ends the run for good.
        """
        last = self._last_tick if intervals is None else min(intervals, self._last_tick)
        with _without_garbage_collection():
            for tick in self._ticks:
                progress(tick / self._last_tick)
                if tick == last:
                    break
        self._loads.append(self._new_load())

    def result(self, targets: Floats | None = None) -> LoopResult:
        """What came of it so far; `targets` are those of `PolicyRun.targets` by default."""
        load = np.concatenate(self._loads, axis=1)
        wanted = self._run.targets if targets is None else targets
        found = self._evictor.result(self._run.nodes, load, wanted, self._pace)
        return replace(found, demand_is_known=False)

    @property
    def targets(self) -> Floats:
        """The targets by which overload is judged; see `PolicyRun.targets`."""
        return self._run.targets

    def figures(self) -> PolicyFigures:
        """The figures of the whole run, beside what really happened."""
        after = self.result()
        return self._run.figures(self._happened(after), after)

    def _act(self, world: World) -> CycleReport | None:
        self._acted += 1
        if self._acted % COLLECTED_CYCLES == 0:
            gc.collect()
        if self._calm.is_next(self._desched):
            self.counts.add_calm(world.clock.now())
            return None
        return self.counts.add(self._desched.cycle(world))

    def _new_load(self) -> Floats:
        """The load in the steps that have passed since it was last taken: node x step x MEASURED.

        Nodes that have not joined yet have none.
        """
        done = sum(load.shape[1] for load in self._loads)
        pace = self._pace._replace(begins_at=self._pace.begins_at + done * self._pace.step_seconds)
        nodes, history = self._run.nodes, self._simulation.cluster.history
        there = [i for i, node in enumerate(nodes) if history.stays_of(host_of(node.name))]
        known = load_by_step(self._simulation, [nodes[i] for i in there], pace)
        load: Floats = np.full((len(nodes), *known.shape[1:]), np.nan)
        load[there] = known
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
