"""Run cycles, and turn the end of a run into an exit code."""

import sys
from typing import TYPE_CHECKING

from desched.cli.exit_codes import CAUGHT_SIGNAL, ExitCode

if TYPE_CHECKING:
    from desched.bootstrap.runs import Ending
    from desched.service.cycles.runner import ReportSink
    from desched.settings import Settings
    from desched.views.cycle_table import TableView


def run_cycles(settings: "Settings", view: "TableView | None" = None, *sinks: "ReportSink") -> int:
    """Run one cycle, or cycles until a signal, and return the exit code.

    `view` is which part of the report a table has, all by default. `sinks` get the reports after
    standard output.
    """
    from desched.bootstrap.runs import run
    from desched.views.cycle_table import WHOLE

    return exit_code_of(run(settings, sys.stdout, sys.stderr, view or WHOLE, *sinks))


def exit_code_of(ending: "Ending") -> int:
    """The exit code of a run that ended; if a signal ended it, say so."""
    signal = ending.cut_short_by
    if signal is None:
        return ExitCode.OBSERVATION if ending.inconclusive else ExitCode.DONE
    sys.stderr.write(f"desched: Ended by {signal.name} before the report; nothing was evicted.\n")
    return CAUGHT_SIGNAL + signal
