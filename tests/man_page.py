"""docs/man with the pages of `man desched` and `man kubectl-desched`: `python -m tests.man_page`.

The text is that of the help, from the same declarations of the commands.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from desched import __version__
from desched.cli.command import Command, flags_of, load_command
from desched.cli.command_table import COMMANDS
from desched.cli.program import DESCRIPTION, EPILOGUE, EXAMPLES
from desched.cli.setting_flags import SETTING_FLAGS, Flag
from tests.repository import ROOT

FOLDER = ROOT / "docs" / "man"
SEE_ALSO = "kubectl(1)"


def pages() -> dict[Path, str]:
    """Each page with what it has to be; the plug-in's is that of the program."""
    return {
        FOLDER / "desched.1": "\n".join(_page()) + "\n",
        FOLDER / "kubectl-desched.1": ".so man1/desched.1\n",
    }


def _page() -> Iterator[str]:
    yield f'.TH DESCHED 1 "" "desched {__version__}" "User Commands"'
    yield from (".nh", ".ad l")  # no flag is broken in two
    yield from (".SH NAME", r"desched \- move pods away from overloaded Kubernetes nodes")
    yield from (".SH SYNOPSIS", r".B desched", "[COMMAND] [FLAGS]", ".br")
    yield from (r".B kubectl desched", "[COMMAND] [FLAGS]")
    yield ".SH DESCRIPTION"
    yield from _prose(DESCRIPTION)
    for paragraph in EPILOGUE.split("\n\n"):
        if not paragraph.startswith("Exit codes"):
            yield from (".PP", *_prose(paragraph))
    yield ".SH EXAMPLES"
    yield from _examples(EXAMPLES.items())
    yield ".SH COMMANDS"
    for commands in COMMANDS.values():
        for name in commands:
            yield from _command(name, load_command(name))
    yield from _settings()
    yield ".SH EXIT STATUS"
    yield from _prose(EPILOGUE.partition("Exit codes: ")[2])
    yield from (".SH SEE ALSO", _escaped(SEE_ALSO))


def _command(name: str, command: Command) -> Iterator[str]:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    context = command.context_class(command)
    words = " ".join(["desched", name, *(each.make_metavar(context) for each in arguments)])
    yield f".SS {_escaped(words)}"
    yield from _prose(command.description)
    flags = [each for each in flags_of(command) if isinstance(each, Flag)]
    own = [each for each in flags if each in command.own_parameters]
    yield from _terms(each.get_help_record(context) for each in own)
    if settings := [each.opts[0] for each in flags if each not in own]:
        yield from (".PP", *_prose(f"Settings: {', '.join(settings)}."))
    yield from (".PP", *_examples(command.examples.items()))


def _settings() -> Iterator[str]:
    yield from (".SH SETTINGS", ".PP")
    yield from _prose("Each setting has an environment variable; the flag takes precedence.")
    for row in SETTING_FLAGS.values():
        flag = [] if row.environment_only else [f"{row.flag} {row.metavar}".rstrip()]
        yield from _terms([(", ".join([*flag, row.variable]), row.help)])


def _terms(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in rows:
        yield from (".TP", rf"\fB{_escaped(term)}\fR", *_prose(meaning))


def _examples(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for line, meaning in rows:
        yield from (*_prose(f"{meaning[0].upper()}{meaning[1:]}:"), ".PP", ".nf", ".RS")
        yield from (_escaped(line), ".RE", ".fi", ".PP")


def _prose(text: str) -> Iterator[str]:
    """A sentence a line, with command lines in bold."""
    for sentence in re.split(r"(?<=[.:;]) ", " ".join(text.split())):
        yield re.sub("`([^`]+)`", r"\\fB\1\\fR", _escaped(sentence))


def _escaped(text: str) -> str:
    """Text that troff prints as it is: a hyphen that can be copied, no dot that is a request."""
    plain = text.replace("\\", r"\e").replace("-", r"\-")
    plain = re.sub(r"[^\x20-\x7e]", lambda found: rf"\[u{ord(found[0]):04X}]", plain)
    return rf"\&{plain}" if plain.startswith((".", "'")) else plain


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text)
