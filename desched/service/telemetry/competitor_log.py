"""Warns of other deschedulers once, not in every cycle."""

import structlog

from desched.model.report import CycleReport

_log = structlog.get_logger(__name__)


class CompetitorLog:
    """Logs whenever the other deschedulers in the cluster are others than before."""

    def __init__(self) -> None:
        self._told: tuple[str, ...] = ()

    def tell(self, report: CycleReport) -> None:
        """Log what has changed since the last report."""
        if report.other_deschedulers == self._told:
            return
        self._told = report.other_deschedulers
        if self._told:
            _log.warning(
                "other_descheduler.found",
                others=list(self._told),
                meaning="two deschedulers undo each other's work; choose one",
            )
        else:
            _log.info("other_descheduler.gone")
