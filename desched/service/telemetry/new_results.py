"""Which results of moves are new, for consumers that count or publish each of them once."""

from desched.model.cluster import PodRef
from desched.model.report import CycleReport, Mode, NotActing
from desched.model.state import EvictionRecord


class NewResults:
    """Filters the settled moves of a report by those of the report before.

    After a state that could not be saved, the next cycle settles the same moves again.
    """

    def __init__(self) -> None:
        self._known: frozenset[PodRef] = frozenset()

    def of(self, report: CycleReport) -> tuple[EvictionRecord, ...]:
        """The moves whose result became known; none unless this replica acts."""
        if not is_acting_replica(report):
            return ()
        known_before, self._known = self._known, frozenset(record.pod for record in report.settled)
        return tuple(record for record in report.settled if record.pod not in known_before)


def is_acting_replica(report: CycleReport) -> bool:
    """Whether this replica publishes moves and pauses, which the other replicas see as well."""
    return report.mode is Mode.EVICT and report.not_acting is not NotActing.NOT_LEADING
