"""The soft taints of a cycle as a person reads them: what was set, what went, what would be set."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from desched.model.report import CycleReport, Mode, TaintChange
from desched.service.reports.formatting import plain


def print_soft_taints(report: CycleReport, console: Console) -> None:
    """Print which nodes have the taint and why, if there are any."""
    lines = list(_lines(report))
    if lines:
        console.print(Text("Soft taints (desched.io/overloaded):", style="bold"))
        for line in lines:
            console.print(Text(plain(f"  {line}")))
        console.print()


def _lines(report: CycleReport) -> Iterator[str]:
    if report.mode is not Mode.DRY_RUN:
        yield from map(_change, report.taints)
        return
    told: set[str] = set()
    for taint in report.plan.taints:
        if taint.node not in told:  # several moves may need the same one
            told.add(taint.node)
            yield f"{taint.node} would have it: {taint.why}"


def _change(change: TaintChange) -> str:
    if change.done:
        return f"{change.node} {'has' if change.tainted else 'has lost'} it: {change.why}"
    verb = "get" if change.tainted else "lose"
    return f"{change.node} was to {verb} it ({change.why}), and did not: {change.detail}"
