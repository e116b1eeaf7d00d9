"""Automatic pauses after failures.

A single workload with failures only cools down. Several workloads pause everything, or only their
pool if all of them are from one. Tenants may cause failures of their own pods on purpose.
Therefore these workloads must be in several namespaces of several owners; otherwise only their
namespaces are paused. Namespaces of which no owner is known may all belong to one. After the time
of a pause, a probe ends or renews it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from desched.eviction.cool_downs import Backoff
from desched.model.groups import grouped
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

NAMESPACES = 3
OWNERS = 2
"""The failures that pause a pool or everything are in this number of namespaces and owners."""

MOST_MOVES = 0.5
"""Where no owners are known, failures are this share of all moves, and their namespaces this share
of the namespaces with moves. Then twice as many workloads in two namespaces suffice as well."""

FAILED_SHARE = 0.2
"""Fewer failures among the moves of the same time pause nothing: forecasts are probabilities."""

_OF_NAMESPACES = frozenset({PauseScope.NAMESPACE, PauseScope.WORKLOAD})
MOST_NAMED = 5
MOST_FAILURES = 200


FORGOTTEN_AFTER = timedelta(days=7)
"""A person's pause of a namespace that is gone is kept for so long, because it may come back."""


def without_gone(state: State, namespaces: Collection[str], now: datetime) -> State:
    """Drop the pauses of namespaces that are gone, and of workloads in them."""
    kept = tuple(
        pause
        for pause in state.pauses
        if pause.scope not in _OF_NAMESPACES
        or namespace_of(pause.subject) in namespaces
        or (pause.by and now - pause.since < FORGOTTEN_AFTER)
    )
    return replace(state, pauses=kept)


def with_pauses(
    state: State,
    settled: Iterable[EvictionRecord],
    policy: Policy,
    now: datetime,
    owners: Mapping[str, str] = MappingProxyType({}),
) -> State:
    """Add the failures among these evictions, and update the pauses; a person's pause may end.

    `owners` has the owner of each namespace that does not belong to itself alone.
    """
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
    return _widened(state, policy, now, owners)


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
    reason = f"the probe failed: {probe.workload} ({result})"
    return replace(pause, until=now + backoff.wait(level), level=level, why=reason)


def _widened(state: State, policy: Policy, now: datetime, owners: Mapping[str, str]) -> State:
    """Add the pauses that the failures require, unless they exist."""
    began = {(p.scope, p.subject) for p in state.pauses if not p.by}
    if (PauseScope.EVERYTHING, "") in began:
        return state
    rules, workloads = policy.follow_up, {failure.workload for failure in state.failures}
    pools = {failure.pool for failure in state.failures} if _has_pools(policy) else set[str]()
    wide = [(PauseScope.POOL, pool) for pool in pools]
    if len(workloads) >= rules.pause_workloads and len(pools) != 1:
        everything = _pause(state, PauseScope.EVERYTHING, "", rules, now, owners)
        if everything is not None:
            return replace(state, pauses=(*state.pauses, everything))
        wide.append((PauseScope.EVERYTHING, ""))
    of_one = set(_namespaces(workloads, rules, owners))
    for scope, subject in wide:
        of_one |= _perhaps_of_one(_evidence(state, scope, subject, rules, now), rules, owners)
    for scope, subject in sorted((*wide, *((PauseScope.NAMESPACE, name) for name in of_one))):
        pause = _pause(state, scope, subject, rules, now, owners)
        if pause is not None and (scope, subject) not in began:
            state = replace(state, pauses=(*state.pauses, pause))
    return state


def _has_pools(policy: Policy) -> bool:
    """Whether a pause of a pool is less than one of everything."""
    return len(policy.pools) + (not policy.only_pools) > 1


def _namespaces(
    workloads: Iterable[str], rules: FollowUpRules, owners: Mapping[str, str]
) -> Iterator[str]:
    """Return the namespaces of owners with enough failed workloads to pause everything."""
    namespaces = [namespace_of(workload) for workload in workloads]
    for of_owner in grouped((owners.get(name, name), name) for name in namespaces).values():
        if len(of_owner) >= rules.pause_workloads:
            yield from of_owner


class _Evidence(NamedTuple):
    """The failures that a pause would cover, and the number of all moves that it would cover.

    `others` counts the namespaces of moves of which none failed.
    """

    failures: Collection[Failure]
    moves: int
    others: int

    @property
    def workloads(self) -> set[str]:
        return {failure.workload for failure in self.failures}

    @property
    def namespaces(self) -> set[str]:
        return {namespace_of(workload) for workload in self.workloads}

    def is_share(self, share: float) -> bool:
        """Whether so many of the moves have failed."""
        return len(self.failures) >= share * self.moves

    @property
    def is_most(self) -> bool:
        """Whether most moves failed, and in most namespaces that pods moved in."""
        namespaces = len(self.namespaces)
        return self.is_share(MOST_MOVES) and namespaces >= MOST_MOVES * (namespaces + self.others)


def _evidence(
    state: State, scope: PauseScope, subject: str, rules: FollowUpRules, now: datetime
) -> _Evidence:
    covers = Pause(scope, now, now, subject).covers
    within = timedelta(seconds=rules.pause_within_seconds)
    moves = [m for m in state.moves if covers(m.workload, m.pool) and now - m.at < within]
    failures = [f for f in state.failures if covers(f.workload, f.pool)]
    failed = {namespace_of(failure.workload) for failure in failures}
    return _Evidence(failures, len(moves), len({namespace_of(m.workload) for m in moves} - failed))


def _pause(
    state: State,
    scope: PauseScope,
    subject: str,
    rules: FollowUpRules,
    now: datetime,
    owners: Mapping[str, str],
) -> Pause | None:
    """Return the pause, or None if too few of its moves failed, or of too few owners."""
    evidence = _evidence(state, scope, subject, rules, now)
    if not evidence.is_share(FAILED_SHARE):
        return None
    if scope is not PauseScope.NAMESPACE and not _concerns_several(evidence, rules, owners):
        return None
    until = now + Backoff(rules.pause_first_seconds, rules.pause_longest_seconds).wait(0)
    return Pause(scope, now, until, subject, _why(evidence.failures, rules.pause_within_seconds))


def _concerns_several(evidence: _Evidence, rules: FollowUpRules, owners: Mapping[str, str]) -> bool:
    """Whether there are several failures, and no single owner is likely to have caused them all."""
    namespaces, most = evidence.namespaces, evidence.is_most
    if len(evidence.workloads) < rules.pause_workloads:
        return False
    if len({owners.get(name, name) for name in namespaces}) < OWNERS:
        return False
    if len(namespaces) >= NAMESPACES:
        return most or len({owners.get(name) for name in namespaces}) >= OWNERS
    return most and len(evidence.workloads) >= 2 * rules.pause_workloads


def _perhaps_of_one(
    evidence: _Evidence, rules: FollowUpRules, owners: Mapping[str, str]
) -> set[str]:
    """The namespaces of failures that would pause all if they were of several owners."""
    many = len(evidence.workloads) >= rules.pause_workloads and evidence.is_share(FAILED_SHARE)
    if (
        not many
        or len(evidence.namespaces) < NAMESPACES
        or _concerns_several(evidence, rules, owners)
    ):
        return set()
    return evidence.namespaces


def _why(failures: Iterable[Failure], within_seconds: int) -> str:
    newest = {f.workload: f.result.value for f in sorted(failures, key=lambda f: f.at)}
    named = [f"{workload} ({result})" for workload, result in sorted(newest.items())]
    further = len(named) - MOST_NAMED
    names = ", ".join(named[:MOST_NAMED]) + (f" and {further} more" if further > 0 else "")
    within = duration_text(within_seconds)
    return f"moves of {len(named)} workloads failed within {within}: {names}"
