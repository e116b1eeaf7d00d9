"""Tells of moves and pauses in Events, where people look who do not read desched's log."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from desched.model.cluster import PodRef
from desched.model.report import CycleReport
from desched.model.state import FAILURES, SUCCESSES, EvictionRecord, Pause
from desched.service.reports.reason_texts import describe
from desched.service.telemetry.new_results import NewResults, is_acting_replica


class Announcer(Protocol):
    """Writes Events; says whether each was written, and never raises because one was not."""

    def settled(self, record: EvictionRecord, note: str) -> bool:
        """Say on the workload what became of the move, and on the node too if that was bad."""

    def warn_on_self(
        self, pod_name: str, namespace: str, reason: str, note: str, *, action: str
    ) -> bool:
        """Say on desched's own pod that a person should look."""


class EventPublisher:
    """Makes Events of reports: of each move that went well or did not, of each pause by itself.

    `own_pod` is where pauses are told, None where desched runs in no pod. Only the instance that
    acts tells, for the others see the same; what speaks neither for nor against a move is left to
    the log, and so are pauses that a person asked for.
    """

    def __init__(self, announcer: Announcer, own_pod: PodRef | None) -> None:
        self._announcer = announcer
        self._own_pod = own_pod
        self._moves = NewResults()
        self._last_pauses: frozenset[Pause] | None = None

    def publish(self, report: CycleReport) -> None:
        """Write what is new since the last report.

        After an Event that could not be written the rest is left to the log: the API server has
        other troubles, and nothing waits for Events.
        """
        if not is_acting_replica(report):
            return
        pauses = frozenset(pause for pause in report.state.pauses if not pause.by)
        known = self._last_pauses
        if known is None:  # what was paused before this process began was told by another one
            known = frozenset(pause for pause in pauses if pause.since < report.started_at)
        self._last_pauses = pauses
        new_pauses = sorted(pauses - known, key=lambda pause: (pause.scope, pause.subject))
        all(self._written(new_pauses, self._moves.of(report)))  # the first failure ends it

    def _written(self, pauses: Iterable[Pause], moves: Iterable[EvictionRecord]) -> Iterator[bool]:
        own = self._own_pod
        if own is not None:
            for pause in pauses:
                phrase = pause.describe()
                note = f"{phrase[0].upper()}{phrase[1:]}."
                yield self._announcer.warn_on_self(
                    own.name, own.namespace, "Paused", note, action="Pause"
                )
        for record in sorted(moves, key=lambda record: record.result not in FAILURES):
            if record.result in FAILURES | SUCCESSES:
                yield self._announcer.settled(record, move_note(record))


def move_note(record: EvictionRecord) -> str:
    """In one sentence: which pod was evicted from where, and what became of it."""
    if record.result is None:
        raise ValueError(f"what became of {record.pod} is not known yet")
    replacement = record.replacement.name if record.replacement else "it"
    landed = f"{replacement} on {record.landed_on}" if record.landed_on else ""
    sentence = describe(record.result, landed)
    return (
        f"Evicted {record.pod.name} from {record.node} at {record.evicted_at:%H:%M} UTC: "
        f"{sentence[0].lower()}{sentence[1:]}"
    )
