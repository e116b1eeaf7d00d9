"""How things stand, as JSON for who asks this very replica."""

from desched.model.report import CycleReport, Mode
from desched.service.reports.rendering import json_text, plain_value
from desched.service.telemetry.cycle_log import essentials

STATUS_VERSION = "desched.io/replica-status/v1"


class StatusEndpoint:
    """The newest report in a few words, what is remembered, and whether this replica acts.

    `instance` names the replica. Without leader election `leading` is null.
    """

    def __init__(self, instance: str, mode: Mode) -> None:
        self._instance = instance
        self._mode = mode
        self._leading: bool | None = None
        self._report: CycleReport | None = None

    def cycle_completed(self, report: CycleReport) -> None:
        """Show this report from now on."""
        self._report = report

    def leadership_changed(self, *, leading: bool) -> None:
        """Show whether this replica may act."""
        self._leading = leading

    def document(self) -> bytes:
        """The page; `last_cycle` and `state` are null before the first cycle.

        `last_cycle` has the fields of the log's `cycle.completed`, and when the cycle began.
        """
        report = self._report
        page = {
            "version": STATUS_VERSION,
            "instance": self._instance,
            "mode": self._mode.value,
            "leading": self._leading,
            "last_cycle": _last_cycle(report) if report else None,
            "state": plain_value(report.state) if report else None,
        }
        return json_text(page).encode()


def _last_cycle(report: CycleReport) -> dict[str, object]:
    return {"started_at": report.started_at, **essentials(report)}
