"""Moves a gang as one: none of its pods is evicted unless all of them may be.

All pods are read again and judged as a group that leaves together. Then a dry run of each eviction
shows whether budgets and admission webhooks allow it. After that, all evictions are recorded in one
write, and requested without a break. The first accepted eviction disrupts the gang: refusals of
others are tried again, and if some pods are left at the end, the gang is broken. The next cycle
finds it by its records, and pauses it.
"""

from collections.abc import Sequence

from desched.errors import ObservationError
from desched.eviction.fresh_looks import MOST_LOOKS
from desched.eviction.pacing import is_ahead
from desched.eviction.requests import TIME_OVER, Attempt, Requests, bottleneck
from desched.model.report import EvictionVerdict
from desched.model.snapshot import FreshPod
from desched.plugins.gangs.confirmation import reconsider_gang
from desched.ports import PodToRead

SECONDS_PER_POD = 2.0
"""A gang begins only if this time for each of its pods is left until the cycle's deadline."""

_HAS_LEFT = frozenset({EvictionVerdict.GONE, EvictionVerdict.REPLACED})


def move_whole(attempts: Sequence[Attempt], requests: Requests) -> str:
    """Evict all pods of a gang or none; return why the cycle ends, if so.

    A gang waits until the rate limit has its whole burst, and counts as one burst: the evictions
    after it wait for as long as its pods take at that rate.
    """
    stopped = ""
    for step in (_wait, _look, _dry_run, _begin):
        stopped = step(attempts, requests)
        if stopped or not attempts[0].open:
            return stopped
    while not stopped and any(attempt.open for attempt in attempts):
        stopped = _request(attempts, requests)
    if any(attempt.begun for attempt in attempts):
        _report_the_rest(attempts, stopped, requests)
    else:
        requests.acting.journal.forget(*(each.eviction for each in attempts))
    return stopped


def _wait(attempts: Sequence[Attempt], requests: Requests) -> str:
    """Wait for the rate limit; without time for all pods, the gang is not begun."""
    due = max(requests.rate.full_at, requests.resume_at)
    seconds = SECONDS_PER_POD * len(attempts)
    while not (forbidden := requests.forbidden()):
        now = requests.clock.monotonic()
        if max(due, now) + seconds > requests.deadline:
            gang = attempts[0].eviction.gang
            for attempt in attempts:
                detail = f"{TIME_OVER} before {gang} has the {seconds:.0f} s that it needs"
                attempt.close(requests.outcome(attempt, EvictionVerdict.NOT_BEGUN, detail))
            return ""
        if not is_ahead(due, now):
            return ""
        requests.wait_until(due)
    return forbidden


def _look(attempts: Sequence[Attempt], requests: Requests) -> str:
    """Look at all pods afresh, and judge them as a group that leaves together."""
    acting, evictions = requests.acting, [each.eviction for each in attempts]
    last = evictions[-1]  # the last look has the whole gang
    wanted = [
        PodToRead(eviction.pod, eviction.expected_node, eviction is last) for eviction in evictions
    ]
    looks: list[FreshPod | None] = []
    for start in range(0, len(wanted), MOST_LOOKS):
        for looked in acting.world.cluster.read_around(wanted[start : start + MOST_LOOKS]):
            if isinstance(looked, ObservationError):
                return _unread(attempts, attempts[len(looks)], looked, requests)
            looks.append(looked)
    refused = reconsider_gang(evictions, looks, acting.context, requests.clock.now())
    for attempt, look in zip(attempts, looks, strict=True):
        if refused is not None and attempt.eviction is refused.eviction:
            reason, detail = refused.finding.reason, refused.finding.detail
            verdict = EvictionVerdict.GONE if look is None else EvictionVerdict.NOT_CONFIRMED
            outcome = requests.outcome(attempt, verdict, detail, reason)
            requests.close_all(attempts, attempt, outcome)
        elif look is not None:
            attempt.waits_for = bottleneck(attempt.eviction, look)
    return ""


def _dry_run(attempts: Sequence[Attempt], requests: Requests) -> str:
    """Request a dry run of each eviction; budgets and admission webhooks may refuse."""
    for attempt in attempts:
        forbidden = requests.forbidden()
        if forbidden:
            return forbidden
        eviction = attempt.eviction
        try:
            answer = requests.evictor.would_evict(eviction.pod, eviction.reason)
        except ObservationError as error:
            return _unread(attempts, attempt, error, requests)
        if answer.verdict is not EvictionVerdict.EVICTED:
            taken_over = answer.verdict is EvictionVerdict.TAKEN_OVER  # it would not move whole
            verdict = EvictionVerdict.NOT_CONFIRMED if taken_over else answer.verdict
            outcome = requests.outcome(attempt, verdict, f"in a dry run: {answer.detail}")
            requests.close_all(attempts, attempt, outcome)
            return ""
    return ""


def _begin(attempts: Sequence[Attempt], requests: Requests) -> str:
    return requests.begin(attempts)


def _request(attempts: Sequence[Attempt], requests: Requests) -> str:
    """Request the eviction that is due first; if the very first is refused, none is evicted."""
    attempt = requests.first_due([(each, requests.due(each)) for each in attempts if each.open])
    if isinstance(attempt, str):
        return attempt
    stopped = requests.send(attempt)
    if attempt.outcome is not None and not any(each.begun for each in attempts):
        requests.close_all(attempts, attempt, attempt.outcome)
    return stopped


def _unread(
    attempts: Sequence[Attempt], unread: Attempt, error: ObservationError, requests: Requests
) -> str:
    outcome = requests.outcome(unread, EvictionVerdict.UNREADABLE, str(error))
    requests.close_all(attempts, unread, outcome)
    return f"stopped after {unread.eviction.pod}: {error}"


def _report_the_rest(attempts: Sequence[Attempt], stopped: str, requests: Requests) -> None:
    """Report the pods that have not left although others have."""
    begun = sum(attempt.begun for attempt in attempts)
    for attempt in attempts:
        last = attempt.outcome
        if attempt.begun or (last is not None and last.verdict in _HAS_LEFT):
            continue
        reason = f"{last.verdict}: {last.detail}" if last else stopped
        evicted = f"{begun} of {len(attempts)} pods of {attempt.eviction.gang} are evicted"
        detail = f"{evicted}, and this one is not: {reason}"
        attempt.close(requests.outcome(attempt, EvictionVerdict.GANG_BROKEN, detail))
