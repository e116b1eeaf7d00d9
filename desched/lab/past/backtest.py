"""Replays the past with policies, and compares each with what really happened."""

import math
from collections.abc import Sequence

import numpy as np

from desched.lab.figures import Backtest, PolicyFigures
from desched.lab.past.replay import Replay
from desched.lab.past.run import PastRun, Progress, Span
from desched.lab.recorded_past import Caveat, Doubt, Past
from desched.model.resources import Resource
from desched.policy.policy import Policy


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
    figures: list[PolicyFigures] = []
    for number, policy in enumerate(policies):

        def share(done: float, number: int = number) -> None:
            progress((number + done) / len(policies))

        figures.append(PastRun(replay, policy, span).figures(share))
    return backtest_of(past, policies, span, figures)


def backtest_of(
    past: Past, policies: Sequence[Policy], span: Span, figures: Sequence[PolicyFigures]
) -> Backtest:
    """The whole result, with the figures of each policy."""
    assumed, unknown = _doubts(past, policies)
    return Backtest(
        started_at=span.started_at,
        ended_at=span.ended_at,
        interval_seconds=span.interval_seconds,
        step_seconds=float(past.step_seconds),
        nodes=len(past.nodes),
        pods=len(past.pods),
        workloads=len({str(pod.workload) for pod in past.pods if pod.workload}),
        covered_share=covered_share(past, span),
        policies=tuple(figures),
        assumed=assumed,
        unknown=unknown,
    )


def covered_share(past: Past, span: Span) -> float:
    """The share of the nodes' time within the span for which all of their load is known."""
    measured = np.ones((len(past.nodes), past.steps), dtype=bool)
    for ratios in past.node_ratios.values():
        measured &= ~np.isnan(ratios)
    present = np.zeros_like(measured)
    for number, past_node in enumerate(past.nodes):
        begin = max(past_node.began, span.started_at)
        end = min(past_node.ended or span.ended_at, span.ended_at)
        first, last = (
            (at - past.started_at).total_seconds() / past.step_seconds for at in (begin, end)
        )
        present[number, max(0, math.ceil(first)) : max(0, math.floor(last))] = True
    there = int(present.sum())
    return float((measured & present).sum() / there) if there else 0.0


def _doubts(past: Past, policies: Sequence[Policy]) -> tuple[tuple[Doubt, ...], tuple[Doubt, ...]]:
    """What the replay assumes, and what it could not know."""
    assumed = [
        Doubt(Caveat.LOAD_FOLLOWS_PODS),
        Doubt(Caveat.SCHEDULER_SIMULATED),
        Doubt(Caveat.READY_AT_ONCE),
        Doubt(Caveat.LOAD_IN_STEPS, f"{past.step_seconds} s"),
        Doubt(Caveat.SOMEBODY_ELSE_MOVED),
        Doubt(Caveat.LATER_PODS_AS_RECORDED),
    ]
    if any(policy.deviation for policy in policies):
        assumed.append(Doubt(Caveat.LINES_AVERAGED))
    assumed += (doubt for doubt in past.doubts if doubt.caveat in _ASSUMED)
    unknown = [doubt for doubt in past.doubts if doubt.caveat not in _ASSUMED]
    if any(policy.windows(Resource.GPU) for policy in policies):
        unknown.append(Doubt(Caveat.GPUS_UNKNOWN))
    return tuple(assumed), (*unknown, Doubt(Caveat.THROTTLING_UNKNOWN))


_ASSUMED = frozenset({Caveat.TOLERATIONS_GUESSED})
