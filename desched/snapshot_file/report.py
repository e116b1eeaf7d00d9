"""The report of a dry run on a snapshot file."""

from msgspec.structs import replace

from desched.cycle import planned_report
from desched.cycle_report import CycleInfo
from desched.model.report import CycleReport, Mode
from desched.planning.other_deschedulers import split_others
from desched.policy.policy import Policy
from desched.ports import Clock
from desched.snapshot_file.content import SnapshotContent


def report_of(content: SnapshotContent, policy: Policy, clock: Clock) -> CycleReport:
    """What a dry run would have reported; the durations are those of this machine.

    Raises:
        ConfigurationError: the policy names a PriorityClass that does not exist.
    """
    info = CycleInfo(1, Mode.DRY_RUN, target_of(content))
    report = planned_report(
        content.snapshot, policy, content.state, info, clock, may_steer=content.may_steer
    )
    others = split_others(content.other_deschedulers, policy)
    return replace(
        report,
        other_deschedulers=others.unexpected,
        acknowledged_deschedulers=others.acknowledged,
    )


def target_of(content: SnapshotContent) -> str:
    """What a report on the snapshot calls the cluster."""
    return f"snapshot of {content.target or 'a cluster'}"
