"""The command line: flags made from the settings, a help page, and exit codes."""

import argparse
import difflib
import os
import sys
import textwrap
import traceback
from collections.abc import Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any, Literal, NoReturn, get_args, get_origin

import structlog
from pydantic.fields import FieldInfo

from desched import __version__
from desched.errors import ConfigurationError, ObservationError
from desched.policy.durations import duration_text
from desched.settings import Settings, flag_of, load_settings, option_of, variable_of

_log = structlog.get_logger(__name__)


class ExitCode(IntEnum):
    """What the process says by ending."""

    DONE = 0
    BUG = 1
    CONFIGURATION = 2
    OBSERVATION = 3


DESCRIPTION = """\
desched moves pods away from overloaded Kubernetes nodes. It reads the load of nodes and pods
from Prometheus, picks the few pods whose move helps most, evicts them through the Eviction API,
and says why every other pod stays.

  desched --dry-run --policy policy.yaml     show once what it would do in the current context
  desched --evict --once --policy p.yaml     do it once, from this machine
  desched --policy /etc/desched/policy.yaml  keep doing it every 5 minutes (in a pod)
  desched demo                               watch it work on a simulated cluster

In a cluster it evicts unless told --dry-run. Outside it evicts only with --evict; otherwise it is
a dry run. Reports go to standard output, the log and all messages to standard error.
"""

EPILOGUE = """\
Every flag can be given by the environment variable beside it; the flag wins. Switches take
true or false as a value too (--dry-run=false).

Exit codes: 0 done, 1 a bug in desched, 2 fix your configuration, 3 the cluster or Prometheus
could not be observed.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(f"{_with_suggestion(message)} See `desched --help`.")


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps the help of options, and keeps the layout of the rest."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=4, width=100)


def build_parser() -> argparse.ArgumentParser:
    """The parser; it leaves out what was not given, so that the environment can speak."""
    parser = _Parser(
        prog="desched",
        usage="desched [demo] [options]",
        description=DESCRIPTION,
        epilog=EPILOGUE,
        formatter_class=_HelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"desched {__version__}")
    parser.add_argument(
        "command", nargs="?", choices=["demo"], default=None, help=argparse.SUPPRESS
    )
    groups: dict[str, argparse._ArgumentGroup] = {}
    for name, field in Settings.model_fields.items():
        option = option_of(field)
        if option.environment_only:
            continue
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        groups[option.group].add_argument(
            flag_of(name), *option.aliases, dest=name, help=_help(name, field), **_shape(field)
        )
    parser.add_argument_group("Only in the environment", _environment_only())
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run desched and return its exit code; errors become sentences on standard error."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except ConfigurationError as error:
        return _fail(str(error), ExitCode.CONFIGURATION)
    except ObservationError as error:
        return _fail(str(error), ExitCode.OBSERVATION)
    except BrokenPipeError:
        # Whoever read the report has seen enough; the interpreter must not flush into the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except Exception as error:  # noqa: BLE001  (the last resort turns a bug into one line)
        if structlog.is_configured():  # until then its lines would go to standard output
            _log.debug("process.crashed", exc_info=True)
        where = traceback.extract_tb(error.__traceback__)[-1]
        return _fail(
            f"This is a bug in desched: {type(error).__name__}: {error} "
            f"({where.name}, line {where.lineno}); --log-level debug shows the traceback.",
            ExitCode.BUG,
        )


def _run(arguments: Sequence[str]) -> int:
    given = vars(build_parser().parse_args(arguments))
    if given.pop("command", None) == "demo":
        return _demo()
    settings = load_settings(given)
    from desched.bootstrap.runs import run  # noqa: PLC0415  (loads every client; --help must be quick)

    run(settings, sys.stdout, sys.stderr)
    return ExitCode.DONE


def _demo() -> int:
    from rich.console import Console  # noqa: PLC0415  (--help must be quick)

    from desched.service.terminal import print_report  # noqa: PLC0415  (--help must be quick)
    from desched.simulation.demo import run_demo  # noqa: PLC0415  (--help must be quick)

    return run_demo(Console(), print_report)


def _fail(message: str, code: ExitCode) -> int:
    for line in message.splitlines():
        sys.stderr.write(f"desched: {line}\n")
    return code


def _shape(field: FieldInfo) -> dict[str, Any]:
    """How argparse should take the value; what it means is left to the settings."""
    if field.annotation is bool:
        return {"nargs": "?", "const": "true", "metavar": "BOOL"}
    return {"metavar": option_of(field).metavar or "|".join(_choices(field))}


def _choices(field: FieldInfo) -> tuple[str, ...]:
    """The values of a field that has a fixed set of them."""
    literals = [field.annotation, *get_args(field.annotation)]
    return next(get_args(item) for item in literals if get_origin(item) is Literal)


def _help(name: str, field: FieldInfo) -> str:
    default = f" Default: {_spelt(field.default)}." if field.default else ""
    return f"{field.description}{default} [{variable_of(name)}]".replace("%", "%%")


def _spelt(default: object) -> str:
    if isinstance(default, timedelta):
        return duration_text(round(default.total_seconds()))
    return str(default)


def _environment_only() -> str:
    lines = [
        textwrap.fill(
            f"{variable_of(name)}  {field.description}",
            width=98,
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
        for name, field in Settings.model_fields.items()
        if option_of(field).environment_only
    ]
    return "\n".join(lines)


def _with_suggestion(message: str) -> str:
    sentence = f"{message[:1].upper()}{message[1:]}."
    prefix, _, unknown = message.partition(": ")
    if prefix == "unrecognized arguments":
        flag = unknown.split()[0].partition("=")[0]
        near = difflib.get_close_matches(flag, map(flag_of, Settings.model_fields), n=1)
        sentence += f" Did you mean {near[0]}?" if near else ""
    return sentence
