"""Carries out the evictions of a plan at a measured pace, each after a fresh look.

An eviction that finds no room for the moment, in its budget or among the replicas of its workload,
waits, and others go first. Those of the same node or the same workload never do: their places were
chosen one after the other, so they keep the order of the plan. The room at a destination is kept
for all of them, whichever comes first. Throttling is about desched itself: all requests wait.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from desched.errors import ObservationError, StopActing
from desched.eviction.pacing import Patience, Rate, is_ahead
from desched.model.plan import Plan, PlannedEviction, RefusalReason
from desched.model.report import EvictionVerdict, Outcome
from desched.planning.confirmation import reconsider
from desched.planning.eligibility.context import EligibilityContext, Finding
from desched.ports import Clock, ClusterReader, EvictionAnswer, Evictor, Fence, FreshLook

MOST_TRIES = 6
"""So often an eviction is tried in one cycle; each try is at most one request."""

MOST_THROTTLED = 3
"""After so many throttled requests in a row acting ends in this cycle."""

UNNAMED_PAUSE_SECONDS = 1.0
"""The pause after throttling that does not say how long."""

MAY_PASS = frozenset(
    {
        RefusalReason.BUDGET_EXHAUSTED,
        RefusalReason.BUDGET_NOT_CURRENT,
        RefusalReason.REPLICAS_NOT_READY,
        RefusalReason.ROLLOUT_UNDER_WAY,
    }
)
"""What a fresh look may find for a moment only: the workload is short of a replica."""

STOPPED = "desched was asked to stop"
LEADERSHIP_LOST = "leadership was lost"
TIME_OVER = "the cycle's time for acting is over"


class Acting(NamedTuple):
    """What carrying out a plan needs.

    `context` is what the plan was made on. `remember` writes an eviction down before it is asked
    for, and raises StopActing if it could not; `forget` takes it back once it was answered no.
    `steer` sets the soft taints that the landing counts on, and says why it could not. `hand_over`
    writes down that a webhook carries the eviction out, and raises StopActing if it could not.
    """

    cluster: ClusterReader
    evictor: Evictor
    clock: Clock
    context: EligibilityContext
    may_act: Fence
    remember: Callable[[PlannedEviction], None]
    forget: Callable[[PlannedEviction], None]
    steer: Callable[[PlannedEviction], str] = lambda _: ""
    hand_over: Callable[[PlannedEviction], None] = lambda _: None


def carry_out(plan: Plan, acting: Acting) -> tuple[Outcome, ...]:
    """Ask for each eviction when its time has come; what became of them, in the plan's order.

    No further eviction begins after an answer that is missing or not understood, once the process
    may not act any more, and when the cycle's time for acting is over; the rest is reported with
    the last answer that it got, else as not begun.
    """
    turns = [_Turn(eviction) for eviction in plan.evictions]
    executor = _Executor(acting)
    stopped = ""
    while not stopped and any(turn.open for turn in turns):
        stopped = executor.step(turns)
    now = acting.clock.now()
    return tuple(
        turn.outcome
        or Outcome(turn.eviction.pod, turn.eviction.node, EvictionVerdict.NOT_BEGUN, now, stopped)
        for turn in turns
    )


class _Turn(msgspec.Struct):
    """A planned eviction and how it stands; `waits_for` is the budget or workload it needs room in.

    While it is open, `outcome` is the last answer to it, if there was one.
    """

    eviction: PlannedEviction
    open: bool = True
    tries: int = 0
    waits_for: str = ""
    outcome: Outcome | None = None

    def close(self, outcome: Outcome) -> None:
        """It is decided."""
        self.outcome, self.open = outcome, False

    def try_again(self, outcome: Outcome) -> None:
        """Perhaps later; after many tries this is what became of it."""
        self.tries += 1
        self.outcome, self.open = outcome, self.tries < MOST_TRIES


def _foremost(turns: Sequence[_Turn]) -> Iterator[_Turn]:
    """Open ones that no earlier one of their node or workload holds back."""
    nodes, workloads = set(), set()
    for turn in turns:
        if turn.open:
            node, workload = turn.eviction.node, turn.eviction.workload_uid
            if node not in nodes and workload not in workloads:
                yield turn
            nodes.add(node)
            workloads.add(workload)


class _Executor:
    """One step at a time: each returns why acting ends, or an empty text."""

    def __init__(self, acting: Acting) -> None:
        limits = acting.context.policy.limits
        self._acting = acting
        self._clock = acting.clock
        self._rate = _rate(acting)
        self._patience = Patience()
        self._deadline = acting.clock.monotonic() + limits.deadline_seconds
        self._throttled = 0
        self._resume_at = -math.inf

    def step(self, turns: Sequence[_Turn]) -> str:
        """Try the eviction that is due first, or wait until one is."""
        forbidden = self._forbidden()
        if forbidden:
            return forbidden
        now = self._clock.monotonic()
        dues = ((turn, max(now, self._due(turn))) for turn in _foremost(turns))
        turn, due = min(dues, key=lambda each: each[1])  # the first of the plan among equals
        if due >= self._deadline:
            return TIME_OVER
        if is_ahead(due, now):
            self._clock.wait(due - now)
            return ""
        return self._try(turn)

    def _forbidden(self) -> str:
        if self._clock.stopping():
            return STOPPED
        if not self._acting.may_act():
            return LEADERSHIP_LOST
        return TIME_OVER if self._clock.monotonic() >= self._deadline else ""

    def _due(self, turn: _Turn) -> float:
        return max(self._resume_at, self._rate.next_at, self._patience.due(turn.waits_for))

    def _try(self, turn: _Turn) -> str:
        """Look again, and ask if the eviction is still right."""
        try:
            look = self._acting.cluster.read_around(turn.eviction.pod)
        except ObservationError as error:
            return self._end(turn, EvictionVerdict.UNREADABLE, error)
        finding = reconsider(turn.eviction, look, self._acting.context, self._clock.now())
        if look is None or finding is not None:
            self._not_confirmed(turn, look, finding)
            return ""
        turn.waits_for = _bottleneck(turn.eviction, look)
        if is_ahead(self._patience.due(turn.waits_for), self._clock.monotonic()):
            return ""  # another eviction was refused for the same budget a moment ago
        return self._ask(turn)

    def _not_confirmed(self, turn: _Turn, look: FreshLook | None, finding: Finding) -> None:
        reason, detail = finding or (None, "")
        verdict = EvictionVerdict.GONE if look is None else EvictionVerdict.NOT_CONFIRMED
        outcome = self._outcome(turn, verdict, detail, reason)
        if look is None or reason not in MAY_PASS:
            turn.close(outcome)
            return
        turn.waits_for = _bottleneck(turn.eviction, look)
        self._patience.refused(turn.waits_for, self._clock.monotonic())
        turn.try_again(turn.outcome or outcome)  # what the API answered says more

    def _ask(self, turn: _Turn) -> str:
        """Write it down, ask, and do what the answer asks for."""
        acting, eviction = self._acting, turn.eviction
        unsteered = acting.steer(eviction)
        if unsteered:
            turn.close(
                self._outcome(
                    turn,
                    EvictionVerdict.NOT_CONFIRMED,
                    f"its soft taints could not be set: {unsteered}",
                    RefusalReason.CONFIRMATION_FAILED,
                )
            )
            return ""
        self._rate.take(self._clock.monotonic())
        try:
            acting.remember(eviction)
        except StopActing as error:
            return str(error)
        forbidden = self._forbidden()  # writing takes time
        if forbidden:
            acting.forget(eviction)
            return forbidden
        try:
            answer = acting.evictor.evict(eviction.pod, eviction.reason)
        except StopActing as error:
            return self._end(turn, EvictionVerdict.UNKNOWN, error)
        if answer.verdict in {EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER}:
            return self._accepted(turn, answer)
        acting.forget(eviction)
        return self._refused(turn, answer)

    def _accepted(self, turn: _Turn, answer: EvictionAnswer) -> str:
        acting, eviction = self._acting, turn.eviction
        self._throttled = 0
        self._patience.accepted(turn.waits_for)
        turn.close(self._outcome(turn, answer.verdict, answer.detail))
        stopped = ""
        if answer.verdict is EvictionVerdict.TAKEN_OVER:
            try:
                acting.hand_over(eviction)
            except StopActing as error:
                stopped = str(error)
        acting.evictor.announce(eviction, _story(eviction))
        return stopped

    def _refused(self, turn: _Turn, answer: EvictionAnswer) -> str:
        outcome = self._outcome(turn, answer.verdict, answer.detail)
        now = self._clock.monotonic()
        if answer.verdict is EvictionVerdict.THROTTLED:
            turn.try_again(outcome)
            self._throttled += 1
            self._resume_at = now + (answer.retry_after_seconds or UNNAMED_PAUSE_SECONDS)
            lasting = self._throttled >= MOST_THROTTLED
            return f"the API server keeps throttling: {answer.detail}" if lasting else ""
        self._throttled = 0
        if answer.verdict is EvictionVerdict.BLOCKED_BY_BUDGET:
            self._patience.refused(turn.waits_for, now)
            turn.try_again(outcome)
        else:
            turn.close(outcome)
        return ""

    def _end(self, turn: _Turn, verdict: EvictionVerdict, error: Exception) -> str:
        turn.close(self._outcome(turn, verdict, str(error)))
        return f"stopped after {turn.eviction.pod}: {error}"

    def _outcome(
        self,
        turn: _Turn,
        verdict: EvictionVerdict,
        detail: str,
        refusal: RefusalReason | None = None,
    ) -> Outcome:
        eviction, now = turn.eviction, self._clock.now()
        return Outcome(eviction.pod, eviction.node, verdict, now, detail, refusal)


def _rate(acting: Acting) -> Rate:
    """The pace of earlier evictions goes on: neither a further cycle nor a restart begins anew."""
    context, clock = acting.context, acting.clock
    rate = Rate(context.policy.limits.per_minute)
    now, monotonic = clock.now(), clock.monotonic()
    for record in context.state.evictions:
        rate.take(monotonic - max(0.0, (now - record.evicted_at).total_seconds()))
    return rate


def _bottleneck(eviction: PlannedEviction, look: FreshLook) -> str:
    """What has to have room: the budget of the pod, else its workload."""
    charged = look.charged
    return f"budget {charged[0]}" if charged else f"workload {eviction.workload_uid}"


def _story(eviction: PlannedEviction) -> str:
    relief = ", ".join(f"{r.resource.value} {r.ratio:.1%}" for r in eviction.relief)
    return (
        f"Evicted {eviction.pod} from {eviction.node}: {eviction.reason}; takes {relief} off it; "
        f"replacement expected on {eviction.expected_node}"
    )
