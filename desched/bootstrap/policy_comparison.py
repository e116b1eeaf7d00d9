"""Compares the plans of two policies on a snapshot file."""

from pathlib import Path

from desched.policy.policy import Policy
from desched.service.process.clock import SystemClock
from desched.snapshot_file.comparison import PlanComparison, compare_reports
from desched.snapshot_file.load_check import own_policy, refuse_unmeasured
from desched.snapshot_file.report import report_of
from desched.snapshot_file.storage import load_snapshot
from desched.views.formatting import plain


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
