"""The diagnosis as a table for people, and as JSON or YAML."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from desched.doctor.checks import Check, Diagnosis, Verdict
from desched.model.groups import grouped
from desched.views.formatting import MODE_NAMES, count, plain
from desched.views.rendering import View

DOCTOR_VERSION = "desched.io/doctor/v1"
STYLES = {
    Verdict.OK: "green",
    Verdict.WARNING: "yellow",
    Verdict.PROBLEM: "bold red",
    Verdict.UNKNOWN: "bold magenta",
    Verdict.SKIPPED: "dim",
}
LEAST_URGENT_FIRST = (
    Verdict.SKIPPED,
    Verdict.OK,
    Verdict.WARNING,
    Verdict.UNKNOWN,
    Verdict.PROBLEM,
)
"""The order in a terminal, which ends where the eye is."""

MOST_DETAILS = 5


class DoctorReport(View, msgspec.Struct, frozen=True):
    """A diagnosis with the cluster and the time that it is of."""

    asked_at: datetime
    target: str
    policy: str
    mode: str
    diagnosis: Diagnosis

    @property
    def document(self) -> Mapping[str, object]:
        """The checks, and whether it is safe to start."""
        return {
            "version": DOCTOR_VERSION,
            "asked_at": self.asked_at,
            "target": self.target,
            "policy": self.policy,
            "mode": self.mode,
            "safe_to_start": self.diagnosis.is_safe,
            "checks": self.diagnosis.checks,
        }


def print_diagnosis(report: DoctorReport, console: Console) -> None:
    """Print every check, the most urgent last."""
    console.print(Text(f"desched · doctor · {plain(report.target)}", style="bold"))
    console.print(Text(f"{report.asked_at:%Y-%m-%d %H:%M:%S} UTC · {_run(report)}"))
    console.print()
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for verdict in LEAST_URGENT_FIRST:
        checks = [check for check in report.diagnosis.checks if check.verdict is verdict]
        for names, found in _rows(checks, together=verdict is Verdict.SKIPPED):
            table.add_row(Text(verdict.value, style=STYLES[verdict]), names, found)
    console.print(table)
    console.print()
    console.print(Text(summary(report.diagnosis), style="bold"))


def _run(report: DoctorReport) -> str:
    policy = f"policy {plain(report.policy)}" if report.policy else "no policy given"
    return f"{policy}, {MODE_NAMES[report.mode]}"


def _rows(checks: Iterable[Check], *, together: bool) -> Iterator[tuple[str, Text]]:
    """The names and the findings of these checks; `together` with one row for each finding."""
    if not together:
        yield from ((check.name.value, Text("\n").join(_lines(check))) for check in checks)
        return
    alike = grouped((check.found, check.name.value) for check in checks)
    for found, names in alike.items():
        if len(names) == 1:
            yield names[0], Text(plain(found))
        else:
            yield count(len(names), "check"), Text(plain(f"{found} ({', '.join(names)})"))


def _lines(check: Check) -> Iterator[Text]:
    """What was found, what to do, and details of what is not well."""
    yield Text(plain(check.found))
    if check.verdict is not Verdict.OK:
        for detail in check.details[:MOST_DETAILS]:
            yield Text(f"  {plain(detail)}", style="dim")
        more = len(check.details) - MOST_DETAILS
        if more > 0:
            yield Text(f"  … and {more} more; --output json has all", style="dim")
    if check.fix:
        yield Text(f"→ {plain(check.fix)}")


def summary(diagnosis: Diagnosis) -> str:
    """Whether it is safe to start, and how many checks stand in the way."""
    found = Counter(check.verdict for check in diagnosis.checks)
    warnings = count(found[Verdict.WARNING], "warning")
    if diagnosis.is_safe:
        return f"It is safe to start desched here ({warnings})."
    problems = count(found[Verdict.PROBLEM], "problem")
    unknowns = f"{found[Verdict.UNKNOWN]} unknown, " if found[Verdict.UNKNOWN] else ""
    return f"It is not safe to start desched here: {problems}, {unknowns}{warnings}."
