"""`desched policy diff`: in what two policies differ."""

import sys
from pathlib import Path

import click

from desched.cli.command import Command, Invocation, Usage
from desched.cli.setting_flags import own_flag

_FORMATS = ("table", "json", "yaml")


def run(invocation: Invocation) -> None:
    """Print the differences."""
    from rich.console import Console

    from desched.cli.policy_files import policy_text
    from desched.policy.difference import policy_differences
    from desched.policy.loading import parse_policy
    from desched.views.policy_differences import print_differences, render_differences

    flags = invocation.flags
    before, after = (
        parse_policy(*policy_text(flags[name], sys.stdin.buffer)).policy
        for name in ("before", "after")
    )
    comparison = None
    if "snapshot" in flags:
        from desched.bootstrap.policy_comparison import compare_on

        comparison = compare_on(Path(flags["snapshot"]), before, after)
    differences = policy_differences(before, after)
    form = flags.get("form", "table")
    if form == "table" and sys.stdout.isatty():
        print_differences(differences, comparison, Console(file=sys.stdout, highlight=False))
    else:
        sys.stdout.write(render_differences(differences, comparison, form))


_FILES = ("before", "after")

COMMAND = Command(
    "policy diff",
    run,
    Usage(
        details="It compares the values with all defaults, so what is only written in another way "
        'does not differ. "-" is standard input.',
        examples={
            "desched policy diff policies/cautious.yaml policies/cpu-only.yaml": "what they mean",
            "desched policy diff policies/cpu-only.yaml policies/cpu-only.yaml -o json": (
                "for programs"
            ),
        },
        parameters=(
            *(
                click.Argument([name], metavar=metavar, type=click.Path())
                for name, metavar in zip(_FILES, ("FILE", "OTHER"), strict=True)
            ),
            own_flag(
                "--snapshot",
                "FILE",
                "A snapshot; also show what the policies decide differently on it.",
                names=("snapshot",),
            ),
            own_flag(
                "--output",
                "|".join(_FORMATS),
                "The format. Default: table.",
                names=("-o", "form"),
                type=click.Choice(_FORMATS),
            ),
        ),
    ),
)
