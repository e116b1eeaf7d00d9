"""How the process ends."""

import sys
from enum import IntEnum
from signal import Signals
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from desched.bootstrap.runs import Ending


class ExitCode(IntEnum):
    """How the process ends."""

    DONE = 0
    FAILED = 1  # a bug, or an output that cannot be written
    CONFIGURATION = 2
    OBSERVATION = 3


CAUGHT_SIGNAL = 128
"""Added to the number of a signal that ended a single run before its report, as in shells."""


def ended_by(signal: Signals, effect: str = "") -> int:
    """Print which signal ended the command, and return the exit code."""
    sys.stderr.write(f"desched: Ended by {signal.name}{effect}.\n")
    return CAUGHT_SIGNAL + signal


def exit_code_of(ending: "Ending") -> int:
    """The exit code of a run that ended; if a signal ended it, say so."""
    if ending.cut_short_by is not None:
        return ended_by(ending.cut_short_by, " before the report; nothing was evicted")
    return ExitCode.OBSERVATION if ending.inconclusive else ExitCode.DONE
