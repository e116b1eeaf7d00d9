"""Pods that need each other stay, whoever placed them together."""

import re

import pytest

from desched.planning.eligibility.pod_groups import GROUP_MARKS, LEAST_MEMBERS, VOLCANO_GROUP
from tests.repository import ROOT
from tests.unit.planning.eligibility.candidate import Candidate

DOCUMENT = ROOT / "docs" / "eligibility.md"


@pytest.mark.parametrize("mark", GROUP_MARKS)
def test_a_member_of_a_group_stays_and_the_report_says_by_what(mark: str) -> None:
    by_label = Candidate(labels={"app": "web", mark: "training"})
    by_annotation = Candidate().annotate(mark, "training")
    for one in (by_label, by_annotation):
        assert one.finding() == ("pod_group", f"{mark}: training")


def test_no_annotation_of_the_pod_lifts_that() -> None:
    one = Candidate(has_scheduling_group=True).annotate("desched.io/evict", "true")
    assert one.reason == "pod_group"


@pytest.mark.parametrize(
    ("group", "least", "expected"),
    [
        ("podgroup-2f1c", None, None),
        ("podgroup-2f1c", "1", None),
        ("podgroup-2f1c", "2", "pod_group"),
        ("podgroup-2f1c", "two", "pod_group"),
        ("training", None, "pod_group"),
        (None, "2", "pod_group"),
    ],
)
def test_a_group_that_volcano_made_itself_needs_one_pod_unless_the_workload_says_otherwise(
    group: str | None, least: str | None, expected: str | None
) -> None:
    one = Candidate(scheduler="volcano")
    if group is not None:
        one.annotate(VOLCANO_GROUP, group)
    if least is not None:
        one.workload["annotations"] = {LEAST_MEMBERS: least}
    assert one.reason == expected


def test_the_documented_marks_are_those_of_the_rule() -> None:
    (section,) = re.findall(
        r"^## Groups\n(.*?)^## ", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE
    )
    named = set(re.findall(r"`([a-z0-9.-]+/[a-z-]+)`", section))
    assert named == {*GROUP_MARKS, VOLCANO_GROUP, LEAST_MEMBERS}
