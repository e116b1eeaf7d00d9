"""The flags that set settings.

setting_flags.json is generated from `desched.settings`, which would take too long to load for help.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class SettingFlag(NamedTuple):
    """How a setting appears on the command line; the help includes the default."""

    flag: str
    variable: str
    group: str
    help: str
    metavar: str
    aliases: list[str]
    environment_only: bool

    @property
    def is_switch(self) -> bool:
        """Whether it needs no value."""
        return not self.metavar

    @property
    def described(self) -> str:
        """The help with the environment variable."""
        return f"{self.help} [{self.variable}]"


SETTING_FLAGS: Mapping[str, SettingFlag] = {
    name: SettingFlag(**row)
    for name, row in json.loads(
        Path(__file__).with_name("setting_flags.json").read_text(encoding="utf-8")
    ).items()
}
"""By the name of the setting."""

SETTING_OF_FLAG: Mapping[str, str] = {
    flag: name for name, row in SETTING_FLAGS.items() for flag in (row.flag, *row.aliases)
}

CONNECTION = ("kubeconfig", "context", "state_namespace", "log_format", "log_level")
"""The settings of commands that read or change desched's state."""

PROMETHEUS = tuple(name for name in SETTING_FLAGS if name.startswith("prometheus_"))
"""The settings of commands that read load."""

EXPLAINED = ("policy", "output")
"""The settings that the help of a command explains; it names all others."""


def names_in_brief(settings: Iterable[str]) -> list[str]:
    """The flags of settings, those of Prometheus as one."""
    rows = [SETTING_FLAGS[name] for name in settings]
    flags = [row.flag for row in rows if not row.environment_only]
    return [*dict.fromkeys(re.sub("^--prometheus-.*", "--prometheus-…", flag) for flag in flags)]


class Flag(click.Option):
    """A flag; without a metavar it is a switch."""

    def __init__(self, names: Iterable[str], metavar: str, text: str, **shape: Any) -> None:
        super().__init__(
            list(names), metavar=metavar, help=text, shell_complete=_complete_value, **shape
        )
        self.value_name = metavar

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """The flag with its value, and its help; names of other deschedulers are left out."""
        del ctx
        names = [name for name in self.opts if not name.startswith("--")] + self.long_names[:1]
        return f"{', '.join(names)} {self.value_name}".rstrip(), self.help or ""

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """The value; a flag where it should be would lose its effect, such as --dry-run."""
        if isinstance(value, str) and value.startswith("-") and value != "-":
            raise click.BadOptionUsage(self.opts[0], "another flag follows", ctx)
        return super().type_cast_value(ctx, value)

    @property
    def long_names(self) -> list[str]:
        """The flag and its aliases."""
        return [name for name in self.opts if name.startswith("--")]


def _complete_value(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    del context
    metavar = parameter.value_name if isinstance(parameter, Flag) else ""
    if metavar == "FILE":
        return [CompletionItem(incomplete, type="file")]
    choices = metavar.split("|") if "|" in metavar else []
    return [CompletionItem(choice) for choice in choices if choice.startswith(incomplete)]


def own_flag(shown: str, text: str, *, name: str = "", choices: bool = False, **shape: Any) -> Flag:
    """A flag that is not a setting: its names and its value, such as `--output, -o FILE`.

    `name` is that of its value, if it is not the flag's. With `choices` the value is one of those
    that are shown. `shape` has further arguments of `click.Option`.
    """
    words = shown.replace(",", "").split()
    names = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(names) :])
    if choices:
        shape["type"] = click.Choice(metavar.split("|"))
    if not metavar:  # click takes a flag that says that it is none for one whose value is optional
        shape["is_flag"] = True
    return Flag([*names, *filter(None, [name])], metavar, text, **shape)


def setting_options(names: Iterable[str]) -> list[Flag]:
    """The flags of these settings; those from the environment only have none."""
    rows = [(name, SETTING_FLAGS[name]) for name in names]
    return [_setting_option(name, row) for name, row in rows if not row.environment_only]


def _setting_option(name: str, row: SettingFlag) -> Flag:
    """A flag whose text the settings read; a switch accepts a value as well."""
    optional = {"flag_value": "true", "is_flag": False} if row.is_switch else {}
    hidden = name == "evict"  # completion never offers it; help shows it none the less
    names = [row.flag, *row.aliases, name]
    return Flag(names, row.metavar, row.described, type=str, hidden=hidden, **optional)
