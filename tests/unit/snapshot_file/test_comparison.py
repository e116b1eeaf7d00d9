"""What two policies decide differently on a snapshot: the stored one, with its plan."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from desched.commands.policy_diff import compare_on
from desched.errors import ConfigurationError
from desched.model.plan import HoldReason, NodeClass, RefusalReason
from desched.model.report import NotActing
from desched.policy.policy import Policy
from desched.policy_file.loading import parse_policy
from desched.service.process.clock import SystemClock
from desched.snapshot_file.comparison import PlanComparison, compare_reports
from desched.snapshot_file.report import report_of
from desched.snapshot_file.storage import load_snapshot
from tests.shown import shown

FILE = Path(__file__).parent / "stored" / "desched-0.1.0.snapshot"
CONTENT = load_snapshot(FILE)
OWN = CONTENT.policy_text


def policy(text: str = OWN) -> Policy:
    return parse_policy(text, "p").policy


def compared(old: str, new: str) -> PlanComparison:
    """What the snapshot's policy decides otherwise with another text in place of its own."""
    assert old in OWN
    return compare_on(FILE, policy(), policy(OWN.replace(old, new)))


def test_a_policy_decides_the_same_as_itself() -> None:
    found = compare_on(FILE, policy(), policy(OWN + "# a comment\n"))
    assert found.equal
    assert found.evictions_in_both > 0


def test_evictions_of_only_one_policy_are_named_with_the_reason_why_others_stay() -> None:
    found = compared("node: 5", "node: 1")
    assert not found.equal
    assert found.evictions_before
    assert not found.evictions_after
    stay = {change.reason: (change.before, change.after) for change in found.refusals}
    before, after = stay[RefusalReason.LIMIT_NODE]
    assert after > before == 0
    spans = [abs(change.after - change.before) for change in found.refusals]
    assert spans == sorted(spans, reverse=True)


def test_nodes_change_their_class_with_the_thresholds() -> None:
    found = compared("targetThresholds: {cpu: 60}", "targetThresholds: {cpu: 99}")
    changed = {change.node: (change.before, change.after) for change in found.classes}
    assert (NodeClass.OVERLOADED, NodeClass.BALANCED) in changed.values()
    assert list(changed) == sorted(changed)


def test_the_other_way_round_everything_is_swapped() -> None:
    before, after = policy(), policy(OWN.replace("node: 5", "node: 1"))
    there, back = compare_on(FILE, before, after), compare_on(FILE, after, before)
    assert there.evictions_before == back.evictions_after
    assert there.evictions_in_both == back.evictions_in_both
    assert {(r.reason, r.before, r.after) for r in there.refusals} == {
        (r.reason, r.after, r.before) for r in back.refusals
    }


def test_a_plan_that_is_held_says_why() -> None:
    report = report_of(CONTENT, policy(), SystemClock())
    plan = msgspec.structs.replace(
        report.plan, evictions=(), hold=HoldReason.PARTIAL_DATA, hold_detail="x"
    )
    found = compare_reports(report, msgspec.structs.replace(report, plan=plan))
    assert found.hold_before.reason is None
    assert (found.hold_after.reason, found.hold_after.detail) == (HoldReason.PARTIAL_DATA, "x")
    assert not found.equal


def test_a_limit_of_zero_evicts_nothing_and_names_its_line() -> None:
    found = compared("total: 20", "total: 0")
    assert found.evictions_before
    assert (found.evictions_in_both, found.evictions_after) == (0, ())
    assert found.hold_after.reason is NotActing.LIMIT_ZERO
    assert found.hold_after.detail == "p:17: profiles[0].pluginConfig[0].args.evictionLimits.total"


def test_a_plan_shows_what_it_would_do_without_a_limit_of_zero() -> None:
    own = report_of(CONTENT, policy(), SystemClock())
    zero = report_of(CONTENT, policy(OWN.replace("total: 20", "total: 0")), SystemClock())
    assert zero.plan == own.plan
    said = shown(zero, "table")
    assert "To evict, run" not in said
    assert " ".join(said.split()).endswith(
        "The policy's limit of 0 forbids evictions until its line is removed (p:17: "
        "profiles[0].pluginConfig[0].args.evictionLimits.total). Without it, this cycle would "
        "evict 2 pods."
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"[5m, 15m]": "[10m]"}, "does not have the load of cpu over 10m"),
        ({"[disk=fast": "", "pinned": "owner"}, "does not have pod label owner"),
    ],
)
def test_what_the_snapshot_does_not_have_is_refused(changes: dict[str, Any], said: str) -> None:
    text = OWN
    for old, new in changes.items():
        text = text.replace(old, new)
    with pytest.raises(ConfigurationError, match=said):
        compare_on(FILE, policy(), policy(text))
