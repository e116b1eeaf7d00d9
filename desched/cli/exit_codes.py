"""How the process ends."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How the process ends."""

    DONE = 0
    FAILED = 1  # a bug, or an output that cannot be written
    CONFIGURATION = 2
    OBSERVATION = 3


CAUGHT_SIGNAL = 128
"""Added to the number of a signal that ended a single run before its report, as in shells."""
