"""Replays the past with policies, and compares each with what really happened."""

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from desched.history.past import Caveat, Doubt, Past
from desched.model.report import CycleReport
from desched.model.resources import Resource
from desched.policy.policy import Policy
from desched.ports import World
from desched.whatif.closed_loop import (
    Descheduler,
    LoopResult,
    Pace,
    RecordingEvictor,
    load_by_step,
    run_cycles,
)
from desched.whatif.cycle_counts import CycleCounts
from desched.whatif.figures import (
    Backtest,
    PolicyFigures,
)
from desched.whatif.history import Floats
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


def lead_seconds(policies: Sequence[Policy]) -> int:
    """How much earlier than the span the past must begin, so that all windows are covered."""
    further = (
        window.window_seconds
        for policy in policies
        for rule in policy.rules
        for window in rule.destination_windows
    )
    sources = (policy.history.seconds + policy.longest_window_seconds for policy in policies)
    return max([*sources, *further], default=0)


def backtest(
    past: Past, policies: Sequence[Policy], span: Span, progress: Progress = lambda _: None
) -> Backtest:
    """The figures of each policy over the span."""
    replay = Replay(past)
    figures = []
    for number, policy in enumerate(policies):
        run = _Run(past, replay, policy, span)

        def share(done: float, number: int = number) -> None:
            progress((number + done) / len(policies))

        figures.append(run.figures(share))
    assumed, unknown = _doubts(past, policies)
    return Backtest(
        started_at=span.started_at,
        ended_at=span.ended_at,
        interval_seconds=span.interval_seconds,
        step_seconds=float(past.step_seconds),
        nodes=len(past.nodes),
        pods=len(past.pods),
        workloads=len({str(each.workload) for each in past.pods if each.workload}),
        covered_share=covered_share(past, span),
        policies=tuple(figures),
        assumed=assumed,
        unknown=unknown,
    )


def covered_share(past: Past, span: Span) -> float:
    """The share of the nodes' time within the span for which all of their load is known."""
    known = np.ones((len(past.nodes), past.steps), dtype=bool)
    for ratios in past.node_ratios.values():
        known &= ~np.isnan(ratios)
    present = np.zeros_like(known)
    for number, each in enumerate(past.nodes):
        begin = max(each.began, span.started_at)
        end = min(each.ended or span.ended_at, span.ended_at)
        first, last = (
            (at - past.started_at).total_seconds() / past.step_seconds for at in (begin, end)
        )
        present[number, max(0, math.ceil(first)) : max(0, math.floor(last))] = True
    there = int(present.sum())
    return float((known & present).sum() / there) if there else 0.0


class _Run:
    """One policy over the past."""

    def __init__(self, past: Past, replay: Replay, policy: Policy, span: Span) -> None:
        self._past, self._replay, self._policy, self._span = past, replay, policy, span
        begins_at = (span.started_at - past.started_at).total_seconds()
        self._pace = Pace(span.interval_seconds, begins_at, float(past.step_seconds))
        seconds = (span.ended_at - span.started_at).total_seconds()
        self._cycles = max(0, int(seconds // span.interval_seconds) - 1)
        self._run = PolicyRun(
            policy.source,
            HAPPENED,
            span.started_at,
            replay.nodes,
            frozenset(past.node_ratios),
            CycleCounts(policy),
        )

    def figures(self, progress: Progress) -> PolicyFigures:
        simulation = self._replay.begin()
        evictor, interval = RecordingEvictor(simulation), self._pace.interval_seconds
        desched = Descheduler(self._policy, TARGET, interval_seconds=interval)
        calm = CalmCycles(simulation, self._policy, has_gpus=self._replay.has_gpus)
        done = 0

        def act(world: World) -> CycleReport | None:
            nonlocal done
            done += 1
            if done % COLLECTED_CYCLES == 0:
                gc.collect()
            progress(self._pace.done_share(simulation.clock.monotonic(), self._cycles))
            if calm.is_next(desched):
                self._run.counts.add_calm(world.clock.now())
                return None
            return self._run.counts.add(desched.cycle(world))

        with _without_garbage_collection():
            run_cycles(simulation, act, self._cycles, self._pace, evictor)
        nodes = self._run.nodes
        load = load_by_step(simulation, nodes, self._pace)
        after = replace(
            evictor.result(nodes, load, self._run.targets, self._pace), demand_is_known=False
        )
        return self._run.figures(self._happened(after), after)

    def _happened(self, like: LoopResult) -> LoopResult:
        """What really happened, in the same steps and with the same targets."""
        load: Floats = np.full(like.load.shape, np.nan)
        first = int(self._pace.begins_at // self._past.step_seconds)
        steps = slice(first, first + load.shape[1])
        for i, resource in enumerate(MEASURED):
            if (ratios := self._past.node_ratios.get(resource)) is not None:
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


def _doubts(past: Past, policies: Sequence[Policy]) -> tuple[tuple[Doubt, ...], tuple[Doubt, ...]]:
    """What the replay assumes, and what it could not know."""
    assumed = [
        Doubt(Caveat.LOAD_FOLLOWS_PODS),
        Doubt(Caveat.SCHEDULER_SIMULATED),
        Doubt(Caveat.READY_AT_ONCE),
        Doubt(Caveat.LOAD_IN_STEPS, f"{past.step_seconds} s"),
        Doubt(Caveat.SOMEBODY_ELSE_MOVED),
    ]
    if any(policy.deviation for policy in policies):
        assumed.append(Doubt(Caveat.LINES_AVERAGED))
    assumed += (each for each in past.doubts if each.caveat in _ASSUMED)
    unknown = [each for each in past.doubts if each.caveat not in _ASSUMED]
    if any(policy.windows(Resource.GPU) for policy in policies):
        unknown.append(Doubt(Caveat.GPUS_UNKNOWN))
    return tuple(assumed), (*unknown, Doubt(Caveat.THROTTLING_UNKNOWN))


_ASSUMED = frozenset({Caveat.TOLERATIONS_GUESSED})
