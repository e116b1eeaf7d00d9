"""Carries out the evictions of a plan, each after a fresh look at its pod."""

from collections.abc import Iterator

from desched.errors import ObservationError, StopActing
from desched.model.cluster import Pod
from desched.model.plan import Plan, PlannedEviction, RefusalReason
from desched.model.report import EvictionVerdict, Outcome
from desched.planning.confirmation import reconsider
from desched.planning.eligibility import Surroundings
from desched.ports import Clock, ClusterReader, EvictionAnswer, Evictor

THROTTLE_TRIES = 3
LONGEST_THROTTLE_SECONDS = 30.0
"""A longer Retry-After ends acting in this cycle; the next one is soon enough."""


def carry_out(
    plan: Plan, cluster: ClusterReader, evictor: Evictor, clock: Clock, around: Surroundings
) -> Iterator[Outcome]:
    """Ask for each eviction in turn and yield what became of it.

    After an answer that is missing or not understood, and after the process was asked to stop, no
    further eviction begins; the rest is reported as not begun.
    """
    stopped = ""
    for eviction in plan.evictions:
        if not stopped and clock.stopping():
            stopped = "desched was asked to stop"
        if stopped:
            yield _outcome(eviction, EvictionVerdict.NOT_BEGUN, stopped)
            continue
        try:
            outcome = _one(eviction, cluster, evictor, clock, around)
        except (StopActing, ObservationError) as error:
            stopped = f"stopped: {error}"
            acted = isinstance(error, StopActing)
            verdict = EvictionVerdict.UNKNOWN if acted else EvictionVerdict.NOT_BEGUN
            outcome = _outcome(eviction, verdict, str(error))
        if outcome.verdict is EvictionVerdict.THROTTLED:
            stopped = f"throttled: {outcome.detail}"
        yield outcome


def _one(
    eviction: PlannedEviction,
    cluster: ClusterReader,
    evictor: Evictor,
    clock: Clock,
    around: Surroundings,
) -> Outcome:
    fresh = cluster.read_pod(eviction.pod)
    finding = reconsider(eviction, fresh, around)
    if finding is not None:
        reason, detail = finding
        return _refused(eviction, fresh, reason, detail)
    answer = _ask(eviction, evictor, clock)
    if answer.verdict in {EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER}:
        evictor.announce(eviction, _note(eviction))
    return _outcome(eviction, answer.verdict, answer.detail)


def _ask(eviction: PlannedEviction, evictor: Evictor, clock: Clock) -> EvictionAnswer:
    """Ask, and wait as told where the API server throttles."""
    answer = evictor.evict(eviction.pod, eviction.reason)
    for _ in range(THROTTLE_TRIES - 1):
        if answer.verdict is not EvictionVerdict.THROTTLED:
            break
        pause_seconds = answer.retry_after_seconds or 1.0
        if pause_seconds > LONGEST_THROTTLE_SECONDS or clock.wait(pause_seconds):
            break
        answer = evictor.evict(eviction.pod, eviction.reason)
    return answer


def _refused(
    eviction: PlannedEviction, fresh: Pod | None, reason: RefusalReason, detail: str
) -> Outcome:
    verdict = EvictionVerdict.GONE if fresh is None else EvictionVerdict.NOT_CONFIRMED
    return Outcome(eviction.pod, eviction.node, verdict, detail, reason)


def _outcome(eviction: PlannedEviction, verdict: EvictionVerdict, detail: str) -> Outcome:
    return Outcome(eviction.pod, eviction.node, verdict, detail)


def _note(eviction: PlannedEviction) -> str:
    relief = ", ".join(f"{r.resource.value} {r.ratio:.1%}" for r in eviction.relief)
    return (
        f"Evicted {eviction.pod} from {eviction.node}: {eviction.reason}; takes {relief} off it; "
        f"replacement expected on {eviction.expected_node}"
    )
