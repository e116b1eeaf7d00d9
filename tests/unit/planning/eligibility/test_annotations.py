"""The combined annotations of a pod and its workload."""

from datetime import timedelta

import pytest

from desched.planning.eligibility.annotations import (
    DO_NOT_DISRUPT_ANNOTATION,
    EVICT_ANNOTATION,
    EVICTION_COST_ANNOTATION,
    OWN_ANNOTATION,
    PREEMPTABLE,
    SAFE_TO_EVICT_ANNOTATION,
    eviction_annotations,
)
from tests.builders import NOW, pod, workload
from tests.unit.planning.eligibility.candidate import Candidate

FORBIDDING = [
    (OWN_ANNOTATION, "false"),
    (OWN_ANNOTATION, "maybe"),
    (OWN_ANNOTATION, ""),
    (EVICT_ANNOTATION, "false"),
    (EVICT_ANNOTATION, "False"),
    (EVICT_ANNOTATION, "flase"),
    (EVICT_ANNOTATION, "0"),
    (SAFE_TO_EVICT_ANNOTATION, "false"),
    (SAFE_TO_EVICT_ANNOTATION, "never"),
    (DO_NOT_DISRUPT_ANNOTATION, "true"),
    (DO_NOT_DISRUPT_ANNOTATION, "1d"),  # no duration of Go
    (DO_NOT_DISRUPT_ANNOTATION, "30M"),
    (DO_NOT_DISRUPT_ANNOTATION, "-30m"),
    (DO_NOT_DISRUPT_ANNOTATION, "0s"),
    (PREEMPTABLE, "false"),
    (PREEMPTABLE, "no"),
    (EVICTION_COST_ANNOTATION, "2147483647"),
    (EVICTION_COST_ANNOTATION, "dear"),
]
SILENT = [
    (SAFE_TO_EVICT_ANNOTATION, "true"),
    (DO_NOT_DISRUPT_ANNOTATION, "false"),
    (PREEMPTABLE, "true"),
    (EVICTION_COST_ANNOTATION, "2147483646"),
    (EVICTION_COST_ANNOTATION, "-5"),
]
ASKING = [
    (OWN_ANNOTATION, "true"),
    (OWN_ANNOTATION, "True"),
    (EVICT_ANNOTATION, "true"),
    (EVICT_ANNOTATION, ""),
    (EVICT_ANNOTATION, "1"),
]


@pytest.mark.parametrize(("key", "value"), FORBIDDING)
def test_a_pod_that_is_forbidden_to_move_stays_and_the_report_says_by_what(
    key: str, value: str
) -> None:
    """R2.5: `preemptable: "false"`, or what is no boolean."""
    one = Candidate().annotate(key, value)
    assert one.finding() == ("opted_out", f'{key}: "{value}" on the pod')


@pytest.mark.parametrize(("key", "value"), FORBIDDING)
def test_what_a_workload_forbids_holds_for_its_pods(key: str, value: str) -> None:
    one = Candidate()
    one.workload["annotations"] = {key: value}
    assert one.finding() == ("opted_out", f'{key}: "{value}" on Deployment apps/web')


@pytest.mark.parametrize(("key", "value"), SILENT)
def test_a_permission_for_others_neither_forbids_nor_asks(key: str, value: str) -> None:
    """R2.5: `preemptable: "true"` is as if it were absent."""
    said = eviction_annotations(pod("p", annotations={key: value}), None, NOW)
    assert not said.requests
    assert not said.forbids


@pytest.mark.parametrize(
    ("seconds", "forbids"), [(1799, True), (1800, False), (10 * 86_400, False)]
)
def test_karpenters_protection_may_end_after_a_time_since_the_start(
    seconds: int, *, forbids: bool
) -> None:
    started = NOW - timedelta(seconds=seconds)
    one = pod("p", started_at=started, annotations={DO_NOT_DISRUPT_ANNOTATION: "30m"})
    said = eviction_annotations(one, None, NOW)
    assert said.forbids is forbids
    assert not said.requests
    of_workload = workload("web", annotations={DO_NOT_DISRUPT_ANNOTATION: "30m"})
    assert eviction_annotations(pod("p", started_at=started), of_workload, NOW).forbids is forbids
    if forbids:
        assert said.detail.endswith(f'"30m" on the pod, until {NOW:%Y-%m-%d} 12:00 UTC')


def test_karpenters_protection_of_a_pod_that_has_not_started_lasts() -> None:
    one = pod("p", started_at=None, annotations={DO_NOT_DISRUPT_ANNOTATION: "30m"})
    assert eviction_annotations(one, None, NOW).forbids


@pytest.mark.parametrize(("key", "value"), ASKING)
def test_pod_or_workload_may_ask_for_a_move(key: str, value: str) -> None:
    assert eviction_annotations(pod("p", annotations={key: value}), None, NOW).requests
    assert eviction_annotations(pod("p"), workload("web", annotations={key: value}), NOW).requests


@pytest.mark.parametrize(
    ("key", "value"), [case for case in FORBIDDING if case[0] != OWN_ANNOTATION]
)
def test_of_the_fields_annotations_one_that_forbids_wins_over_one_that_asks(
    key: str, value: str
) -> None:
    owner = workload("web", annotations={EVICT_ANNOTATION: "true"})
    assert eviction_annotations(pod("p", annotations={key: value}), owner, NOW).forbids


@pytest.mark.parametrize("key", [OWN_ANNOTATION, EVICT_ANNOTATION])
@pytest.mark.parametrize(("on_pod", "on_workload"), [("true", "false"), ("false", "true")])
def test_where_pod_and_workload_disagree_the_one_that_forbids_wins(
    key: str, on_pod: str, on_workload: str
) -> None:
    owner = workload("web", annotations={key: on_workload})
    assert eviction_annotations(pod("p", annotations={key: on_pod}), owner, NOW).forbids


@pytest.mark.parametrize(
    ("key", "value"), [case for case in FORBIDDING if case[0] != OWN_ANNOTATION]
)
def test_our_own_annotation_wins_over_all_others(key: str, value: str) -> None:
    owner = workload("web", annotations={OWN_ANNOTATION: "true"})
    assert eviction_annotations(pod("p", annotations={key: value}), owner, NOW).requests
    against = pod("p", annotations={EVICT_ANNOTATION: "true", OWN_ANNOTATION: "false"})
    assert eviction_annotations(against, None, NOW).forbids


def test_volcanos_label_counts_where_the_pod_has_no_annotation_of_that_name() -> None:
    """R2.5: the annotation counts before the label."""
    assert eviction_annotations(pod("p", labels={PREEMPTABLE: "false"}), None, NOW).forbids
    both = pod("p", labels={PREEMPTABLE: "false"}, annotations={PREEMPTABLE: "true"})
    assert not eviction_annotations(both, None, NOW).forbids
