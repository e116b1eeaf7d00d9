"""`desched snapshot`: all that a plan needs, as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from signal import Signals

from desched.cli.command import Command, Invocation
from desched.cli.exit_codes import ExitCode, ended_by
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import CONNECTION, PROMETHEUS, own_flag

if loaded_to_run(__name__):
    from desched.bootstrap.look import with_look
    from desched.snapshot_file.content import SnapshotContent
    from desched.snapshot_file.storage import save_snapshot, write_snapshot
    from desched.snapshot_file.taken import Redaction, take_snapshot
    from desched.wording.formatting import count, plain

STANDARD_OUTPUT = "-"


def run(invocation: Invocation) -> int:
    """Take a snapshot and write it."""
    flags = invocation.flags
    redaction = Redaction(all_labels="all_labels" in flags, hash_names="hash_names" in flags)
    content = with_look(
        invocation.settings(),
        lambda it: take_snapshot(it.world, it.policy_text, it.state, it.target, redaction),
    )
    if isinstance(content, Signals):
        return ended_by(content, "; nothing was written")
    if flags["file"] == STANDARD_OUTPUT:
        write_snapshot(content, sys.stdout.buffer)
    else:
        path = Path(flags["file"])
        save_snapshot(content, path)
        sys.stderr.write(f"desched: {_summary(content, path)}\n")
    return ExitCode.DONE


def _summary(content: SnapshotContent, path: Path) -> str:
    cluster = content.snapshot.cluster
    size_bytes = path.stat().st_size
    size = f"{size_bytes >> 10} KiB" if size_bytes < 2**20 else f"{size_bytes / 2**20:.1f} MiB"
    contents = f"{count(len(cluster.nodes), 'node')} and {count(len(cluster.pods), 'pod')}"
    of = f" of {plain(content.target)}" if content.target else ""
    return f"Wrote {plain(str(path))} ({size}): {contents}{of}. `desched plan --snapshot` reads it."


COMMAND = Command(
    "snapshot",
    details="It reads the cluster and Prometheus as `desched plan` does, and changes nothing. "
    "The file has the objects, their load, the policy and desched's state; it has no "
    "environment, no images, no addresses, and only labels and annotations that a rule reads.",
    examples={
        "desched snapshot -o now.snapshot --policy policy.yaml": "of the current context",
        "desched plan --snapshot now.snapshot": "the plan of it, on any machine",
    },
    settings=("policy", *CONNECTION, "api_server_timeout", *PROMETHEUS),
    parameters=(
        own_flag(
            "-o, --output FILE",
            "The file to write; - is standard output.",
            name="file",
            required=True,
        ),
        own_flag(
            "--all-labels",
            "Keep all labels, for policies that select by others than this one.",
        ),
        own_flag(
            "--hash-names",
            "Replace the names of namespaces, workloads, pods and nodes, each name always by "
            "the same new one.",
        ),
    ),
)
