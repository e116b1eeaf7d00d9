"""The command line. Modules load late, because help and completion must be quick."""

from desched.cli.exit_codes import ExitCode
from desched.cli.program import main

__all__ = ["ExitCode", "main"]
