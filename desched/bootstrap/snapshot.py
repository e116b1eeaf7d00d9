"""Snapshot files: a look at the live cluster becomes one, and a plan is made of one."""

from pathlib import Path
from signal import Signals
from typing import BinaryIO, NamedTuple, TextIO

from desched.bootstrap.look import LiveCluster, with_look
from desched.bootstrap.runs import Ending, is_inconclusive, report_printer
from desched.policy.loading import load_policy
from desched.policy.policy import Policy
from desched.service.cycles.runner import ReportSink
from desched.service.process.clock import SystemClock
from desched.settings import Settings
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.load_check import own_policy, refuse_unmeasured
from desched.snapshot_file.report import report_of
from desched.snapshot_file.storage import load_snapshot, save_snapshot, write_snapshot
from desched.snapshot_file.taken import Redaction, take_snapshot
from desched.views.cycle_table import WHOLE, TableView
from desched.views.formatting import count, plain

STANDARD_OUTPUT = "-"


class SnapshotFile(NamedTuple):
    """A file that was read, with the policy to plan by."""

    content: SnapshotContent
    policy: Policy


def read(path: Path, policy: Path | None) -> SnapshotFile:
    """Read a snapshot file, and another policy than its own if one is given.

    Raises:
        ConfigurationError: one of them cannot be used, or the policy needs more than the file has.
    """
    content = load_snapshot(path)
    name = plain(str(path))
    own = own_policy(content, name)
    if policy is None:
        return SnapshotFile(content, own)
    other = load_policy(policy).policy
    refuse_unmeasured(other, content, own, name)
    return SnapshotFile(content, other)


def plan(
    settings: Settings,
    file: SnapshotFile,
    stdout: TextIO,
    view: TableView = WHOLE,
    *sinks: ReportSink,
) -> Ending:
    """Print the plan of a snapshot file, and give the report to the sinks.

    Raises:
        ConfigurationError: the policy does not suit the cluster.
    """
    report = report_of(file.content, file.policy, SystemClock())
    for sink in (report_printer(settings, stdout, view), *sinks):
        sink(report)
    return Ending(inconclusive=is_inconclusive(report))


def take(
    settings: Settings, output: str, redaction: Redaction, stdout: BinaryIO, stderr: TextIO
) -> Signals | None:
    """Take a snapshot and write it to the output; the signal that ended it before, if any.

    Raises:
        ConfigurationError: a person must change something.
        ObservationError: the cluster or its load could not be read.
    """

    def taken(look: LiveCluster) -> SnapshotContent:
        return take_snapshot(look.world, look.policy_text, look.state, look.target, redaction)

    content = with_look(settings, taken, stderr)
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
    size_bytes = path.stat().st_size
    size = f"{size_bytes >> 10} KiB" if size_bytes < 2**20 else f"{size_bytes / 2**20:.1f} MiB"
    contents = f"{count(len(cluster.nodes), 'node')} and {count(len(cluster.pods), 'pod')}"
    of = f" of {plain(content.target)}" if content.target else ""
    return f"Wrote {plain(str(path))} ({size}): {contents}{of}. `desched plan --snapshot` reads it."
