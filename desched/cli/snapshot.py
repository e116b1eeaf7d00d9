"""`desched snapshot`: all that a plan needs, as a file."""

import sys

from desched.cli.command import Command, Invocation, Usage
from desched.cli.exit_codes import CAUGHT_SIGNAL, ExitCode
from desched.cli.setting_flags import CONNECTION, PROMETHEUS, Flag, own_flag


def run(invocation: Invocation) -> int:
    """Take a snapshot and write it."""
    from desched.bootstrap.snapshot import take
    from desched.snapshot_file.taken import Redaction

    flags = invocation.flags
    redaction = Redaction(all_labels="all_labels" in flags, hash_names="hash_names" in flags)
    ended_by = take(invocation.settings(), flags["file"], redaction, sys.stdout.buffer, sys.stderr)
    if ended_by is None:
        return ExitCode.DONE
    sys.stderr.write(f"desched: Ended by {ended_by.name}; nothing was written.\n")
    return CAUGHT_SIGNAL + ended_by


COMMAND = Command(
    "snapshot",
    run,
    Usage(
        details="It reads the cluster and Prometheus as `desched plan` does, and changes nothing. "
        "The file has the objects, their load, the policy and desched's state; it has no "
        "environment, no images, no addresses, and only labels and annotations that a rule reads.",
        examples={
            "desched snapshot -o now.snapshot --policy policy.yaml": "of the current context",
            "desched plan --snapshot now.snapshot": "the plan of it, on any machine",
        },
        settings=("policy", *CONNECTION, "api_server_timeout", *PROMETHEUS),
        parameters=(
            Flag(
                ["-o", "--output", "file"],
                "FILE",
                "The file to write; - is standard output.",
                required=True,
            ),
            own_flag(
                "--all-labels",
                "",
                "Keep all labels, for policies that select by others than this one.",
            ),
            own_flag(
                "--hash-names",
                "",
                "Replace the names of namespaces, workloads, pods and nodes, each name always by "
                "the same new one.",
            ),
        ),
    ),
)
