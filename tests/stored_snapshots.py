"""A snapshot file as each released version wrote it, with the plan that it gave then.

`python -m tests.stored_snapshots` adds the files of this version. Those of released versions never
change. Where planning itself changed on purpose, `--plans` writes their plans again.
"""

import sys
from pathlib import Path

import msgspec

from desched import __version__
from desched.lab.clock import VirtualClock
from desched.model.plan import Plan
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.load_check import own_policy
from desched.snapshot_file.redaction import labels_read, redacted
from desched.snapshot_file.report import report_of
from desched.snapshot_file.storage import load_snapshot, save_snapshot
from tests.builders import NOW
from tests.properties.rich_clusters import POLICY, RichCluster

STORED = Path(__file__).parent / "unit" / "snapshot_file" / "stored"
SEED = 1269
"""Its plan has evictions, soft taints, and pods that stay for many reasons."""


def plan_of(path: Path) -> Plan:
    """The plan that this desched makes of the file."""
    content = load_snapshot(path)
    return report_of(content, own_policy(content, path.name), VirtualClock(NOW)).plan


def plan_path(path: Path) -> Path:
    return path.with_suffix(".plan.json")


def write_plan(path: Path) -> None:
    text = msgspec.json.format(msgspec.json.encode(plan_of(path)))
    plan_path(path).write_bytes(text + b"\n")


def main() -> None:
    if sys.argv[1:] == ["--plans"]:
        for path in STORED.glob("*.snapshot"):
            write_plan(path)
        return
    cluster, policy_text = RichCluster(SEED), POLICY
    seen = cluster.snapshot()
    content = SnapshotContent(seen, cluster.state(), *policy_text, written_by=__version__)
    kept = labels_read(seen.cluster, own_policy(content, "rich"))
    path = STORED / f"desched-{__version__}.snapshot"
    STORED.mkdir(exist_ok=True)
    save_snapshot(
        msgspec.structs.replace(content, snapshot=redacted(seen, kept), kept_labels=kept), path
    )
    path.chmod(0o644)
    write_plan(path)


if __name__ == "__main__":
    main()
