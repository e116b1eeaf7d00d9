"""`desched help`: the help of a command, or all settings."""

import click
from click.shell_completion import CompletionItem

from desched.cli.command import Command, Invocation, as_called, write_flags
from desched.cli.command_table import COMMANDS
from desched.cli.setting_flags import SETTING_FLAGS, setting_options
from desched.errors import ConfigurationError

SETTINGS = "settings"
_PRECEDENCE = (
    "Each flag can also be set by the environment variable beside it; the flag takes precedence. "
    "Switches accept a value as well (--dry-run=false). `desched COMMAND --help` shows which flags "
    "a command accepts; without a command, desched accepts all of them."
)


def run(invocation: Invocation) -> None:
    """Print the help of what the words name."""
    words: tuple[str, ...] = invocation.flags.get("command", ())
    root = click.get_current_context().find_root()
    click.echo(settings_page(root) if words == (SETTINGS,) else _page(root, words))


def _page(context: click.Context, words: tuple[str, ...]) -> str:
    for word in words:
        group = context.command
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            program = context.find_root().info_name
            raise ConfigurationError(
                f'There is no command "{" ".join(words)}". See `{program} --help`.'
            )
        context = command.context_class(command, parent=context, info_name=word)
    return context.get_help()


def settings_page(context: click.Context) -> str:
    """All settings, with their flags and variables."""
    formatter = context.make_formatter()
    formatter.write_text(as_called(_PRECEDENCE, context))
    for group in dict.fromkeys(row.group for row in SETTING_FLAGS.values()):
        names = [name for name, row in SETTING_FLAGS.items() if row.group == group]
        write_flags(formatter, group, [*setting_options(names)], context)
    variables = [(row.variable, row.help) for row in SETTING_FLAGS.values() if row.environment_only]
    with formatter.section("Only in the environment"):
        formatter.write_dl(variables)
    return formatter.getvalue().rstrip("\n")


def _complete_command(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    del context, parameter
    names = [SETTINGS, *(name for group in COMMANDS.values() for name in group)]
    first = dict.fromkeys(name.split()[0] for name in names)
    return [CompletionItem(name) for name in first if name.startswith(incomplete)]


COMMAND = Command(
    "help",
    parameters=(click.Argument(["command"], nargs=-1, shell_complete=_complete_command),),
    examples={
        "desched help plan": "what `desched plan` does and accepts",
        "desched help settings": "every flag and environment variable",
    },
)
