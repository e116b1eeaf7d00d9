"""The disruption controller's arithmetic; what it means for an eviction is in the contract."""

from datetime import UTC, datetime
from typing import Any

import pytest

from desched.lab.budgets import FORGET_DISRUPTED_SECONDS, SimulatedBudget
from desched.model.cluster import Owner, Pod, SchedulingClass
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, Operator, Requirement

WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
OWNER = Owner("ReplicaSet", "web-rs", "rs")


def pods(ready: int, unready: int = 0, owner: Owner | None = OWNER) -> list[Pod]:
    return [
        Pod(
            namespace="n",
            name=f"web-{number}",
            uid=f"uid-{number}",
            scheduling=SchedulingClass(Amounts()),
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            labels={"app": "web"},
            owner=owner,
            ready=number < ready,
        )
        for number in range(ready + unready)
    ]


def allowed(budget: SimulatedBudget, found: list[Pod], scale: int, now: float = 0) -> int:
    return budget.status(found, {"rs": scale}, now).disruptions_allowed


@pytest.mark.parametrize(
    ("spec", "scale", "ready", "expected"),
    [
        ({"min_available": 2}, 3, 3, 1),
        ({"min_available": 5}, 3, 3, 0),
        ({"min_available": "50%"}, 5, 5, 2),  # three must stay: percentages round up
        ({"min_available": "50%"}, 5, 3, 0),
        ({"max_unavailable": "30%"}, 5, 5, 2),
        ({"max_unavailable": 1}, 5, 4, 0),
        ({"max_unavailable": 9}, 5, 5, 5),
        ({"max_unavailable": 1}, 3, 4, 2),  # one more than wanted is there
    ],
)
def test_disruptions_allowed(spec: dict[str, Any], scale: int, ready: int, expected: int) -> None:
    assert allowed(SimulatedBudget("n", "b", WEB, **spec), pods(ready), scale) == expected


@pytest.mark.parametrize(
    ("budget", "found"),
    [
        (SimulatedBudget("n", "b", WEB, min_available=2), pods(ready=2, unready=1)),
        (SimulatedBudget("n", "b", WEB, max_unavailable=1), pods(3, owner=None)),
        (SimulatedBudget("n", "b", WEB, min_available=0), []),
        (SimulatedBudget("elsewhere", "b", WEB, min_available=0), pods(3)),
    ],
    ids=["unready pods", "bare pods are not wanted", "no pods", "those of another namespace"],
)
def test_what_does_not_count_allows_nothing(budget: SimulatedBudget, found: list[Pod]) -> None:
    assert allowed(budget, found, len(found)) == 0


def test_a_charged_pod_counts_as_unhealthy_until_the_controller_forgets() -> None:
    budget = SimulatedBudget("n", "b", WEB, min_available=2, disrupted={"web-0": 10})
    assert allowed(budget, pods(3), 3, now=10 + FORGET_DISRUPTED_SECONDS - 1) == 0
    assert allowed(budget, pods(3), 3, now=10 + FORGET_DISRUPTED_SECONDS) == 1
