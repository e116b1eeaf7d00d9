"""docs/commands.md with the flags of the commands: `python -m tests.command_reference`.

People write the prose; what stands between `<!-- flags of … -->` and `<!-- end -->` is made here.
"""

import re
from collections.abc import Iterator

from desched.cli.command import load_command
from desched.cli.setting_flags import SETTING_FLAGS, Flag, SettingFlag
from tests.repository import ROOT

PAGE = ROOT / "docs" / "commands.md"
_BLOCK = re.compile(r"(<!-- flags of (.+?) -->\n).*?(?=<!-- end -->)", re.DOTALL)


def with_flags(text: str) -> str:
    """The page with the flags that the commands have now."""
    return _BLOCK.sub(lambda found: found[1] + "\n".join(_block(found[2])) + "\n", text)


def _block(subject: str) -> Iterator[str]:
    yield ""
    if subject == "settings":
        for group in dict.fromkeys(row.group for row in SETTING_FLAGS.values()):
            yield from _settings(group)
        return
    command = load_command(subject)
    own = [each for each in command.own_parameters if isinstance(each, Flag)]
    if own:
        yield from ("| flag | meaning |", "|---|---|")
        yield from (f"| {_code(each)} | {each.help} |" for each in own)
        yield ""
    if names := [SETTING_FLAGS[name] for name in command.settings]:
        flags = ", ".join(f"`{row.flag}`" for row in names if not row.environment_only)
        yield from (f"{'Also settings' if own else 'Settings'}: {flags}.", "")
    elif not own:
        yield from ("It takes no flags.", "")


def _settings(group: str) -> Iterator[str]:
    yield from (f"### {group}", "", "| flag | variable | meaning |", "|---|---|---|")
    for row in SETTING_FLAGS.values():
        if row.group == group:
            text = row.help.replace("|", "\\|").replace("*/10 * * * *", "`*/10 * * * *`")
            yield f"| {_setting(row)} | `{row.variable}` | {text} |"
    yield ""


def _setting(row: SettingFlag) -> str:
    if row.environment_only:
        return "none"
    short = [name for name in row.aliases if not name.startswith("--")]
    value = row.metavar.replace("|", "\\|")
    return ", ".join(f"`{name} {value}`".replace(" `", "`") for name in (row.flag, *short))


def _code(flag: Flag) -> str:
    value = flag.value_name.replace("|", "\\|")
    return f"`{flag.opts[0]} {value}`".replace(" `", "`")


def documented() -> list[str]:
    """The commands that have a section."""
    return re.findall(r"^## desched (.+)$", PAGE.read_text(), re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(with_flags(PAGE.read_text()))
