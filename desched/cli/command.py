"""What all commands share: how they are declared, run and explained."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from desched.cli.command_table import SUMMARIES
from desched.cli.lazy_loading import load_declaration, load_to_run
from desched.cli.setting_flags import (
    EXPLAINED,
    SETTING_FLAGS,
    Flag,
    names_in_brief,
    setting_options,
)
from desched.errors import ConfigurationError

if TYPE_CHECKING:
    from desched.settings import Settings

WIDEST_FLAG = 26
"""Wider flags have a line of their own, so that every variable fits beside them."""

_UNBROKEN_HYPHEN = "\N{NON-BREAKING HYPHEN}"


class HelpFormatter(click.HelpFormatter):
    """Never breaks a line within a flag."""

    def write(self, string: str) -> None:
        """Write what is laid out, with plain hyphens again."""
        super().write(string.replace(_UNBROKEN_HYPHEN, "-"))

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(text.replace("-", _UNBROKEN_HYPHEN))

    def write_dl(
        self,
        rows: Iterable[tuple[str, str]],
        col_max: int = WIDEST_FLAG,
        col_spacing: int = 2,
    ) -> None:
        """Write a list of terms."""
        whole = [(term, text.replace("-", _UNBROKEN_HYPHEN)) for term, text in rows]
        super().write_dl(whole, col_max, col_spacing)


class Context(click.Context):
    """Where a command runs."""

    formatter_class = HelpFormatter


CONTEXT: Mapping[str, Any] = {"help_option_names": ["-h", "--help"]}


class Invocation(NamedTuple):
    """What the user gave a command: its own flags and arguments, and texts of settings, by name."""

    flags: Mapping[str, Any]
    texts: Mapping[str, str]

    def settings(self, **fixed: Any) -> "Settings":
        """The settings from the flags and the environment, but for those that the command fixes.

        Raises:
            ConfigurationError: a value is invalid.
        """
        from desched.settings import load_settings  # noqa: PLC0415  (help must be quick)

        return load_settings({**self.texts, **fixed})


def invocation_of(context: click.Context) -> Invocation:
    """What was given on the command line; what was not is left to the environment."""
    given = {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    return Invocation(
        {name: value for name, value in given.items() if name not in SETTING_FLAGS},
        {name: value for name, value in given.items() if name in SETTING_FLAGS},
    )


WITHOUT_CLUSTER = frozenset({"policy", "output", "log_format", "log_level"})
"""Settings that have an effect without a cluster."""


def refuse_live_settings(invocation: Invocation, instead: str, used: Collection[str] = ()) -> None:
    """Refuse flags about the live cluster where another flag names what to use instead.

    Those of the settings in `used` have an effect nevertheless.

    Raises:
        ConfigurationError: there is one.
    """
    for name in invocation.texts.keys() - WITHOUT_CLUSTER - set(used):
        flag = SETTING_FLAGS[name].flag
        raise ConfigurationError(f"{flag} has no effect with {instead}; omit it.")


class InContext(click.Command):
    """Errors of its flags have the context, which the parser does not add to all of them."""

    context_class = Context

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the flags."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise


class Command(InContext):
    """A command of the table, with what it accepts and what its help shows.

    `run` of its module carries out an `Invocation`, and returns the exit code; without one it is 0.
    `examples` is from command lines to what they do. `refused` has the reason for flags that are
    refused with a sentence of their own.
    """

    def __init__(
        self,
        name: str,
        *,
        examples: Mapping[str, str],
        details: str = "",
        settings: tuple[str, ...] = (),
        parameters: tuple[click.Parameter, ...] = (),
        refused: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(
            name.rsplit(maxsplit=1)[-1],
            params=[*parameters, *setting_options(settings)],
            help=SUMMARIES[name],
            options_metavar="[FLAGS]" if settings or parameters else "",
            context_settings={**CONTEXT, "allow_extra_args": True},
        )
        self.full_name = name
        self.description = f"{SUMMARIES[name]} {details}".rstrip()
        self.examples = examples
        self.settings = settings
        self.own_parameters = parameters
        self.refused = refused

    def invoke(self, ctx: click.Context) -> int:
        """Run the command and return the exit code."""
        if ctx.args:
            raise ConfigurationError(
                f'The argument "{ctx.args[0]}" is unknown. See `{ctx.command_path} --help`.'
            )
        code: int | None = load_to_run(self.full_name).run(invocation_of(ctx))
        return code or 0

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What it does, examples, its flags, and the names of those that many commands accept."""
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(as_called(self.description, ctx))
        write_examples(formatter, self.examples, ctx)
        named = [name for name in self.settings if name not in EXPLAINED]
        write_flags(formatter, "Flags", [f for f in flags_of(self) if f.name not in named], ctx)
        if named:
            with formatter.section(as_called("Also, see `desched help settings`", ctx)):
                formatter.write_text(", ".join(names_in_brief(named)))


def as_called(text: str, context: click.Context) -> str:
    """The text with command lines as the user types them, such as `kubectl desched plan`."""
    return re.sub("(^|`)desched ", rf"\1{context.find_root().info_name} ", text)


def write_examples(
    formatter: click.HelpFormatter, examples: Mapping[str, str], context: click.Context
) -> None:
    """Command lines as they are typed, each under what it does."""
    with formatter.section("Examples"):
        for line, meaning in examples.items():
            formatter.write(f"{'':>{formatter.current_indent}}# {as_called(meaning, context)}\n")
            formatter.write(f"{'':>{formatter.current_indent}}{as_called(line, context)}\n")


def write_flags(
    formatter: click.HelpFormatter, title: str, flags: list[click.Option], context: click.Context
) -> None:
    """A list of flags with their help, under a title; nothing without flags."""
    if rows := [flag.get_help_record(context) for flag in flags if isinstance(flag, Flag)]:
        with formatter.section(title):
            formatter.write_dl(rows)


def load_command(name: str) -> Command:
    """The command with this full name."""
    command: Command = load_declaration(name).COMMAND
    return command


def flags_of(command: click.Command) -> Iterator[click.Option]:
    """The flags of a command."""
    return (option for option in command.params if isinstance(option, click.Option))


@cache
def options_by_flag() -> Mapping[str, Mapping[str, click.Option]]:
    """The flags of all commands, each with its commands; loads all declarations."""
    options: dict[str, dict[str, click.Option]] = {}
    for name in SUMMARIES:
        for option in flags_of(load_command(name)):
            for flag in option.opts:
                options.setdefault(flag, {})[name] = option
    return options
