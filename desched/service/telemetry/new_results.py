"""Which settled moves are news, for what counts or announces each of them once."""

from desched.model.cluster import PodRef
from desched.model.report import CycleReport, Mode, NotActing
from desched.model.state import EvictionRecord


class NewResults:
    """Tells the moves of a report that the report before it did not have.

    A state that could not be saved makes the next cycle judge the same moves again.
    """

    def __init__(self) -> None:
        self._known: frozenset[PodRef] = frozenset()

    def of(self, report: CycleReport) -> tuple[EvictionRecord, ...]:
        """The moves whose result became known; none unless this instance is the one that acts."""
        if not is_acting_replica(report):
            return ()
        known, self._known = self._known, frozenset(record.pod for record in report.settled)
        return tuple(record for record in report.settled if record.pod not in known)


def is_acting_replica(report: CycleReport) -> bool:
    """Whether moves and pauses are for this instance to tell: the others see the same."""
    return report.mode is Mode.EVICT and report.not_acting is not NotActing.NOT_LEADING
