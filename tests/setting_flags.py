"""desched/cli/setting_flags.json, made from the settings: `python -m tests.setting_flags`.

The command line reads this file instead of the settings, which take too long to load for help.
"""

import json
import sys
from datetime import timedelta
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from desched.policy.durations import duration_text
from desched.settings import Settings, flag_of, option_of, variable_of


def setting_flags() -> str:
    """The file's text."""
    rows = {name: _row(name, field) for name, field in Settings.model_fields.items()}
    return json.dumps(rows, indent=2) + "\n"


def _row(name: str, field: FieldInfo) -> dict[str, Any]:
    option = option_of(field)
    return {
        "flag": flag_of(name),
        "variable": variable_of(name),
        "group": option.group,
        "help": _help(field),
        "metavar": _metavar(field),
        "aliases": list(option.aliases),
        "environment_only": option.environment_only,
    }


def _help(field: FieldInfo) -> str:
    value = field.default
    text = duration_text(round(value.total_seconds())) if isinstance(value, timedelta) else value
    return " ".join(f"{field.description}".split()) + (f" Default: {text}." if value else "")


def _metavar(field: FieldInfo) -> str:
    """What stands for the value in help, nothing for a switch."""
    if bool in {field.annotation, *get_args(field.annotation)}:
        return ""
    literals = [field.annotation, *get_args(field.annotation)]
    choices = next((get_args(item) for item in literals if get_origin(item) is Literal), ())
    return option_of(field).metavar or "|".join(choices)


if __name__ == "__main__":
    sys.stdout.write(setting_flags())
