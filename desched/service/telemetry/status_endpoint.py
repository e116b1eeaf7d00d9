"""This replica's status: a page at / for people, and JSON at /status for programs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus

from desched.model.report import CycleReport, Mode
from desched.service.inputs.policy_file import PolicyReading
from desched.service.process.http_endpoints import HTML, JSON, Answer, Answers, Query
from desched.service.telemetry.cycle_log import essentials
from desched.views.pages.document import Html
from desched.views.pages.status_page import FailedCycle, PolicyNews, ServiceStatus, status_page
from desched.views.rendering import json_text, plain_value

STATUS_VERSION = "desched.io/replica-status/v1"


@dataclass(eq=False)
class StatusEndpoint:
    """The last report, the state, the policy, and whether this replica leads.

    `instance` names the replica. Without leader election `leading` is null. `leader` names the
    replica that leads, as far as this one knows.
    """

    instance: str
    mode: Mode
    now: Callable[[], datetime]
    leader: Callable[[], str] = str
    _leading: bool | None = field(default=None, init=False)
    _report: CycleReport | None = field(default=None, init=False)
    _failure: FailedCycle | None = field(default=None, init=False)
    _policy: PolicyNews | None = field(default=None, init=False)

    def cycle_completed(self, report: CycleReport) -> None:
        """Show this report from now on."""
        self._report = report
        self._failure = None

    def cycle_failed(self, problem: str) -> None:
        """Show that the last cycle failed, beside the last report."""
        self._failure = FailedCycle(self.now(), problem)

    def policy_read(self, reading: PolicyReading) -> None:
        """Show the policy that is in force, and what is wrong with its file."""
        before = self._policy
        changed_at, changes = (before.changed_at, before.changes) if before else (None, ())
        if reading.changes:
            changed_at, changes = self.now(), reading.changes
        self._policy = PolicyNews(
            reading.policy.source, reading.warnings, reading.problem, changed_at, changes
        )

    def leadership_changed(self, *, leading: bool) -> None:
        """Show whether this replica may act."""
        self._leading = leading

    def page(self) -> Html:
        """The page."""
        return status_page(
            ServiceStatus(
                self.now(),
                self.instance,
                self.mode,
                self._leading,
                self.leader(),
                self._report,
                self._failure,
                self._policy,
            )
        )

    def document(self) -> bytes:
        """The document; `last_cycle` and `state` are null before the first cycle.

        `policy` is null as well, unless an edit was found before. `last_cycle` has
        the start of the cycle and the fields of the log's `cycle.completed`.
        """
        report = self._report
        document = {
            "version": STATUS_VERSION,
            "instance": self.instance,
            "mode": self.mode.value,
            "leading": self._leading,
            "leader": self.leader(),
            "last_cycle": report and {"started_at": report.started_at, **essentials(report)},
            "policy": self._policy and self._policy._asdict(),
            "state": report and plain_value(report.state),
        }
        return json_text(document).encode()


def status_answers(status: StatusEndpoint) -> Answers:
    """What the server answers at / and /status."""

    def page(_: Query) -> Answer:
        html = status.page()
        headers = {
            "Content-Security-Policy": f"{html.security_policy}; frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        return Answer(HTTPStatus.OK, HTML, html.text.encode(), headers)

    return {"/": page, "/status": lambda _: Answer(HTTPStatus.OK, JSON, status.document())}
