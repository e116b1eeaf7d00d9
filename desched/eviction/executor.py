"""Carries out the evictions of a plan, each after a fresh look at its pod."""

from collections.abc import Iterator

from desched.errors import ObservationError, StopActing
from desched.model.plan import Plan, PlannedEviction, RefusalReason
from desched.model.report import EvictionVerdict, Outcome
from desched.planning.confirmation import reconsider
from desched.planning.surroundings import Surroundings
from desched.ports import Clock, ClusterReader, Evictor

THROTTLE_TRIES = 3
LONGEST_THROTTLE_SECONDS = 30.0
"""A longer Retry-After ends acting in this cycle; the next one is soon enough."""

STOPPING = frozenset(
    {EvictionVerdict.UNKNOWN, EvictionVerdict.UNREADABLE, EvictionVerdict.THROTTLED}
)
"""After these no further eviction begins in this cycle."""


def carry_out(
    plan: Plan, cluster: ClusterReader, evictor: Evictor, clock: Clock, around: Surroundings
) -> Iterator[Outcome]:
    """Ask for each eviction in turn and yield what became of it.

    After an answer that is missing or not understood, and after the process was asked to stop, no
    further eviction begins; the rest is reported as not begun.
    """
    acting = _Acting(cluster, evictor, clock, around)
    stopped = ""
    for eviction in plan.evictions:
        if not stopped and clock.stopping():
            stopped = "desched was asked to stop"
        if stopped:
            verdict, detail, refusal = EvictionVerdict.NOT_BEGUN, stopped, None
        else:
            verdict, detail, refusal = acting.on(eviction)
        if verdict in STOPPING:
            stopped = f"stopped after {eviction.pod}: {detail}"
        yield Outcome(eviction.pod, eviction.node, verdict, clock.now(), detail, refusal)


Became = tuple[EvictionVerdict, str, RefusalReason | None]


class _Acting:
    """One eviction: a fresh look, the request, and what the answer asks for."""

    def __init__(
        self, cluster: ClusterReader, evictor: Evictor, clock: Clock, around: Surroundings
    ) -> None:
        self._cluster = cluster
        self._evictor = evictor
        self._clock = clock
        self._around = around

    def on(self, eviction: PlannedEviction) -> Became:
        """What became of it."""
        try:
            return self._try(eviction, THROTTLE_TRIES)
        except ObservationError as error:
            return EvictionVerdict.UNREADABLE, str(error), None
        except StopActing as error:
            return EvictionVerdict.UNKNOWN, str(error), None

    def _try(self, eviction: PlannedEviction, tries: int) -> Became:
        fresh = self._cluster.read_pod(eviction.pod)
        finding = reconsider(eviction, fresh, self._around)
        if finding is not None:
            verdict = EvictionVerdict.GONE if fresh is None else EvictionVerdict.NOT_CONFIRMED
            return verdict, finding[1], finding[0]
        answer = self._evictor.evict(eviction.pod, eviction.reason)
        if answer.verdict is EvictionVerdict.THROTTLED and tries > 1:
            pause_seconds = answer.retry_after_seconds or 1.0
            if pause_seconds <= LONGEST_THROTTLE_SECONDS and not self._clock.wait(pause_seconds):
                return self._try(eviction, tries - 1)
        if answer.verdict in {EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER}:
            self._evictor.announce(eviction, _note(eviction))
        return answer.verdict, answer.detail, None


def _note(eviction: PlannedEviction) -> str:
    relief = ", ".join(f"{r.resource.value} {r.ratio:.1%}" for r in eviction.relief)
    return (
        f"Evicted {eviction.pod} from {eviction.node}: {eviction.reason}; takes {relief} off it; "
        f"replacement expected on {eviction.expected_node}"
    )
