"""Requests for evictions: at a limited rate, each recorded before, and what responses lead to."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from desched.errors import StopActing
from desched.eviction.fresh_looks import FreshLooks
from desched.eviction.journal import Journal
from desched.eviction.pacing import BURST, Patience, Rate, is_ahead
from desched.model.plan import RELIEF, PlannedEviction, RefusalReason
from desched.model.report import MAY_HAVE_BEGUN, EvictionVerdict, Outcome
from desched.model.snapshot import FreshPod
from desched.planning.eligibility.context import EligibilityContext
from desched.ports import Announcement, EvictionAnswer, World

MOST_TRIES = 6
"""The maximum number of tries for an eviction in one cycle; each try is at most one request."""

MOST_THROTTLED = 3
"""After this number of throttled requests in a row, the cycle stops evicting."""

DEFAULT_RETRY_SECONDS = 1.0
"""The wait after throttling if the API server does not set one."""

MOST_UNANNOUNCED = BURST
"""Events are written in one go after this number of evictions, before a wait, and at the end."""

STOPPED = "desched is stopping"
LEADERSHIP_LOST = "leadership was lost"
TIME_OVER = "the cycle's time for acting is over"


class Acting(NamedTuple):
    """The dependencies of the executor.

    `context` is the context of the plan. `steer` sets the soft taints that a landing needs, and
    returns an error or an empty text.
    """

    world: World
    context: EligibilityContext
    journal: Journal
    steer: Callable[[PlannedEviction], str] = lambda _: ""


class Attempt(msgspec.Struct):
    """The progress of a planned eviction; `waits_for` names the budget or workload that limits it.

    While it is open, `outcome` is the last response, if there was one.
    """

    eviction: PlannedEviction
    open: bool = True
    tries: int = 0
    waits_for: str = ""
    outcome: Outcome | None = None

    @property
    def begun(self) -> bool:
        """Whether the pod is being evicted, or may be."""
        return self.outcome is not None and self.outcome.verdict in MAY_HAVE_BEGUN

    def close(self, outcome: Outcome) -> None:
        """Set the final outcome."""
        self.outcome, self.open = outcome, False

    def try_again(self, outcome: Outcome) -> None:
        """Set the outcome, which is final after the last try."""
        self.tries += 1
        self.outcome, self.open = outcome, self.tries < MOST_TRIES


class Requests:
    """The requests of one cycle; a method that returns a text returns why the cycle ends, if so."""

    def __init__(self, acting: Acting) -> None:
        if acting.world.evictor is None:
            raise ValueError("a world without an evictor cannot be acted on")
        limits = acting.context.policy.limits
        self.acting = acting
        self.evictor = acting.world.evictor
        self.clock = acting.world.clock
        self.looks = FreshLooks(acting.world.cluster, self.clock.monotonic)
        self.rate = _rate(acting)
        self.patience = Patience()
        self.deadline = self.clock.monotonic() + limits.deadline_seconds
        self.resume_at = -math.inf
        self._throttled = 0
        self._unannounced: list[Announcement] = []

    def forbidden(self) -> str:
        """Return why no request may begin now, or an empty text."""
        if self.clock.stopping():
            return STOPPED
        if not self.acting.world.may_act():
            return LEADERSHIP_LOST
        return TIME_OVER if self.clock.monotonic() >= self.deadline else ""

    def due(self, attempt: Attempt, earliest: float = -math.inf) -> float:
        """When the attempt may be tried."""
        return max(earliest, self.resume_at, self.patience.due(attempt.waits_for))

    def first_due(self, dues: Sequence[tuple[Attempt, float]]) -> Attempt | str:
        """Return the attempt to try now, the first of equals; else a text, empty after a wait."""
        forbidden = self.forbidden()
        if forbidden:
            return forbidden
        now = self.clock.monotonic()
        attempt, due = min(dues, key=lambda pair: max(now, pair[1]))
        if due >= self.deadline:
            return TIME_OVER
        if is_ahead(due, now):
            self.wait_until(due)
            return ""
        return attempt

    def wait_until(self, due: float) -> None:
        """Announce what was accepted, or wait if there is nothing to announce."""
        if not self.announce():
            self.clock.wait(due - self.clock.monotonic())

    def begin(self, attempts: Sequence[Attempt]) -> str:
        """Record the evictions as in flight; without their soft taints they are closed instead."""
        journal, evictions = self.acting.journal, [each.eviction for each in attempts]
        for attempt in attempts:
            unsteered = self.acting.steer(attempt.eviction)
            if unsteered:
                reason = RefusalReason.CONFIRMATION_FAILED
                detail = f"its soft taints could not be set: {unsteered}"
                verdict = EvictionVerdict.NOT_CONFIRMED
                self.close_all(attempts, attempt, self.outcome(attempt, verdict, detail, reason))
                return ""
        for _ in attempts:
            self.rate.take(self.clock.monotonic())
        try:
            journal.remember(*evictions)
        except StopActing as error:
            return str(error)
        forbidden = self.forbidden()  # writing takes time
        if forbidden:
            journal.forget(*evictions)
        return forbidden

    def send(self, attempt: Attempt) -> str:
        """Request an eviction that has begun, and handle the response."""
        eviction = attempt.eviction
        self.looks.requested(eviction)
        try:
            answer = self.evictor.evict(eviction.pod, eviction.reason)
        except StopActing as error:
            self.acting.journal.doubt(eviction)
            return self.end(attempt, EvictionVerdict.UNKNOWN, error)
        if answer.verdict in {EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER}:
            return self._accepted(attempt, answer)
        return self._refused(attempt, answer)

    def close_all(self, attempts: Sequence[Attempt], refused: Attempt, outcome: Outcome) -> None:
        """Close attempts that are made together, because this one of them is refused."""
        refused.close(outcome)
        verdict, reason = EvictionVerdict.NOT_CONFIRMED, RefusalReason.CONFIRMATION_FAILED
        cause = ": ".join(filter(None, (outcome.refusal or outcome.verdict, outcome.detail)))
        for other in attempts:
            if other is not refused:
                detail = f"{other.eviction.gang} moves whole only with {outcome.pod}: {cause}"
                other.close(self.outcome(other, verdict, detail, reason))

    def _accepted(self, attempt: Attempt, answer: EvictionAnswer) -> str:
        eviction = attempt.eviction
        self._throttled = 0
        self.patience.accepted(attempt.waits_for)
        outcome = self.outcome(attempt, answer.verdict, answer.detail)
        attempt.close(outcome)
        stopped = ""
        if answer.verdict is EvictionVerdict.TAKEN_OVER:
            try:
                self.acting.journal.hand_over(eviction)
            except StopActing as error:
                stopped = str(error)
        announcement = Announcement(eviction, _story(eviction), outcome.at)
        self._unannounced.append(announcement)
        if len(self._unannounced) == MOST_UNANNOUNCED:
            self.announce()
        return stopped

    def announce(self) -> bool:
        """Announce what was accepted since the last time; return false if there is nothing."""
        announcements, self._unannounced = self._unannounced, []
        if announcements:
            self.evictor.announce(announcements)
        return bool(announcements)

    def _refused(self, attempt: Attempt, answer: EvictionAnswer) -> str:
        outcome = self.outcome(attempt, answer.verdict, answer.detail)
        now = self.clock.monotonic()
        if answer.verdict is EvictionVerdict.THROTTLED:
            attempt.try_again(outcome)
            self._throttled += 1
            self.resume_at = now + (answer.retry_after_seconds or DEFAULT_RETRY_SECONDS)
            lasting = self._throttled >= MOST_THROTTLED
            return f"the API server keeps throttling: {answer.detail}" if lasting else ""
        self._throttled = 0
        if answer.verdict is EvictionVerdict.BLOCKED_BY_BUDGET:
            self.patience.refused(attempt.waits_for, now)
            attempt.try_again(outcome)
        else:
            attempt.close(outcome)
        return ""

    def end(self, attempt: Attempt, verdict: EvictionVerdict, error: Exception) -> str:
        """Close the attempt, and end the cycle's evictions."""
        attempt.close(self.outcome(attempt, verdict, str(error)))
        return f"stopped after {attempt.eviction.pod}: {error}"

    def outcome(
        self,
        attempt: Attempt,
        verdict: EvictionVerdict,
        detail: str,
        refusal: RefusalReason | None = None,
    ) -> Outcome:
        """The outcome of an attempt now."""
        eviction, now = attempt.eviction, self.clock.now()
        return Outcome(eviction.pod, eviction.node, verdict, now, detail, refusal)


def bottleneck(eviction: PlannedEviction, look: FreshPod) -> str:
    """The budget of the pod, or its workload without one."""
    charged = look.charged
    return f"budget {charged[0]}" if charged else f"workload {eviction.workload_uid}"


def _rate(acting: Acting) -> Rate:
    """The rate limiter, with the evictions of earlier cycles counted."""
    context, clock = acting.context, acting.world.clock
    rate = Rate(context.policy.limits.per_minute)
    now, monotonic = clock.now(), clock.monotonic()
    for record in context.state.evictions:
        rate.take(monotonic - max(0.0, (now - record.evicted_at).total_seconds()))
    return rate


def _story(eviction: PlannedEviction) -> str:
    relief = ", ".join(f"{r.resource.value} {r.ratio:.1%}" for r in eviction.relief)
    is_relieved = relief and eviction.purpose == RELIEF  # else the reason is all
    relieves = f"relieves it of {relief}; " if is_relieved else ""
    return (
        f"Evicted {eviction.pod} from {eviction.node}: {eviction.grounds}; {relieves}"
        f"replacement expected on {eviction.expected_on}"
    )
