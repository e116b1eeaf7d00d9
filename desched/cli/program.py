"""The program `desched`: its first help page, a run without a command, and errors as exit codes."""

import errno
import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

from desched import __version__
from desched.cli.command import as_called, invocation_of, write_examples
from desched.cli.command_group import CommandGroup
from desched.cli.command_table import COMMANDS
from desched.cli.exit_codes import ExitCode, ended_by
from desched.cli.lazy_loading import load_to_run
from desched.cli.setting_flags import SETTING_FLAGS, setting_options
from desched.cli.usage_errors import sentences_of
from desched.errors import ConfigurationError, ObservationError
from desched.model.text import on_one_line

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Errors of an output: desched writes only to its standard streams."""

_STUMBLING = frozenset({"strict", "surrogateescape"})

COMPLETION = "_DESCHED_COMPLETE"
"""The variable by which the scripts of shells ask for completions."""

DESCRIPTION = """\
desched moves pods away from overloaded Kubernetes nodes. It reads the load of nodes and pods from
Prometheus, evicts the few pods whose move helps most, and reports why every other pod stays.
"""

EXAMPLES = {
    "desched plan --policy policy.yaml": "show what it would do in the current context",
    "desched --policy /etc/desched/policy.yaml": "run a cycle every 5 minutes (in a pod)",
    "desched --evict --once --policy policy.yaml": "run one cycle from this machine",
}

MOST_USED = (
    "policy",
    "prometheus_url",
    "context",
    "dry_run",
    "evict",
    "once",
    "interval",
    "output",
)

EPILOGUE = """\
Without a command, desched runs cycles. In a cluster it evicts unless --dry-run is given, outside
only with --evict. Reports go to standard output, the log and all messages to standard error.

`desched help settings` lists all flags and their environment variables, `desched COMMAND --help`
those of a command.

Exit codes: 0 done, 1 a bug in desched or an output that cannot be written, 2 invalid configuration,
3 the cluster, its load or the result of an eviction is unknown, 130 or 143 a signal ended a single
run before its report.
"""


class Program(CommandGroup):
    """`desched`, which runs cycles if there is no command."""

    def __init__(self) -> None:
        version = click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the version.",
        )
        super().__init__("desched", params=[version, *setting_options(SETTING_FLAGS)])

    def run_alone(self, ctx: click.Context) -> int:
        """Run cycles, as the settings say."""
        code: int = load_to_run("cycles").run(invocation_of(ctx))
        return code

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What desched is for, its commands, and the flags that most people need."""
        formatter.write_usage(ctx.command_path, "[COMMAND] [FLAGS]")
        formatter.write_paragraph()
        formatter.write_text(DESCRIPTION)
        write_examples(formatter, EXAMPLES, ctx)
        width = max(len(name) for commands in COMMANDS.values() for name in commands)
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", text) for name, text in commands.items()])
        with formatter.section("Flags without a command"):
            formatter.write_dl([_in_brief(name, ctx) for name in MOST_USED])
        formatter.write_paragraph()
        formatter.write_text(as_called(EPILOGUE, ctx))


def _in_brief(name: str, context: click.Context) -> tuple[str, str]:
    """A flag with the first sentence of its help."""
    (option,) = setting_options([name])
    return option.get_help_record(context)[0], re.split(r"(?<=\.) ", SETTING_FLAGS[name].help)[0]


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001  (click's form)
    if wanted and not context.resilient_parsing:
        click.echo(f"desched {__version__}")
        context.exit()


def main(arguments: Sequence[str] | None = None, name: str = "desched") -> int:
    """Run desched and return its exit code; errors are printed to standard error.

    `name` is how the user calls it, which help and messages repeat.
    """
    _accept_all_characters()
    try:
        return _run(sys.argv[1:] if arguments is None else arguments, name)
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
        return _report_bug(error)


def _accept_all_characters() -> None:
    """Write ? for what the encoding of an output lacks, such as with PYTHONIOENCODING=ascii."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in _STUMBLING:
            stream.reconfigure(errors="replace")


def _run(arguments: Sequence[str], name: str) -> int:
    program = Program()
    if instruction := os.environ.get(COMPLETION):  # noqa: TID251  (the shell's, not a setting)
        return shell_complete(program, {}, "desched", COMPLETION, instruction)
    try:
        with program.make_context(name, list(arguments)) as context:
            code: int = program.invoke(context)
    except click.exceptions.Exit as end:  # a help page or the version
        code = end.exit_code
    except KeyboardInterrupt:
        return ended_by(signal.SIGINT)
    except click.UsageError as error:
        raise ConfigurationError(sentences_of(error, arguments)) from None
    sys.stdout.flush()
    return code


def _report_bug(error: Exception) -> int:
    import structlog  # noqa: PLC0415  (only a bug needs it)

    if structlog.is_configured():  # its lines would go to standard output otherwise
        structlog.get_logger(__name__).debug("process.crashed", exc_info=True)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return _fail(
        f"This is a bug in desched: {type(error).__name__}: {error} "
        f"({where.name}, line {where.lineno}); --log-level debug shows the traceback.",
        ExitCode.FAILED,
    )


def _drop_output() -> None:
    """Discard what is still buffered, because the interpreter would fail to flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    for line in message.split("\n"):
        sys.stderr.write(f"desched: {on_one_line(line)}\n")
    return code
