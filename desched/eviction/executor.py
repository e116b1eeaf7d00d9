"""Executes the evictions of a plan at a limited rate, each after a fresh look.

Evictions are requested one after the other. Pods of several are looked at side by side. An eviction
waits if its budget or its workload cannot spare a replica at the moment, and others go first.
Evictions from one node or of one workload keep the order of the plan, because each forecast assumes
the moves before it. If the API server throttles desched, all requests wait. A plugin evicts pods
that leave together, when the evictions before them have ended.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from desched.errors import ObservationError
from desched.eviction.pacing import is_ahead
from desched.eviction.requests import Acting, Attempt, Requests, bottleneck
from desched.model.plan import Finding, Plan, RefusalReason, Undertaking
from desched.model.report import EvictionVerdict, Outcome
from desched.model.snapshot import FreshPod
from desched.planning.confirmation import reconsider
from desched.planning.eligibility.terms import Refused
from desched.ports import MaybeFreshPod, PodToRead

MAY_PASS = frozenset(
    {
        RefusalReason.BUDGET_EXHAUSTED,
        RefusalReason.BUDGET_NOT_CURRENT,
        RefusalReason.REPLICAS_NOT_READY,
        RefusalReason.ROLLOUT_UNDER_WAY,
    }
)
"""Refusals that may pass soon: the workload cannot spare a replica at the moment."""


def carry_out(plan: Plan, acting: Acting) -> tuple[Outcome, ...]:
    """Execute the evictions; return their outcomes in the order of the plan.

    No further eviction begins after a response that is missing or not understood, once the process
    may not act any more, and after the cycle's deadline. The others are reported with their last
    response, or as not begun.
    """
    attempts = [Attempt(eviction) for eviction in plan.evictions]
    requests = Requests(acting)
    stopped = ""
    for batch, following in groupby(attempts, key=lambda each: each.eviction.gang):
        together = list(following)
        if batch and not stopped:
            stopped = _evict_together(together, requests)
        while not stopped and any(attempt.open for attempt in together):
            stopped = _step(together, requests)
    requests.announce()
    not_begun = EvictionVerdict.NOT_BEGUN
    return tuple(each.outcome or requests.outcome(each, not_begun, stopped) for each in attempts)


def _evict_together(attempts: Sequence[Attempt], requests: Requests) -> str:
    """Let a plugin evict pods that leave together; return why the cycle ends, if so."""
    plugins = requests.acting.context.policy.plugins
    answers = (plugin.evict_together(attempts, requests) for plugin in plugins)
    return next((answer for answer in answers if answer is not None), "")


def _step(attempts: Sequence[Attempt], requests: Requests) -> str:
    """Try the eviction that is due first, or wait; return why the cycle ends, if so."""
    dues = [(each, requests.due(each, requests.rate.next_at)) for each in _foremost(attempts)]
    attempt = requests.first_due(dues)
    if isinstance(attempt, str):
        return attempt
    now = requests.clock.monotonic()
    following = [each.eviction for each, due in dues if not is_ahead(due, now)]
    looked = requests.looks.at(attempt.eviction, following[: requests.rate.free(now)])
    return _try(attempt, looked, requests)


def _foremost(attempts: Sequence[Attempt]) -> Iterator[Attempt]:
    """The open attempts that do not wait for an earlier one of their node or workload."""
    nodes, workloads = set(), set()
    for attempt in attempts:
        if attempt.open:
            node, workload = attempt.eviction.node, attempt.eviction.workload_uid
            if node not in nodes and workload not in workloads:
                yield attempt
            nodes.add(node)
            workloads.add(workload)


def _try(attempt: Attempt, look: MaybeFreshPod, requests: Requests) -> str:
    """Confirm the eviction, and request it."""
    if isinstance(look, ObservationError):
        return requests.end(attempt, EvictionVerdict.UNREADABLE, look)
    acting, eviction = requests.acting, attempt.eviction
    finding = reconsider(eviction, look, acting.context, requests.clock.now())
    if finding is None and eviction.undertaking is not None:
        awaited = _awaited(eviction.undertaking, acting)
        if isinstance(awaited, ObservationError):
            return requests.end(attempt, EvictionVerdict.UNREADABLE, awaited)
        finding = None if awaited else _IN_VAIN
    if look is None or finding is not None:
        _not_confirmed(attempt, look, finding, requests)
        return ""
    attempt.waits_for = bottleneck(eviction, look)
    if is_ahead(requests.patience.due(attempt.waits_for), requests.clock.monotonic()):
        return ""  # the same budget refused another eviction a moment ago
    stopped = requests.begin([attempt])
    if stopped or not attempt.open:
        return stopped
    stopped = requests.send(attempt)
    if not attempt.begun:
        acting.journal.forget(eviction)
    return stopped


_IN_VAIN = Finding(
    RefusalReason.CONFIRMATION_FAILED, "what it makes room for does not wait any more"
)


def _awaited(undertaking: Undertaking, acting: Acting) -> bool | ObservationError:
    """Whether one of its pods still has no node, as read just now; if it names none, yes."""
    for pod in undertaking.awaited_by:
        (looked,) = acting.world.cluster.read_around([PodToRead(pod, siblings=False)])
        if isinstance(looked, ObservationError):
            return looked
        if looked is not None and looked.pod.uid == pod.uid and not looked.pod.node:
            return True
    return not undertaking.awaited_by


def _not_confirmed(
    attempt: Attempt, look: FreshPod | None, finding: Refused, requests: Requests
) -> None:
    reason, detail = (finding.reason, finding.detail) if finding else (None, "")
    verdict = EvictionVerdict.GONE if look is None else EvictionVerdict.NOT_CONFIRMED
    outcome = requests.outcome(attempt, verdict, detail, reason)
    if look is None or reason not in MAY_PASS:
        attempt.close(outcome)
        return
    attempt.waits_for = bottleneck(attempt.eviction, look)
    requests.patience.refused(attempt.waits_for, requests.clock.monotonic())
    attempt.try_again(attempt.outcome or outcome)  # a response of the API has more details
