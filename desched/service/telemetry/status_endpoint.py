"""This replica's status as JSON, served at /status."""

from dataclasses import dataclass, field

from desched.model.report import CycleReport, Mode
from desched.service.reports.rendering import json_text, plain_value
from desched.service.telemetry.cycle_log import essentials

STATUS_VERSION = "desched.io/replica-status/v1"


@dataclass(eq=False)
class StatusEndpoint:
    """The essentials of the last report, the state, and whether this replica leads.

    `instance` names the replica. Without leader election `leading` is null.
    """

    instance: str
    mode: Mode
    _leading: bool | None = field(default=None, init=False)
    _report: CycleReport | None = field(default=None, init=False)

    def cycle_completed(self, report: CycleReport) -> None:
        """Show this report from now on."""
        self._report = report

    def leadership_changed(self, *, leading: bool) -> None:
        """Show whether this replica may act."""
        self._leading = leading

    def document(self) -> bytes:
        """The document; `last_cycle` and `state` are null before the first cycle.

        `last_cycle` has the start of the cycle and the fields of the log's `cycle.completed`.
        """
        report = self._report
        document = {
            "version": STATUS_VERSION,
            "instance": self.instance,
            "mode": self.mode.value,
            "leading": self._leading,
            "last_cycle": report and {"started_at": report.started_at, **essentials(report)},
            "state": report and plain_value(report.state),
        }
        return json_text(document).encode()
