"""Slow start: how many evictions a cycle may make, by the results of earlier moves.

The first cycles make few. Each cycle whose judged moves all landed well doubles the number, up to
the policy's limit; failures halve it, and a pause of everything begins anew.
"""

from collections.abc import Iterable

from desched.model.state import FAILURES, SUCCESSES, EvictionRecord, PauseScope, State
from desched.policy.policy import EvictionLimits
from desched.policy.share import Share, count_of

FIRST_CYCLES = Share(0.01, at_least=5)
"""The limit of the first cycles, as a share of the nodes."""

TOLERATED_SHARE = 0.1
"""If no more of the judged moves failed, the number stays: forecasts are probabilities."""


def most_evictions(limits: EvictionLimits, state: State, nodes: int) -> int:
    """The most evictions of the next cycle in a cluster with this number of nodes."""
    most = count_of(limits.planned_total, nodes) or 0
    if not limits.slow_start:
        return most
    stored = state.most_evictions
    return min(most, stored if stored > 0 else FIRST_CYCLES.of(nodes))


def after_results(
    state: State, settled: Iterable[EvictionRecord], limits: EvictionLimits, nodes: int
) -> int:
    """The number to store after these results; 0 means the first cycles."""
    if any(pause.scope is PauseScope.EVERYTHING for pause in state.pauses):
        return 0
    results = [record.result for record in settled]
    most = most_evictions(limits, state, nodes)
    failed = sum(result in FAILURES for result in results)
    if failed > TOLERATED_SHARE * len(results):
        return max(1, most // 2)
    if results and all(result in SUCCESSES for result in results):
        return min(2 * most, max(1, count_of(limits.planned_total, nodes) or 0))
    return state.most_evictions
