"""The command line: flags made from the settings, the help page, and exit codes."""

import argparse
import difflib
import errno
import os
import sys
import textwrap
import traceback
from argparse import RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from functools import partial
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
    """How the process ends."""

    DONE = 0
    FAILED = 1  # a bug, or an output that cannot be written
    CONFIGURATION = 2
    OBSERVATION = 3


CAUGHT_SIGNAL = 128
"""Added to the number of a signal that ended a single run before its report, as in shells."""

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Errors of an output: desched writes only to its standard streams."""


DESCRIPTION = """\
desched moves pods away from overloaded Kubernetes nodes. It reads the load of nodes and pods
from Prometheus, selects the few pods whose move helps most, evicts them through the Eviction API,
and reports why every other pod stays.

  desched --dry-run --policy policy.yaml     show what it would do in the current context
  desched --evict --once --policy p.yaml     run one cycle from this machine
  desched --policy /etc/desched/policy.yaml  run a cycle every 5 minutes (in a pod)
  desched demo                               show a cycle on a simulated cluster
  desched pause --for 2h --because "…"       stop evicting for a while, wherever desched runs
  desched resume                             end the pause
  desched status                             show the last cycle, pauses and evictions in flight
  desched steering clear                     remove desched's soft taints from all nodes

In a cluster, desched evicts unless --dry-run is given. Outside a cluster, it evicts only with
--evict. Reports go to standard output, the log and all messages to standard error.
"""

EPILOGUE = """\
Each flag can also be set by the environment variable beside it; the flag takes precedence. Switches
accept a value as well (--dry-run=false).

Exit codes: 0 done, 1 a bug in desched or an output that cannot be written, 2 invalid configuration,
3 the cluster, its load or the result of an eviction is unknown, 130 or 143 a signal ended a single
run before its report.
"""


class Flag(NamedTuple):
    """A flag of a command that is not a setting; without a metavar it is a switch."""

    help: str
    metavar: str = ""


FLAGS: Mapping[str, Flag] = {
    "workload": Flag("The workload to pause or resume, such as shop/web.", "NAMESPACE/NAME"),
    "namespace": Flag("The namespace to pause or resume.", "NAME"),
    "pool": Flag("The pool of the policy's nodePools to pause or resume.", "NAME"),
    "for": Flag("The length of the pause, such as 2h; by default until you resume.", "DURATION"),
    "because": Flag("The reason, for other people.", "TEXT"),
    "all": Flag("End every pause and every cool-down."),
}


DEMO = "demo"
STEERING = "steering"
CLEAR = "clear"
_CONNECTION = frozenset({"kubeconfig", "context", "state_namespace", "log_format", "log_level"})
COMMANDS: Mapping[str, frozenset[str]] = {
    DEMO: frozenset(),
    "pause": _CONNECTION | {"workload", "namespace", "pool", "for", "because"},
    "resume": _CONNECTION | {"workload", "namespace", "pool", "all"},
    "status": _CONNECTION | {"output"},
    STEERING: _CONNECTION,
}
"""The settings and the flags of its own that each command accepts."""

_SEE_HELP = "See `desched --help`."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(f"{message[:1].upper()}{message[1:]}. {_SEE_HELP}")


def build_parser() -> argparse.ArgumentParser:
    """The parser; its result has only flags that were given, so that the environment applies."""
    parser = _Parser(
        prog="desched",
        usage=f"desched [{'|'.join(COMMANDS)}] [options]",
        description=DESCRIPTION,
        epilog=EPILOGUE,
        formatter_class=partial(RawDescriptionHelpFormatter, max_help_position=4, width=100),
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
        switch = {"action": "store_const", "const": ""}
        shape: Any = {"metavar": flag.metavar} if flag.metavar else switch
        of_commands.add_argument(flag_of(name), dest=name, help=flag.help, **shape)
    parser.add_argument_group("Only in the environment", _environment_only())
    return parser


def parse(arguments: Sequence[str]) -> dict[str, Any]:
    """The given values by setting or flag; `command` is None without a command.

    Raises:
        ConfigurationError: there is no such flag or command. The text does not repeat the value of
            an unknown flag, because it may be a secret.
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
        raise ConfigurationError(f"The only command is `desched {STEERING} {CLEAR}`. {_SEE_HELP}")
    if command != STEERING and unknown:
        raise ConfigurationError(f'The argument "{unknown[0]}" is unknown. {_SEE_HELP}')
    for name in (name for name in given if name != "command"):
        _refuse_misplaced(name, command)
    return given


def _refuse_misplaced(name: str, command: str | None) -> None:
    """Refuse flags without effect for the command, or without a command."""
    if command == DEMO:
        raise ConfigurationError(
            f"{flag_of(name)}: the demo has its own cluster and policy and takes no flags; omit "
            'the flag, or "demo".'
        )
    if command is None and name in FLAGS:
        takers = [f"`desched {word}`" for word, accepted in COMMANDS.items() if name in accepted]
        raise ConfigurationError(f"{flag_of(name)} belongs to {' and '.join(takers)}. {_SEE_HELP}")
    if command and name not in COMMANDS[command]:
        raise ConfigurationError(
            f"{flag_of(name)} has no effect for `desched {command}`; omit it. {_SEE_HELP}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run desched and return its exit code; errors are printed to standard error."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except ConfigurationError as error:
        return _fail(str(error), ExitCode.CONFIGURATION)
    except ObservationError as error:
        return _fail(str(error), ExitCode.OBSERVATION)
    except BrokenPipeError:
        _drop_output()
        return ExitCode.DONE  # the reader has read enough
    except Exception as error:  # noqa: BLE001  (the last resort turns a bug into one line)
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            _drop_output()
            return _fail(
                f"The output cannot be written ({error.strerror}); check the target of standard "
                "output and its free space.",
                ExitCode.FAILED,
            )
        if structlog.is_configured():  # its lines would go to standard output otherwise
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
        from desched.bootstrap.commands import run_command  # noqa: PLC0415  (--help must be quick)

        run_command(command, settings, flags, sys.stdout, sys.stderr)
        sys.stdout.flush()
        return ExitCode.DONE
    from desched.bootstrap.runs import run  # noqa: PLC0415  (loads every client; --help must be quick)

    ending = run(settings, sys.stdout, sys.stderr)
    if ending.cut_short_by is not None:
        return _fail(
            f"Ended by {ending.cut_short_by.name} before the report; nothing was evicted.",
            CAUGHT_SIGNAL + ending.cut_short_by,
        )
    return ExitCode.OBSERVATION if ending.inconclusive else ExitCode.DONE


def _demo() -> int:
    from rich.console import Console  # noqa: PLC0415  (--help must be quick)

    from desched.service.reports.cycle_table import print_report  # noqa: PLC0415  (--help must be quick)
    from desched.simulation.demo import run_demo  # noqa: PLC0415  (--help must be quick)

    try:
        code = run_demo(Console(), print_report)
        sys.stdout.flush()
    except SystemExit:
        return ExitCode.DONE  # rich raises it when the reader is gone
    return code


def _drop_output() -> None:
    """Discard what is still buffered, because the interpreter would fail to flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    for line in message.split("\n"):
        sys.stderr.write(f"desched: {on_one_line(line)}\n")
    return code


def _shape(field: FieldInfo) -> dict[str, Any]:
    """The arguments for argparse; the settings parse the value."""
    if bool in {field.annotation, *get_args(field.annotation)}:
        return {"nargs": "?", "const": "true", "metavar": "BOOL"}
    return {"metavar": option_of(field).metavar or "|".join(_choices(field))}


def _choices(field: FieldInfo) -> tuple[str, ...]:
    """The values of a Literal field."""
    literals = [field.annotation, *get_args(field.annotation)]
    return next(get_args(item) for item in literals if get_origin(item) is Literal)


def _help(name: str, field: FieldInfo) -> str:
    value = field.default
    text = duration_text(round(value.total_seconds())) if isinstance(value, timedelta) else value
    default = f" Default: {text}." if value else ""
    return f"{field.description}{default} [{variable_of(name)}]".replace("%", "%%")


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
            f"{flag}: this is not accepted as an argument, because everyone on the machine can "
            f"read arguments; {instead}."
        )
    flags = [
        name for name in names if not option_of(Settings.model_fields[names[name]]).environment_only
    ]
    near = difflib.get_close_matches(flag, [*flags, *map(flag_of, FLAGS)], n=1)
    return f"There is no flag {flag}" + (f"; did you mean {near[0]}?" if near else ".")
