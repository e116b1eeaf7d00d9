"""`desched policy diff`: in what two policies differ."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from desched.cli.command import Command, Invocation
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import own_flag

if loaded_to_run(__name__):
    from desched.policy.policy import Policy
    from desched.policy_file.difference import policy_differences
    from desched.policy_file.loading import parse_policy, policy_argument
    from desched.service.process.clock import SystemClock
    from desched.snapshot_file.comparison import PlanComparison, compare_reports
    from desched.snapshot_file.load_check import own_policy, refuse_unmeasured
    from desched.snapshot_file.report import report_of
    from desched.snapshot_file.storage import load_snapshot
    from desched.views.policy_differences import PolicyComparison, difference_blocks
    from desched.views.rendering import write_out
    from desched.wording.formatting import plain

_FORMATS = ("table", "json", "yaml")
_FILES = ("before", "after")


def run(invocation: Invocation) -> None:
    """Print the differences."""
    flags = invocation.flags
    before, after = (
        parse_policy(*policy_argument(flags[name], sys.stdin.buffer)).policy for name in _FILES
    )
    comparison = None
    if "snapshot" in flags:
        comparison = compare_on(Path(flags["snapshot"]), before, after)
    differences = PolicyComparison(tuple(policy_differences(before, after)), comparison)
    write_out(flags.get("form"), differences, difference_blocks(differences))


def compare_on(path: Path, before: Policy, after: Policy) -> PlanComparison:
    """What the policies decide differently on a snapshot file.

    Raises:
        ConfigurationError: the file cannot be used, or a policy needs more than it has.
    """
    content = load_snapshot(path)
    name = plain(str(path))
    own = own_policy(content, name)
    reports = []
    for policy in (before, after):
        refuse_unmeasured(policy, content, own, name)
        reports.append(report_of(content, policy, SystemClock()))
    return compare_reports(*reports)


COMMAND = Command(
    "policy diff",
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
            "--snapshot FILE",
            "A snapshot; also show what the policies decide differently on it.",
        ),
        own_flag(
            f"--output, -o {'|'.join(_FORMATS)}",
            "The format. Default: table.",
            name="form",
            choices=True,
        ),
    ),
)
