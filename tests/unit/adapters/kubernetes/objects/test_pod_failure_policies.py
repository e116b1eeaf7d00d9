from typing import Any

import msgspec
import pytest

from desched.adapters.kubernetes.client.api_types import workloads
from desched.adapters.kubernetes.objects.workloads import survives_disruption

EVICTED = [{"type": "DisruptionTarget"}]


def on_exit(action: str, operator: str, *values: int) -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values)}}


def on_condition(action: str, *conditions: dict[str, str]) -> dict[str, Any]:
    return {"action": action, "onPodConditions": list(conditions)}


def survives(*rules: dict[str, Any]) -> bool:
    return survives_disruption(msgspec.convert({"rules": list(rules)}, workloads.PodFailurePolicy))


def test_a_job_without_a_policy_counts_an_eviction_as_a_failure() -> None:
    assert not survives_disruption(None)
    assert not survives_disruption(workloads.PodFailurePolicy())


@pytest.mark.parametrize("status", [{}, {"status": "True"}])
def test_a_job_that_ignores_disruptions_survives_them(status: dict[str, str]) -> None:
    assert survives(on_condition("Ignore", EVICTED[0] | status))


@pytest.mark.parametrize("action", ["FailJob", "FailIndex", "Count"])
def test_any_other_action_is_a_failure(action: str) -> None:
    assert not survives(on_condition(action, *EVICTED))


@pytest.mark.parametrize(
    "condition", [{"type": "ConfigIssue"}, {"type": "DisruptionTarget", "status": "False"}]
)
def test_to_ignore_another_condition_does_not_help(condition: dict[str, str]) -> None:
    assert not survives(on_condition("Ignore", condition))


def test_to_ignore_some_exit_codes_does_not_help() -> None:
    assert not survives(on_exit("Ignore", "In", 137, 143))
    assert not survives(on_exit("Ignore", "In", 143), on_exit("FailJob", "In", 1))


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (on_exit("FailJob", "In", 42), True),  # not how an evicted container ends
        (on_exit("FailJob", "In", 1, 143), False),
        (on_exit("FailJob", "In", 1), False),
        (on_exit("FailIndex", "In", 137), False),
        (on_exit("Count", "In", 143), False),
        (on_exit("FailJob", "NotIn", 137, 143), False),
        (on_exit("FailJob", "NotIn", 1, 137, 143), True),
        (on_exit("FailJob", "NotIn", 0), False),
        (on_condition("FailJob", {"type": "ConfigIssue"}), True),
        (on_condition("FailJob", *EVICTED), False),
        (on_exit("Ignore", "In", 143), True),
    ],
)
def test_the_first_rule_that_an_evicted_pod_meets_decides(
    first: dict[str, Any], *, expected: bool
) -> None:
    assert survives(first, on_condition("Ignore", *EVICTED)) is expected
