"""What desched says about flags that it does not accept.

No text repeats the value of an unknown flag, because it may be a secret, and none suggests a flag
that evicts.
"""

import difflib
import re
from collections.abc import Iterable

import click

from desched.cli.command import Command, flags_of, options_by_flag
from desched.cli.other_deschedulers import SUBSTITUTES
from desched.cli.setting_flags import SETTING_FLAGS, SETTING_OF_FLAG, Flag

NEVER_SUGGESTED = frozenset({"--evict", "--once"})
"""They make desched evict, the second one inside a cluster."""

_VERBOSITY = re.compile("--?v+|--verbos.*|--debug")
"""The verbosity of other deschedulers."""


_PLAINLY = {"a valid float": "a number", "a valid integer": "a whole number"}
"""What click calls a number, and what its users do."""


def sentences_of(error: click.UsageError, arguments: Iterable[str]) -> str:
    """What the user reads about wrong flags or arguments, on one line for each flag.

    All flags of another descheduler are named at once, so that nobody removes them one by one.
    """
    if not (isinstance(error, click.NoSuchOption) and _is_foreign(error.option_name)):
        return _sentence_of(error)
    path = error.ctx.command_path if error.ctx else "desched"
    given = dict.fromkeys(word.partition("=")[0] for word in arguments)
    flags = [flag for flag in given if flag.startswith("-") and _is_foreign(flag)]
    return "\n".join(_no_such_flag(flag, None, path) for flag in flags or [error.option_name])


def _is_foreign(flag: str) -> bool:
    return flag in SUBSTITUTES or bool(_VERBOSITY.fullmatch(flag))


def _sentence_of(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "desched"
    see = f"See `{path} --help`."
    if isinstance(error, click.NoSuchOption):
        command = error.ctx.command if error.ctx else None
        return _no_such_flag(error.option_name, command, path)
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name} requires a value{_value_of(error)}. {see}"
    if isinstance(error, click.MissingParameter) and error.param and error.ctx:
        flag = f"{error.param.opts[0]} " if isinstance(error.param, Flag) else ""
        return f"`{path}` requires {flag}{error.param.make_metavar(error.ctx)}. {see}"
    message = " ".join(error.format_message().split()).rstrip(".")
    for words, plainly in _PLAINLY.items():
        message = message.replace(words, plainly)
    return f"{message}. {see}"


def _value_of(error: click.BadOptionUsage) -> str:
    options = flags_of(error.ctx.command) if error.ctx else ()
    metavars = [
        option.value_name
        for option in options
        if isinstance(option, Flag) and error.option_name in option.opts
    ]
    return f", {metavars[0]}" if metavars else ""


def _no_such_flag(flag: str, command: click.Command | None, path: str) -> str:
    see = f"See `{path} --help`."
    setting = SETTING_OF_FLAG.get(flag)
    if setting and SETTING_FLAGS[setting].environment_only:
        return f"{_from_environment_only(flag)} {see}"
    owners = options_by_flag().get(flag, {})
    if isinstance(command, Command):
        if flag in command.refused:
            return f"{flag}: {command.refused[flag]}"
        if setting or owners:
            return f"{flag} has no effect for `{path}`; omit it. {see}"
    if owners:
        takers = " and ".join(f"`desched {name}`" for name in owners)
        return f"{flag} belongs to {takers}. {see}"
    if flag in SUBSTITUTES:
        return f"{flag}: {SUBSTITUTES[flag]} {see}"
    return f"There is no flag {flag}{_suggestion(flag, command)} {see}"


def _from_environment_only(flag: str) -> str:
    instead = f"set {SETTING_FLAGS[SETTING_OF_FLAG[flag]].variable}"
    if f"{flag}-file" in SETTING_OF_FLAG:
        instead += f", or name a file with {flag}-file"
    return (
        f"{flag}: this is not accepted as an argument, because everyone on the machine can "
        f"read arguments; {instead}."
    )


def _suggestion(flag: str, command: click.Command | None) -> str:
    if _VERBOSITY.fullmatch(flag):
        return "; --log-level debug takes its place."
    accepted = [name for option in flags_of(command) for name in option.opts] if command else []
    settings = [row.flag for row in SETTING_FLAGS.values() if not row.environment_only]
    for names in (accepted, [*settings, *options_by_flag()]):
        if near := difflib.get_close_matches(flag, names, n=1):
            return "." if near[0] in NEVER_SUGGESTED else f"; did you mean {near[0]}?"
    return "."
