"""Publishes moves and pauses as Kubernetes Events, for people who do not read the log."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from desched.model.plan import HoldReason
from desched.model.report import CycleReport
from desched.model.state import FAILURES, SUCCESSES, EvictionRecord, Pause
from desched.service.telemetry.new_results import NewResults, is_acting_replica
from desched.wording.reasons import describe


class Announcer(Protocol):
    """Writes Events; the methods return false if one cannot be written, and never raise."""

    def settled(self, record: EvictionRecord, note: str) -> bool:
        """Write the result of the move on the workload, and on the node if the move failed."""

    def warn_on_self(self, reason: str, note: str, *, action: str) -> bool:
        """Write a warning on desched's own pod, if it has one."""


class EventPublisher:
    """Publishes each success, each failure, each automatic pause and each incident of the reports.

    Pauses and incidents are published on desched's own pod. Only the acting replica publishes.
    Inconclusive results and pauses by people are only logged.
    """

    def __init__(self, announcer: Announcer) -> None:
        self._announcer = announcer
        self._moves = NewResults()
        self._last_pauses: frozenset[Pause] | None = None

    def publish(self, report: CycleReport) -> None:
        """Publish what is new since the last report.

        The first Event that cannot be written ends this, because the API server has a problem and
        Events are optional.
        """
        if not is_acting_replica(report):
            return
        pauses = frozenset(pause for pause in report.state.pauses if not pause.by)
        published = self._last_pauses
        if published is None:  # another process published older pauses
            published = frozenset(pause for pause in pauses if pause.since < report.started_at)
        self._last_pauses = pauses
        new_pauses = sorted(pauses - published, key=lambda pause: (pause.scope, pause.subject))
        all(self._written(report, new_pauses, self._moves.of(report)))  # the first failure ends it

    def _written(
        self, report: CycleReport, pauses: Iterable[Pause], moves: Iterable[EvictionRecord]
    ) -> Iterator[bool]:
        cycle = report.state.last_cycle
        is_first = cycle is not None and cycle.held_since == cycle.at
        if is_first and report.plan.hold is HoldReason.CLUSTER_IN_TROUBLE:
            note = f"Evicts nothing until it is over: {report.plan.hold_detail}."
            yield self._announcer.warn_on_self("ClusterInTrouble", note, action="Hold")
        for pause in pauses:
            phrase = pause.describe()
            note = f"{phrase[0].upper()}{phrase[1:]}."
            yield self._announcer.warn_on_self("Paused", note, action="Pause")
        for record in sorted(moves, key=lambda record: record.result not in FAILURES):
            if record.result in FAILURES | SUCCESSES:
                yield self._announcer.settled(record, move_note(record))


def move_note(record: EvictionRecord) -> str:
    """One sentence about the eviction and its result."""
    if record.result is None:
        raise ValueError(f"the result of {record.pod} is not known yet")
    replacement = record.replacement.name if record.replacement else "it"
    landed = f"{replacement} on {record.landed_on}" if record.landed_on else ""
    sentence = describe(record.result, ", ".join(filter(None, (landed, record.waiting_for))))
    return (
        f"Evicted {record.pod.name} from {record.node} at {record.evicted_at:%H:%M} UTC: "
        f"{sentence[0].lower()}{sentence[1:]}"
    )
