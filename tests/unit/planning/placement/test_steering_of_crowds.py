"""Soft taints on nodes that await as many replacements as they may, and that more would go to."""

from typing import Any

import pytest

from desched.model.cluster import Toleration
from desched.model.plan import Plan, RefusalReason
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, State
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, SteeringRules
from tests.builders import (
    NOW,
    amounts,
    certain,
    load,
    no_limits_but,
    node,
    planned,
    pod,
    policy,
    reasons,
    snapshot,
    workload,
)

COOL = {"first": 0, "second": 1, "third": 2}
"""How many cores are requested there already: the scheduler takes them in this order."""


def crowd(
    cores: float = 0.6, second_load: float = 0.1, overloaded: int = 3, **scheduling: Any
) -> Snapshot:
    """One pod of so many cores on each hot node, and the scheduler would put all onto `first`."""
    sources = [f"hot{i}" for i in range(overloaded)]
    pods = [pod(f"web-{name}", on=name, scheduling=scheduling) for name in sources]
    full = dict.fromkeys(sources, 3.5) | COOL
    pods += [
        pod(f"fill-{name}", on=name, of=None, request=amounts(cpu, 4 * cpu))
        for name, cpu in full.items()
    ]
    usage = {f"web-{name}": (cores, 0.1) for name in sources}
    cpu_loads = dict.fromkeys(sources, 0.85) | dict.fromkeys(COOL, 0.1) | {"second": second_load}
    loads = {name: (ratio, 0.1) for name, ratio in cpu_loads.items()}
    return snapshot([node(name) for name in full], pods, load(loads, usage), [workload("web", 20)])


def steering(
    mode: SteeringMode = SteeringMode.WHEN_NEEDED, most: int = 3, at_a_time: int = 1
) -> Policy:
    return policy(
        max_landing_risk=0.15,
        steering=SteeringRules(mode, most),
        limits=no_limits_but(in_flight_destination=at_a_time),
    )


def destinations(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    return [(eviction.expected_node, eviction.steered) for eviction in plan.evictions]


def waiting(plan: Plan) -> int:
    return list(reasons(plan).values()).count(RefusalReason.LIMIT_IN_FLIGHT)


def under_way(landed_on: str) -> State:
    gone = pod("web-gone", on="hot1").ref
    record = EvictionRecord(
        gone, "hot1", "uid-other", evicted_at=NOW, landing=certain("first"), landed_on=landed_on
    )
    return State((record,))


def test_without_steering_a_destination_gets_no_more_than_it_may_await() -> None:
    plan = planned(crowd(), steering(SteeringMode.OFF))
    assert destinations(plan) == [("first", ())]
    assert waiting(plan) == 2


def test_further_replacements_are_kept_off_nodes_that_await_as_many_as_they_may() -> None:
    plan = planned(crowd(), steering())
    assert destinations(plan) == [
        ("first", ()),
        ("second", ("first",)),
        ("third", ("first", "second")),
    ]
    assert {taint.node for taint in plan.taints} == {"first", "second"}


def test_as_long_as_a_destination_may_await_more_it_gets_no_taint() -> None:
    plan = planned(crowd(), steering(at_a_time=2))
    assert destinations(plan) == [("first", ()), ("first", ()), ("second", ("first",))]


def test_no_more_nodes_are_tainted_for_that_than_allowed() -> None:
    plan = planned(crowd(), steering(most=1))
    assert destinations(plan) == [("first", ()), ("second", ("first",))]
    assert waiting(plan) == 1
    detail = next(r.detail for r in plan.refusals if r.reason is RefusalReason.LIMIT_IN_FLIGHT)
    assert detail == "node second already awaits 1, at most 1 at a time"


def test_a_pod_that_tolerates_the_taint_waits() -> None:
    plan = planned(crowd(tolerations=(Toleration(operator="Exists"),)), steering())
    assert destinations(plan) == [("first", ())]
    assert waiting(plan) == 2


@pytest.mark.parametrize(("landed_on", "first"), [("", None), ("first", ("second", ("first",)))])
def test_a_node_gets_the_taint_once_what_earlier_cycles_sent_there_has_landed(
    landed_on: str, first: tuple[str, tuple[str, ...]] | None
) -> None:
    plan = planned(crowd(), steering(), under_way(landed_on))
    assert next(iter(destinations(plan)), None) == first
