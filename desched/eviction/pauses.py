"""Automatic pauses after failures.

A single workload with failures only cools down. Several workloads from one pool pause that pool,
and enough of them pause everything. If all of them are in one namespace, only this namespace is
paused, because its owner may have caused the failures. After the time of a pause, a probe ends or
renews it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from desched.eviction.cool_downs import Backoff
from desched.model.state import (
    FAILURES,
    SUCCESSES,
    EvictionRecord,
    Failure,
    Pause,
    PauseScope,
    State,
    namespace_of,
)
from desched.model.stored_state import is_done
from desched.policy.durations import duration_text
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import Policy

POOL_WORKLOADS = 2
"""A pool is paused after failed moves of this number of its workloads."""

FAILED_SHARE = 0.2
"""Fewer failures among the moves of the same time pause nothing: forecasts are probabilities."""

MOST_NAMED = 5
MOST_FAILURES = 200


def with_pauses(
    state: State, settled: Iterable[EvictionRecord], policy: Policy, now: datetime
) -> State:
    """Add the failures among these evictions, and update the pauses; a person's pause may end."""
    rules = policy.follow_up
    within = timedelta(seconds=rules.pause_within_seconds)
    state = replace(
        state,
        failures=tuple(f for f in state.failures if now - f.at < within),
        pauses=tuple(pause for pause in state.pauses if not is_done(pause, now)),
    )
    for record in settled:
        if record.result in FAILURES:
            failure = Failure(record.workload, record.pool, now, record.result)
            state = replace(state, failures=(*state.failures, failure)[-MOST_FAILURES:])
        if record.probe:
            state = _probed(state, record, rules, now)
    return _widened(state, policy, now)


def _probed(state: State, probe: EvictionRecord, rules: FollowUpRules, now: datetime) -> State:
    """End or renew the pauses that waited for this probe."""
    for pause in state.pauses:
        if pause.lasts(probe.evicted_at) or not pause.covers(probe.workload, probe.pool):
            continue
        if probe.result in SUCCESSES:
            state = state.without_pause(pause)
        elif probe.result in FAILURES:
            renewed = _renewed(pause, probe, rules, now)
            pauses = tuple(renewed if each == pause else each for each in state.pauses)
            state = replace(state, pauses=pauses)
    return state


def _renewed(pause: Pause, probe: EvictionRecord, rules: FollowUpRules, now: datetime) -> Pause:
    backoff = Backoff(rules.pause_first_seconds, rules.pause_longest_seconds)
    level = backoff.raised(pause.level)
    result = probe.result.value if probe.result else ""
    why = f"the probe failed: {probe.workload} ({result})"
    return replace(pause, until=now + backoff.wait(level), level=level, why=why)


def _widened(state: State, policy: Policy, now: datetime) -> State:
    """Add the pauses that the failures require, unless they exist."""
    began = {(p.scope, p.subject) for p in state.pauses if not p.by}
    if (PauseScope.EVERYTHING, "") in began:
        return state
    rules, failures = policy.follow_up, state.failures
    workloads = {failure.workload for failure in failures}
    if len(workloads) >= rules.pause_workloads and _concerns_several(workloads):
        everything = _pause(state, PauseScope.EVERYTHING, "", rules, now)
        if everything is not None:
            return replace(state, pauses=(*state.pauses, everything))
    for scope, subject in sorted((*_pools(failures, policy), *_namespaces(workloads, rules))):
        pause = _pause(state, scope, subject, rules, now)
        if pause is not None and (scope, subject) not in began:
            state = replace(state, pauses=(*state.pauses, pause))
    return state


def _concerns_several(workloads: Collection[str]) -> bool:
    """Whether the workloads are in several namespaces; one alone stops nobody else."""
    return len({namespace_of(workload) for workload in workloads}) > 1


def _pools(failures: Iterable[Failure], policy: Policy) -> Iterator[tuple[PauseScope, str]]:
    """The pools to pause, unless the policy has only one."""
    if len(policy.pools) + (not policy.only_pools) <= 1:
        return
    by_pool: dict[str, set[str]] = {}
    for failure in failures:
        by_pool.setdefault(failure.pool, set()).add(failure.workload)
    for pool, workloads in by_pool.items():
        if len(workloads) >= POOL_WORKLOADS and _concerns_several(workloads):
            yield PauseScope.POOL, pool


def _namespaces(workloads: Iterable[str], rules: FollowUpRules) -> Iterator[tuple[PauseScope, str]]:
    """The namespaces in which as many workloads failed as otherwise pause everything."""
    counts = Counter(namespace_of(workload) for workload in workloads)
    for namespace, count in counts.items():
        if count >= rules.pause_workloads:
            yield PauseScope.NAMESPACE, namespace


def _pause(
    state: State, scope: PauseScope, subject: str, rules: FollowUpRules, now: datetime
) -> Pause | None:
    """The pause, None if few of the moves that it would cover have failed."""
    backoff = Backoff(rules.pause_first_seconds, rules.pause_longest_seconds)
    pause = Pause(scope, now, now + backoff.wait(0), subject)
    evidence = [f for f in state.failures if pause.covers(f.workload, f.pool)]
    within = timedelta(seconds=rules.pause_within_seconds)
    moves = sum(pause.covers(m.workload, m.pool) and now - m.at < within for m in state.moves)
    if len(evidence) < FAILED_SHARE * moves:
        return None
    return replace(pause, why=_why(evidence, rules.pause_within_seconds))


def _why(failures: Iterable[Failure], within_seconds: int) -> str:
    newest = {f.workload: f.result.value for f in sorted(failures, key=lambda f: f.at)}
    named = [f"{workload} ({result})" for workload, result in sorted(newest.items())]
    further = len(named) - MOST_NAMED
    names = ", ".join(named[:MOST_NAMED]) + (f" and {further} more" if further > 0 else "")
    within = duration_text(within_seconds)
    return f"moves of {len(named)} workloads failed within {within}: {names}"
