"""Executes the evictions of a plan at a limited rate, each after a fresh look.

Evictions are requested one after the other. Pods of several are looked at side by side. An eviction
waits if its budget or its workload cannot spare a replica at the moment, and others go first.
Evictions from one node or of one workload keep the order of the plan, because each forecast assumes
the moves before it. If the API server throttles desched, all requests wait.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from desched.errors import ObservationError, StopActing
from desched.eviction.fresh_looks import FreshLooks
from desched.eviction.journal import Journal
from desched.eviction.pacing import BURST, Patience, Rate, is_ahead
from desched.model.plan import Plan, PlannedEviction, RefusalReason
from desched.model.report import EvictionVerdict, Outcome
from desched.model.snapshot import FreshLook
from desched.planning.confirmation import reconsider
from desched.planning.eligibility.context import EligibilityContext, Refused
from desched.ports import Announcement, EvictionAnswer, Looked, World

MOST_TRIES = 6
"""The maximum number of tries for an eviction in one cycle; each try is at most one request."""

MOST_THROTTLED = 3
"""After this number of throttled requests in a row, the cycle stops evicting."""

DEFAULT_RETRY_SECONDS = 1.0
"""The wait after throttling if the API server does not set one."""

MAY_PASS = frozenset(
    {
        RefusalReason.BUDGET_EXHAUSTED,
        RefusalReason.BUDGET_NOT_CURRENT,
        RefusalReason.REPLICAS_NOT_READY,
        RefusalReason.ROLLOUT_UNDER_WAY,
    }
)
"""Refusals that may pass soon: the workload cannot spare a replica at the moment."""

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


def carry_out(plan: Plan, acting: Acting) -> tuple[Outcome, ...]:
    """Execute the evictions; return their outcomes in the order of the plan.

    No further eviction begins after a response that is missing or not understood, once the process
    may not act any more, and after the cycle's deadline. The others are reported with their last
    response, or as not begun.
    """
    attempts = [_Attempt(eviction) for eviction in plan.evictions]
    executor = _Executor(acting)
    stopped = ""
    while not stopped and any(attempt.open for attempt in attempts):
        stopped = executor.step(attempts)
    executor.announce()
    not_begun = EvictionVerdict.NOT_BEGUN
    return tuple(each.outcome or executor.outcome(each, not_begun, stopped) for each in attempts)


class _Attempt(msgspec.Struct):
    """The progress of a planned eviction; `waits_for` names the budget or workload that limits it.

    While it is open, `outcome` is the last response, if there was one.
    """

    eviction: PlannedEviction
    open: bool = True
    tries: int = 0
    waits_for: str = ""
    outcome: Outcome | None = None

    def close(self, outcome: Outcome) -> None:
        """Set the final outcome."""
        self.outcome, self.open = outcome, False

    def try_again(self, outcome: Outcome) -> None:
        """Set the outcome, which is final after the last try."""
        self.tries += 1
        self.outcome, self.open = outcome, self.tries < MOST_TRIES


def _foremost(attempts: Sequence[_Attempt]) -> Iterator[_Attempt]:
    """The open attempts that do not wait for an earlier one of their node or workload."""
    nodes, workloads = set(), set()
    for attempt in attempts:
        if attempt.open:
            node, workload = attempt.eviction.node, attempt.eviction.workload_uid
            if node not in nodes and workload not in workloads:
                yield attempt
            nodes.add(node)
            workloads.add(workload)


class _Executor:
    """Executes one step at a time; each step returns why the cycle stops evicting, or nothing."""

    def __init__(self, acting: Acting) -> None:
        if acting.world.evictor is None:
            raise ValueError("a world without an evictor cannot be acted on")
        limits = acting.context.policy.limits
        self._acting = acting
        self._evictor = acting.world.evictor
        self._clock = acting.world.clock
        self._looks = FreshLooks(acting.world.cluster, self._clock.monotonic)
        self._rate = _rate(acting)
        self._patience = Patience()
        self._deadline = self._clock.monotonic() + limits.deadline_seconds
        self._throttled = 0
        self._resume_at = -math.inf
        self._unannounced: list[Announcement] = []

    def step(self, attempts: Sequence[_Attempt]) -> str:
        """Try the eviction that is due first, or wait until one is."""
        forbidden = self._forbidden()
        if forbidden:
            return forbidden
        now = self._clock.monotonic()
        dues = [(attempt, max(now, self._due(attempt))) for attempt in _foremost(attempts)]
        attempt, due = min(dues, key=lambda each: each[1])  # the first of the plan among equals
        if due >= self._deadline:
            return TIME_OVER
        if is_ahead(due, now):
            if not self.announce():
                self._clock.wait(due - now)
            return ""
        following = [each.eviction for each, due in dues if not is_ahead(due, now)]
        looked = self._looks.at(attempt.eviction, following[: self._rate.free(now)])
        return self._try(attempt, looked)

    def _forbidden(self) -> str:
        if self._clock.stopping():
            return STOPPED
        if not self._acting.world.may_act():
            return LEADERSHIP_LOST
        return TIME_OVER if self._clock.monotonic() >= self._deadline else ""

    def _due(self, attempt: _Attempt) -> float:
        return max(self._resume_at, self._rate.next_at, self._patience.due(attempt.waits_for))

    def _try(self, attempt: _Attempt, look: Looked) -> str:
        """Confirm the eviction, and request it."""
        if isinstance(look, ObservationError):
            return self._end(attempt, EvictionVerdict.UNREADABLE, look)
        finding = reconsider(attempt.eviction, look, self._acting.context, self._clock.now())
        if look is None or finding is not None:
            self._not_confirmed(attempt, look, finding)
            return ""
        attempt.waits_for = _bottleneck(attempt.eviction, look)
        if is_ahead(self._patience.due(attempt.waits_for), self._clock.monotonic()):
            return ""  # the same budget refused another eviction a moment ago
        return self._request(attempt)

    def _not_confirmed(self, attempt: _Attempt, look: FreshLook | None, finding: Refused) -> None:
        reason, detail = (finding.reason, finding.detail) if finding else (None, "")
        verdict = EvictionVerdict.GONE if look is None else EvictionVerdict.NOT_CONFIRMED
        outcome = self.outcome(attempt, verdict, detail, reason)
        if look is None or reason not in MAY_PASS:
            attempt.close(outcome)
            return
        attempt.waits_for = _bottleneck(attempt.eviction, look)
        self._patience.refused(attempt.waits_for, self._clock.monotonic())
        attempt.try_again(attempt.outcome or outcome)  # a response of the API has more details

    def _request(self, attempt: _Attempt) -> str:
        """Record the eviction, request it, and handle the response."""
        acting, eviction = self._acting, attempt.eviction
        unsteered = acting.steer(eviction)
        if unsteered:
            verdict, reason = EvictionVerdict.NOT_CONFIRMED, RefusalReason.CONFIRMATION_FAILED
            detail = f"its soft taints could not be set: {unsteered}"
            attempt.close(self.outcome(attempt, verdict, detail, reason))
            return ""
        self._rate.take(self._clock.monotonic())
        try:
            acting.journal.remember(eviction)
        except StopActing as error:
            return str(error)
        forbidden = self._forbidden()  # writing takes time
        if forbidden:
            acting.journal.forget(eviction)
            return forbidden
        self._looks.requested(eviction)
        try:
            answer = self._evictor.evict(eviction.pod, eviction.reason)
        except StopActing as error:
            acting.journal.doubt(eviction)
            return self._end(attempt, EvictionVerdict.UNKNOWN, error)
        if answer.verdict in {EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER}:
            return self._accepted(attempt, answer)
        acting.journal.forget(eviction)
        return self._refused(attempt, answer)

    def _accepted(self, attempt: _Attempt, answer: EvictionAnswer) -> str:
        eviction = attempt.eviction
        self._throttled = 0
        self._patience.accepted(attempt.waits_for)
        outcome = self.outcome(attempt, answer.verdict, answer.detail)
        attempt.close(outcome)
        stopped = ""
        if answer.verdict is EvictionVerdict.TAKEN_OVER:
            try:
                self._acting.journal.hand_over(eviction)
            except StopActing as error:
                stopped = str(error)
        announcement = Announcement(eviction, _story(eviction), outcome.at)
        self._unannounced.append(announcement)
        if len(self._unannounced) == MOST_UNANNOUNCED:
            self.announce()
        return stopped

    def announce(self) -> bool:
        """Announce what was accepted since the last time; false if there is nothing."""
        announcements, self._unannounced = self._unannounced, []
        if announcements:
            self._evictor.announce(announcements)
        return bool(announcements)

    def _refused(self, attempt: _Attempt, answer: EvictionAnswer) -> str:
        outcome = self.outcome(attempt, answer.verdict, answer.detail)
        now = self._clock.monotonic()
        if answer.verdict is EvictionVerdict.THROTTLED:
            attempt.try_again(outcome)
            self._throttled += 1
            self._resume_at = now + (answer.retry_after_seconds or DEFAULT_RETRY_SECONDS)
            lasting = self._throttled >= MOST_THROTTLED
            return f"the API server keeps throttling: {answer.detail}" if lasting else ""
        self._throttled = 0
        if answer.verdict is EvictionVerdict.BLOCKED_BY_BUDGET:
            self._patience.refused(attempt.waits_for, now)
            attempt.try_again(outcome)
        else:
            attempt.close(outcome)
        return ""

    def _end(self, attempt: _Attempt, verdict: EvictionVerdict, error: Exception) -> str:
        attempt.close(self.outcome(attempt, verdict, str(error)))
        return f"stopped after {attempt.eviction.pod}: {error}"

    def outcome(
        self,
        attempt: _Attempt,
        verdict: EvictionVerdict,
        detail: str,
        refusal: RefusalReason | None = None,
    ) -> Outcome:
        """The outcome of an attempt now."""
        eviction, now = attempt.eviction, self._clock.now()
        return Outcome(eviction.pod, eviction.node, verdict, now, detail, refusal)


def _rate(acting: Acting) -> Rate:
    """The rate limiter, with the evictions of earlier cycles counted."""
    context, clock = acting.context, acting.world.clock
    rate = Rate(context.policy.limits.per_minute)
    now, monotonic = clock.now(), clock.monotonic()
    for record in context.state.evictions:
        rate.take(monotonic - max(0.0, (now - record.evicted_at).total_seconds()))
    return rate


def _bottleneck(eviction: PlannedEviction, look: FreshLook) -> str:
    """The budget of the pod, or its workload without one."""
    charged = look.charged
    return f"budget {charged[0]}" if charged else f"workload {eviction.workload_uid}"


def _story(eviction: PlannedEviction) -> str:
    relief = ", ".join(f"{r.resource.value} {r.ratio:.1%}" for r in eviction.relief)
    relieves = f"relieves it of {relief}; " if relief else ""
    return (
        f"Evicted {eviction.pod} from {eviction.node}: {eviction.reason}; {relieves}"
        f"replacement expected on {eviction.expected_node}"
    )
