"""The diagnosis as a table for people, and as JSON or YAML."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from textwrap import TextWrapper
from typing import NamedTuple

import msgspec
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from desched.doctor.checks import Check, Diagnosis, Verdict
from desched.model.groups import grouped
from desched.views.blocks import REST, Block, styled
from desched.views.rendering import View
from desched.wording.formatting import MODE_NAMES, count, first_lines, plain

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
VERDICT_WIDTH = max(map(len, Verdict))


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


def diagnosis_blocks(report: DoctorReport) -> Iterator[Block]:
    """Every check, the most urgent last."""
    yield styled(f"desched · doctor · {report.target}")
    yield from (f"{report.asked_at:%Y-%m-%d %H:%M:%S} UTC · {_run(report)}", "")
    rows = [
        (verdict, names, lines_found)
        for verdict in LEAST_URGENT_FIRST
        for names, lines_found in _rows(c for c in report.diagnosis.checks if c.verdict is verdict)
    ]
    named = max((len(name) for _, names, _ in rows for name in names), default=0)
    yield from (_Row(*row, named) for row in rows)
    yield from ("", styled(summary(report.diagnosis)))


def _run(report: DoctorReport) -> str:
    policy = f"policy {report.policy}" if report.policy else "no policy given"
    return f"{policy}, {MODE_NAMES[report.mode]}"


def _rows(checks: Iterable[Check]) -> Iterator[tuple[Sequence[str], Sequence[Text]]]:
    """The names and the lines of each finding; what is found of several checks is said once."""
    for alike in grouped((check.found, check) for check in checks).values():
        names, lines = [str(check.name) for check in alike], list(_lines(alike))
        if alike[0].verdict is Verdict.SKIPPED and len(names) > 1:
            lines[0] = Text(f"{lines[0]} ({', '.join(names)})")
            names = [count(len(names), "check")]
        yield names, lines


def _lines(alike: Sequence[Check]) -> Iterator[Text]:
    """What was found, what to do, and details of what is not well."""
    yield Text(plain(alike[0].found))
    if alike[0].verdict is not Verdict.OK:
        details = list(dict.fromkeys(detail for check in alike for detail in check.details))
        for detail in first_lines(details, MOST_DETAILS, REST):
            yield styled(f"  {detail}", "dim")
    for fix in dict.fromkeys(check.fix for check in alike if check.fix):
        yield Text(f"→ {plain(fix)}")


class _Row(NamedTuple):
    """The columns of a row; a word that a line is too short for stays whole, to be copied."""

    verdict: Verdict
    names: Sequence[str]
    texts: Sequence[Text]
    width: int

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        left = VERDICT_WIDTH + self.width + 2
        whole = TextWrapper(
            options.max_width - left, break_long_words=False, break_on_hyphens=False
        )
        lines = [Text(part, line.style) for line in self.texts for part in whole.wrap(line.plain)]
        for name, line in zip_longest(self.names, lines, fillvalue=""):
            shown = self.verdict.value if line is lines[0] else ""
            row = Text(f"{shown:<{VERDICT_WIDTH}} ", STYLES[self.verdict], no_wrap=True)
            row.overflow = "ignore"
            row.append(f"{name:<{self.width}} ", "default")
            yield row.append(line)


def summary(diagnosis: Diagnosis) -> str:
    """Whether it is safe to start, and how many checks stand in the way."""
    counts = Counter(check.verdict for check in diagnosis.checks)
    warnings = count(counts[Verdict.WARNING], "warning")
    if diagnosis.is_safe:
        return f"It is safe to start desched here ({warnings})."
    problems = count(counts[Verdict.PROBLEM], "problem")
    unknowns = f"{counts[Verdict.UNKNOWN]} unknown, " if counts[Verdict.UNKNOWN] else ""
    return f"It is not safe to start desched here: {problems}, {unknowns}{warnings}."
