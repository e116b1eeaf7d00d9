"""The command line: flags made from the settings, a help page, and exit codes."""

import argparse
import difflib
import errno
import os
import sys
import textwrap
import traceback
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any, Literal, NamedTuple, NoReturn, get_args, get_origin

import structlog
from pydantic.fields import FieldInfo

from desched import __version__
from desched.errors import ConfigurationError, ObservationError
from desched.model.text import on_one_line
from desched.policy.durations import duration_text
from desched.settings import Settings, flag_of, load_settings, option_of, variable_of

_log = structlog.get_logger(__name__)


class ExitCode(IntEnum):
    """What the process says by ending."""

    DONE = 0
    FAILED = 1  # a bug, or an output that cannot be written
    CONFIGURATION = 2
    OBSERVATION = 3


CAUGHT_SIGNAL = 128
"""Added to a signal's number, as shells do, where it ended a single run before its report."""

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Errors of an output: desched writes to nothing but its standard streams."""


DESCRIPTION = """\
desched moves pods away from overloaded Kubernetes nodes. It reads the load of nodes and pods
from Prometheus, picks the few pods whose move helps most, evicts them through the Eviction API,
and says why every other pod stays.

  desched --dry-run --policy policy.yaml     show once what it would do in the current context
  desched --evict --once --policy p.yaml     do it once, from this machine
  desched --policy /etc/desched/policy.yaml  keep doing it every 5 minutes (in a pod)
  desched demo                               watch it work on a simulated cluster
  desched pause --for 2h --because "…"       evict nothing for a while, wherever desched runs
  desched resume                             evict again
  desched status                             what it did last, what rests, what is under way
  desched steering clear                     take all its soft taints off the nodes

In a cluster it evicts unless told --dry-run. Outside it evicts only with --evict; otherwise it is
a dry run. Reports go to standard output, the log and all messages to standard error.
"""

EPILOGUE = """\
Settings can be given by the environment variable beside each flag; the flag wins. Switches take
true or false as a value too (--dry-run=false).

Exit codes: 0 done, 1 a bug in desched, or its output cannot be written, 2 fix your configuration,
3 the cluster or Prometheus could not be observed, or so much of the load is unknown that a single
run is held, 130 or 143 a signal ended a single run before its report.
"""


class Flag(NamedTuple):
    """A flag of a command that is no setting; without a metavar it is a switch."""

    help: str
    metavar: str = ""

    def shape(self) -> dict[str, Any]:
        """How argparse should take it."""
        return {"metavar": self.metavar} if self.metavar else {"action": "store_const", "const": ""}


FLAGS: Mapping[str, Flag] = {
    "workload": Flag("The workload to pause or resume, such as shop/web.", "NAMESPACE/NAME"),
    "pool": Flag("The pool of the policy's nodePools to pause or resume.", "NAME"),
    "for": Flag("How long to pause, such as 2h; else until it is resumed.", "DURATION"),
    "because": Flag("Why, for others to read.", "TEXT"),
    "all": Flag("Resume all: end every pause and every cool-down."),
}


class Command(NamedTuple):
    """What may be said after a command: settings, and flags of its own."""

    settings: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()


DEMO = "demo"
STEERING = "steering"
CLEAR = "clear"
_REACHING = frozenset({"kubeconfig", "context", "state_namespace", "log_format", "log_level"})
COMMANDS: Mapping[str, Command] = {
    DEMO: Command(),
    "pause": Command(_REACHING, frozenset({"workload", "pool", "for", "because"})),
    "resume": Command(_REACHING, frozenset({"workload", "pool", "all"})),
    "status": Command(_REACHING | {"output"}),
    STEERING: Command(_REACHING),
}
_SEE_HELP = "See `desched --help`."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(f"{message[:1].upper()}{message[1:]}. {_SEE_HELP}")


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps the help of options, and keeps the layout of the rest."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=4, width=100)


def build_parser() -> argparse.ArgumentParser:
    """The parser; it leaves out what was not given, so that the environment can speak."""
    parser = _Parser(
        prog="desched",
        usage=f"desched [{'|'.join(COMMANDS)}] [options]",
        description=DESCRIPTION,
        epilog=EPILOGUE,
        formatter_class=_HelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help="Show this page.")
    parser.add_argument(
        "--version", action="version", version=f"desched {__version__}", help="Show the version."
    )
    parser.add_argument("command", nargs="?", default=None, help=argparse.SUPPRESS)
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
    of_commands = parser.add_argument_group("Only for pause and resume")
    for name, flag in FLAGS.items():
        of_commands.add_argument(flag_of(name), dest=name, help=flag.help, **flag.shape())
    parser.add_argument_group("Only in the environment", _environment_only())
    return parser


def parse(arguments: Sequence[str]) -> dict[str, Any]:
    """What was given, by field or flag of a command; `command` too, None if there is none.

    Raises:
        ConfigurationError: there is no such flag or command. The value of an unknown flag is not
            repeated, for it may be a secret.
    """
    known, unknown = build_parser().parse_known_args(arguments)
    given = vars(known)
    flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    if flags:
        raise ConfigurationError(f"{_no_such_flag(flags[0])} {_SEE_HELP}")
    command = given["command"]
    if command not in {None, *COMMANDS}:
        near = difflib.get_close_matches(command, COMMANDS, n=1)
        ending = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(COMMANDS)}."
        raise ConfigurationError(f'There is no command "{command}"; {ending} {_SEE_HELP}')
    if command == STEERING and unknown != [CLEAR]:
        raise ConfigurationError(
            f"Say `desched {STEERING} {CLEAR}`; there is no other. {_SEE_HELP}"
        )
    if command != STEERING and unknown:
        raise ConfigurationError(f'There is nothing to do with "{unknown[0]}". {_SEE_HELP}')
    for name in (name for name in given if name != "command"):
        _refuse_misplaced(name, command)
    return given


def _refuse_misplaced(name: str, command: str | None) -> None:
    """A flag that means nothing to the command, or without one, is a misunderstanding."""
    if command == DEMO:
        raise ConfigurationError(
            f"{flag_of(name)}: the demonstration has a cluster and a policy of its own and takes "
            'no flags; leave out the flag, or "demo".'
        )
    if command is None and name in FLAGS:
        takers = [f"`desched {word}`" for word, each in COMMANDS.items() if name in each.flags]
        raise ConfigurationError(f"{flag_of(name)} belongs to {' and '.join(takers)}. {_SEE_HELP}")
    if command and name not in COMMANDS[command].settings | COMMANDS[command].flags:
        raise ConfigurationError(
            f"{flag_of(name)} means nothing to `desched {command}`; leave it out. {_SEE_HELP}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run desched and return its exit code; errors become sentences on standard error."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except ConfigurationError as error:
        return _fail(str(error), ExitCode.CONFIGURATION)
    except ObservationError as error:
        return _fail(str(error), ExitCode.OBSERVATION)
    except BrokenPipeError:
        _drop_output()
        return ExitCode.DONE  # whoever read the report has seen enough
    except Exception as error:  # noqa: BLE001  (the last resort turns a bug into one line)
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            _drop_output()
            return _fail(
                f"The output cannot be written ({error.strerror}); check where standard output "
                "goes, and whether there is room.",
                ExitCode.FAILED,
            )
        if structlog.is_configured():  # until then its lines would go to standard output
            _log.debug("process.crashed", exc_info=True)
        where = traceback.extract_tb(error.__traceback__)[-1]
        return _fail(
            f"This is a bug in desched: {type(error).__name__}: {error} "
            f"({where.name}, line {where.lineno}); --log-level debug shows the traceback.",
            ExitCode.FAILED,
        )


def _run(arguments: Sequence[str]) -> int:
    given = parse(arguments)
    command = given.pop("command")
    if command == DEMO:
        return _demo()
    flags = {name: given.pop(name) for name in FLAGS if name in given}
    settings = load_settings(given)
    if command:
        return _command(command, settings, flags)
    from desched.bootstrap.runs import run  # noqa: PLC0415  (loads every client; --help must be quick)

    ending = run(settings, sys.stdout, sys.stderr)
    if ending.cut_short_by is not None:
        return _fail(
            f"Ended by {ending.cut_short_by.name} before the report; nothing was evicted.",
            CAUGHT_SIGNAL + ending.cut_short_by,
        )
    return ExitCode.OBSERVATION if ending.load_unknown else ExitCode.DONE


def _command(name: str, settings: Settings, flags: Mapping[str, str]) -> int:
    from desched.bootstrap.commands import run_command  # noqa: PLC0415  (--help must be quick)

    run_command(name, settings, flags, sys.stdout, sys.stderr)
    sys.stdout.flush()
    return ExitCode.DONE


def _demo() -> int:
    from rich.console import Console  # noqa: PLC0415  (--help must be quick)

    from desched.service.reports.cycle_table import print_report  # noqa: PLC0415  (--help must be quick)
    from desched.simulation.demo import run_demo  # noqa: PLC0415  (--help must be quick)

    try:
        code = run_demo(Console(), print_report)
        sys.stdout.flush()
    except SystemExit:
        return ExitCode.DONE  # rich's answer to a reader that has left
    return code


def _drop_output() -> None:
    """What is still buffered goes nowhere; the interpreter would else fail to flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    for line in message.split("\n"):
        sys.stderr.write(f"desched: {on_one_line(line)}\n")
    return code


def _shape(field: FieldInfo) -> dict[str, Any]:
    """How argparse should take the value; what it means is left to the settings."""
    if bool in {field.annotation, *get_args(field.annotation)}:
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


def _no_such_flag(flag: str) -> str:
    names = {flag_of(name): name for name in Settings.model_fields}
    if flag in names:
        instead = f"set {variable_of(names[flag])}"
        if f"{flag}-file" in names:
            instead += f", or name a file with {flag}-file"
        return (
            f"{flag}: this is not taken as an argument, because everyone on the machine can read "
            f"arguments; {instead}."
        )
    flags = [
        name for name in names if not option_of(Settings.model_fields[names[name]]).environment_only
    ]
    near = difflib.get_close_matches(flag, [*flags, *map(flag_of, FLAGS)], n=1)
    return f"There is no flag {flag}" + (f"; did you mean {near[0]}?" if near else ".")
