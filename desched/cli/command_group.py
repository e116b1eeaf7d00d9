"""Commands below a word: `desched` itself, and `desched steering`."""

import difflib

import click

from desched.cli.command import CONTEXT, InContext, load_command, options_by_flag
from desched.cli.command_table import SUMMARIES
from desched.cli.setting_flags import SETTING_FLAGS, SETTING_OF_FLAG
from desched.errors import ConfigurationError

_BOOLEANS = {"true", "false", "yes", "no", "on", "off", "1", "0"}


class CommandGroup(InContext, click.Group):
    """A group whose commands load when they are used.

    `path` has the words before the command's own, without the program's name.
    """

    def __init__(self, name: str, path: str = "", **arguments: object) -> None:
        super().__init__(
            name,
            invoke_without_command=True,
            subcommand_metavar="COMMAND",
            options_metavar="",
            context_settings={**CONTEXT},
            **arguments,  # type: ignore[arg-type]  # click's own
        )
        self.path = path
        below = [full.removeprefix(path).split() for full in SUMMARIES if full.startswith(path)]
        self.names = [*dict.fromkeys(words[0] for words in below)]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table."""
        del ctx
        return self.names

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command or the group of this name."""
        del ctx
        full = self.path + cmd_name
        if cmd_name not in self.names:
            return None
        return load_command(full) if full in SUMMARIES else CommandGroup(cmd_name, f"{full} ")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Flags may stand before the command, as for kubectl."""
        return super().parse_args(ctx, self._command_first(args))

    def _command_first(self, args: list[str]) -> list[str]:
        position = 0
        while position < len(args) and args[position].startswith("-") and args[position] != "--":
            following = args[position + 1 : position + 2]
            position += 2 if _has_value_apart(args[position], following) else 1
        if args[position : position + 1] and args[position] in self.names:
            return [args[position], *args[:position], *args[position + 1 :]]
        return args

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names."""
        command = self.get_command(ctx, args[0])
        if command is None and not ctx.resilient_parsing:
            raise ConfigurationError(self.no_such_command(ctx, args[0]))
        return args[0], command, args[1:]

    def no_such_command(self, ctx: click.Context, word: str) -> str:
        """The sentence about an unknown command."""
        see = f"See `{ctx.command_path} --help`."
        if len(self.names) == 1:
            return f"The only command is `{ctx.command_path} {self.names[0]}`. {see}"
        if not word:
            names = " or ".join(f"`{ctx.command_path} {name}`" for name in self.names)
            return f"Choose {names}. {see}"
        near = difflib.get_close_matches(word, self.names, n=1)
        below = [full.removeprefix(self.path) for full in SUMMARIES if full.startswith(self.path)]
        near += [words for words in below if words.endswith(f" {word}")]
        ending = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(self.names)}."
        return f'There is no command "{word}"; {ending} {see}'

    def invoke(self, ctx: click.Context) -> int:
        """Run the command, or what the group does without one."""
        if not ctx._protected_args:  # noqa: SLF001  (the words that click keeps for the command)
            return self.run_alone(ctx)
        code: int = super().invoke(ctx)
        return code

    def run_alone(self, ctx: click.Context) -> int:
        """What happens without a command."""
        raise ConfigurationError(self.no_such_command(ctx, ""))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands; the flags are those of each command."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUMMARIES[self.path + name]) for name in self.names])


def _has_value_apart(word: str, following: list[str]) -> bool:
    """Whether the following word is the value of this flag."""
    if "=" in word or not following:
        return False
    setting = SETTING_OF_FLAG.get(word)
    if setting and SETTING_FLAGS[setting].is_switch:
        return following[0].lower() in _BOOLEANS
    return bool(setting) or any(
        not option.is_flag for option in options_by_flag().get(word, {}).values()
    )
