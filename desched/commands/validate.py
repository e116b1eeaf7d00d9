"""`desched validate`: policies without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from desched.cli.command import Command, Invocation
from desched.cli.exit_codes import ExitCode
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import own_flag

if loaded_to_run(__name__):
    from desched.policy_file.loading import policy_argument, shown_name, validate_policy
    from desched.policy_keys.findings import InvalidPolicy, Severity
    from desched.views.policy_findings import (
        Findings,
        ValidatedFile,
        finding_blocks,
        github_commands,
    )
    from desched.views.rendering import write_out

_FORMATS = ("table", "json", "yaml", "github")


def run(invocation: Invocation) -> int:
    """Print what is wrong with the files, and whether one of them is invalid."""
    files = tuple(_validated(dict.fromkeys(invocation.flags["files"])))
    form = invocation.flags.get("form", "table")
    if form == "github":
        sys.stdout.write(github_commands(Findings(files)))
    else:
        write_out(form, Findings(files), finding_blocks(Findings(files)))
    if not all(file.valid for file in files):
        return ExitCode.CONFIGURATION
    warned = any(file.count(Severity.WARNING) for file in files)
    return ExitCode.FAILED if warned and invocation.flags.get("strict") else ExitCode.DONE


def _validated(names: Iterable[str]) -> Iterable[ValidatedFile]:
    """The findings of each file, as the service would have them."""
    for name in names:
        try:
            findings = validate_policy(*policy_argument(name, sys.stdin.buffer)).findings
        except InvalidPolicy as error:
            findings = error.findings
        yield ValidatedFile(shown_name(name), findings)


COMMAND = Command(
    "validate",
    details="A file is a policy, the manifest of its ConfigMap, or a file of several documents "
    'of which one is either; "-" is standard input. desched runs exactly the policies that '
    "this command finds valid. Exit codes: 0 valid, 1 warnings with --strict, 2 invalid.",
    examples={
        "desched validate policies/cautious.yaml": "all that is wrong, with line and column",
        "desched validate --strict -o github deploy/base/policy.yaml": "in a workflow",
    },
    parameters=(
        click.Argument(["files"], nargs=-1, required=True, metavar="FILE…", type=click.Path()),
        own_flag(
            f"--output, -o {'|'.join(_FORMATS)}",
            "The format of the findings; github is for annotations. Default: table.",
            name="form",
            choices=True,
        ),
        own_flag("--strict", "Exit with 1 if there are warnings."),
    ),
)
