"""`desched snapshot` with its parts: a look at the live cluster becomes a file."""

from pathlib import Path
from signal import Signals
from typing import BinaryIO, TextIO

from desched.bootstrap.look import Look, with_look
from desched.service.reports.formatting import count, plain
from desched.settings import Settings
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.storage import save_snapshot, write_snapshot
from desched.snapshot_file.taken import Redaction, take_snapshot

STANDARD_OUTPUT = "-"


def snapshot(
    settings: Settings, output: str, redaction: Redaction, stdout: BinaryIO, stderr: TextIO
) -> Signals | None:
    """Take a snapshot and write it to the output; the signal that ended it before, if any.

    Raises:
        ConfigurationError: a person must change something.
        ObservationError: the cluster or its load could not be read.
    """

    def take(look: Look) -> SnapshotContent:
        return take_snapshot(look.world, look.policy_text, look.state, look.target, redaction)

    content = with_look(settings, take, stderr)
    if isinstance(content, Signals):
        return content
    if output == STANDARD_OUTPUT:
        write_snapshot(content, stdout)
        return None
    path = Path(output)
    save_snapshot(content, path)
    stderr.write(f"desched: {_summary(content, path)}\n")
    return None


def _summary(content: SnapshotContent, path: Path) -> str:
    cluster = content.snapshot.cluster
    size = f"{path.stat().st_size / 2**20:.1f} MiB"
    contents = f"{count(len(cluster.nodes), 'node')} and {count(len(cluster.pods), 'pod')}"
    of = f" of {plain(content.target)}" if content.target else ""
    return f"Wrote {plain(str(path))} ({size}): {contents}{of}. `desched plan --snapshot` reads it."
