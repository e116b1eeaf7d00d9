"""`desched policy convert`: policies of other deschedulers."""

from __future__ import annotations

import sys

import click

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import own_flag

if loaded_to_run(__name__):
    from desched.convert.conversion import Dialect, convert_policy
    from desched.convert.table import note_blocks
    from desched.policy_file.loading import parse_policy, policy_argument
    from desched.views.rendering import json_text, write_out

_FORMATS = ("yaml", "json")
_DIALECTS = ("auto", "koordinator", "cce", "v1alpha1", "kubernetes-sigs", "volcano")


def run(invocation: Invocation) -> None:
    """Print the converted policy, and the notes on it to standard error."""
    dialect = invocation.flags.get("dialect", "auto")
    text, source = policy_argument(invocation.flags["file"], sys.stdin.buffer)
    conversion = convert_policy(text, source, None if dialect == "auto" else Dialect(dialect))
    parse_policy(conversion.text, "the converted policy")
    form = invocation.flags.get("form", "yaml")
    sys.stdout.write(json_text(conversion.document) if form == "json" else conversion.text)
    sys.stdout.flush()
    write_out("table", conversion.notes, note_blocks(conversion.notes), sys.stderr)


COMMAND = Command(
    "policy convert",
    details="It reads the configuration of Koordinator's descheduler, the settings of Huawei "
    "CCE, descheduler/v1alpha1, and policies of kubernetes-sigs and Volcano, also in a "
    "ConfigMap. The notes on standard error have each key that meant something else there or "
    "is left out. Where the meaning is unclear, the policy evicts nothing until you decide.",
    examples={
        "desched policy convert policies/volcano-shipped.yaml": "show the policy and the notes",
        "desched policy convert policies/volcano-shipped.yaml > policy.yaml": "write it",
    },
    parameters=(
        click.Argument(["file"], metavar="FILE", type=click.Path()),
        own_flag(
            f"--from {'|'.join(_DIALECTS)}",
            "Whose configuration the file is. Default: auto.",
            name="dialect",
            choices=True,
        ),
        own_flag(
            f"--output, -o {'|'.join(_FORMATS)}",
            "The format of the policy; JSON has no comments. Default: yaml.",
            name="form",
            choices=True,
        ),
    ),
)
