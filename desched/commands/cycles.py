"""`desched` without a command: one cycle, or cycles until a signal."""

import sys

from desched.bootstrap import runs
from desched.cli.command import Invocation
from desched.cli.exit_codes import exit_code_of


def run(invocation: Invocation) -> int:
    """Run as the settings say, and return the exit code."""
    return exit_code_of(runs.run(invocation.settings(), sys.stdout, sys.stderr))
