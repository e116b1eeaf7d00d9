"""Crowds and liars: thousands of odd objects end in a plan, each pod with its reason."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from desched.model.cluster import Node, Owner, Pod, PodDisruptionBudget
from desched.model.load import ClusterLoad
from desched.model.plan import NodeReason, Plan, RefusalReason
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.model.text import LONGEST_DETAIL
from desched.policy.policy import Protections
from tests.builders import (
    amounts,
    budget,
    evicted,
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    snapshot,
    workload,
)

EVERYTHING = LabelSelector()
CROWD = 5_000


def hot_and_cool(*pods: Pod, cores_each: float = 0.5) -> ClusterLoad:
    return load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)}, {p.name: (cores_each, 0.1) for p in pods})


def plan_of(*pods: Pod, nodes: tuple[Node, ...] = (), **cluster: Any) -> Plan:
    """The plan for pods of one workload of enough replicas on a hot node."""
    nodes = nodes or (node("hot"), node("cool"))
    return planned(snapshot(nodes, pods, hot_and_cool(*pods), **cluster))


def tally(plan: Plan) -> Counter[str]:
    return Counter(refusal.reason.value for refusal in plan.refusals)


def test_five_thousand_pods_on_one_node_each_have_their_reason() -> None:
    big = node("hot", cpu=64, memory_gib=512)
    pods = [pod(f"p{i}", on="hot", of=f"w{i}", request=amounts(0.01)) for i in range(CROWD)]
    owners = [workload(f"w{i}") for i in range(CROWD)]
    seen = snapshot([big, node("cool")], pods, hot_and_cool(*pods, cores_each=0.01), owners)

    plan = planned(seen)

    assert len(plan.evictions) + len(plan.refusals) == CROWD


def test_thousands_of_different_pods_that_wait_for_room_are_looked_at_once_each() -> None:
    waiting = [
        pod(f"p{i}", of=f"w{i}", phase="Pending", request=amounts(99 + i / 1000), node="")
        for i in range(CROWD)
    ]
    overloaded = [pod(f"h{i}", on="hot") for i in range(20)]
    plan = plan_of(*overloaded, *waiting)
    assert evicted(plan)


def test_thousands_of_budgets_in_one_namespace_are_not_compared_with_each_pod() -> None:
    pods = [pod(f"p{i}", on="hot", of=f"w{i}", request=amounts(0)) for i in range(1000)]
    budgets = tuple(budget(f"b{i}", 0, app=f"w{i}") for i in range(CROWD))
    owners = [workload(f"w{i}") for i in range(1000)]
    seen = snapshot([node("hot"), node("cool")], pods, hot_and_cool(*pods), owners, budgets=budgets)
    assert tally(planned(seen)) == {"budget_exhausted": 1000}


def test_of_many_budgets_exactly_those_that_select_a_pod_cover_it() -> None:
    one_of = Requirement("app", Operator.IN, ("web", "db"))
    tiers = Requirement("tier", Operator.EXISTS)
    selectors = {
        "all": EVERYTHING,
        "one of": LabelSelector((one_of,)),
        "both": LabelSelector((one_of, tiers)),
        "exists": LabelSelector((tiers,)),
        "none": None,
        "no value": LabelSelector((Requirement("app", Operator.IN),)),
        "not": LabelSelector((Requirement("app", Operator.NOT_IN, ("db",)),)),
    }
    budgets = tuple(PodDisruptionBudget("apps", n, s, 1) for n, s in selectors.items())
    cluster = snapshot([node("hot")], [], hot_and_cool(), budgets=budgets).cluster

    def covering(**labels: str) -> list[str]:
        return [each.name for each in cluster.budgets_of(pod("p", labels=labels))]

    assert covering(app="web") == ["all", "one of", "not"]
    assert covering(app="db", tier="x") == ["all", "one of", "both", "exists"]
    assert covering() == ["all", "not"]
    assert cluster.budgets_of(pod("p", namespace="else", labels={"app": "web"})) == ()


def test_a_budget_that_selects_everything_holds_for_every_pod() -> None:
    everything = PodDisruptionBudget("apps", "all", EVERYTHING, -5)
    pods = [pod(f"p{i}", on="hot", labels={"x": str(i)}) for i in range(3)]
    assert set(reasons(plan_of(*pods, budgets=(everything,))).values()) == {"budget_exhausted"}


@pytest.mark.parametrize("count", [2, 500])
def test_more_than_one_budget_keeps_the_pod_and_not_all_of_them_are_listed(count: int) -> None:
    budgets = tuple(PodDisruptionBudget("apps", f"b{i}", EVERYTHING, 10**9) for i in range(count))
    (refusal,) = plan_of(pod("p", on="hot"), budgets=budgets).refusals
    assert refusal.reason is RefusalReason.SEVERAL_BUDGETS
    assert len(refusal.detail) <= LONGEST_DETAIL


def test_what_a_user_writes_into_an_annotation_is_not_repeated_at_length() -> None:
    (refusal,) = plan_of(
        pod("p", on="hot", annotations={"desched.io/evict": "no" * 100_000})
    ).refusals
    assert refusal.reason is RefusalReason.OPTED_OUT
    assert len(refusal.detail) <= LONGEST_DETAIL


@pytest.mark.parametrize(
    "owner",
    [
        Owner("ReplicaSet", "p", "uid-p", "apps/v1"),  # itself
        Owner("ReplicaSet", "gone", "uid-gone", "apps/v1"),
        Owner("Röllout\x1b[2J", "x" * 5000, "uid-x", "odd.example/v1"),
        Owner("", "", "", ""),
    ],
)
def test_an_owner_that_is_nobody_keeps_the_pod(owner: Owner) -> None:
    plan = plan_of(pod("p", on="hot", owner=owner))
    assert reasons(plan) == {"p": "owner_not_understood"}
    assert len(plan.refusals[0].detail) <= LONGEST_DETAIL


def test_owners_that_own_each_other_keep_the_pod() -> None:
    first, second = (Owner("ReplicaSet", name, f"uid-{name}", "apps/v1") for name in "ab")
    loop = {("apps", first.uid): second, ("apps", second.uid): first}
    plan = plan_of(pod("p", on="hot", owner=first), controller_owners=loop)
    assert reasons(plan) == {"p": "owner_not_understood"}


def test_of_a_declared_kind_a_name_that_cannot_exist_is_not_believed() -> None:
    declared = policy(protections=Protections(understood_owner_kinds=("odd.example/Game",)))
    allowing = PodDisruptionBudget("apps", "all", EVERYTHING, 9)

    def found(name: str) -> dict[str, str]:
        pods = [
            pod(f"p{i}", on="hot", owner=Owner("Game", name, "uid-game", "odd.example/v1"))
            for i in range(3)
        ]
        seen = snapshot([node("hot"), node("cool")], pods, hot_and_cool(*pods), budgets=(allowing,))
        return reasons(planned(seen, declared))

    assert "owner_not_understood" not in found("g" * 253).values()
    assert set(found("g" * 254).values()) == {"owner_not_understood"}


def test_pods_that_share_a_uid_are_evicted_once_each_at_most() -> None:
    twins = [pod(f"p{i}", on="hot", uid="uid-one") for i in range(4)]
    plan = plan_of(*twins)
    assert 0 < len(set(evicted(plan))) == len(plan.evictions)


@pytest.mark.parametrize("field", ["capacity", "allocatable"])
def test_a_node_that_has_nothing_is_no_source_and_no_destination(field: str) -> None:
    empty = msgspec.structs.replace(node("hot"), **{field: Amounts()})
    p = pod("p", on="hot")
    plan = plan_of(p, nodes=(empty, node("cool")))
    assert not plan.evictions
    empty_goal = msgspec.structs.replace(node("cool"), **{field: Amounts()})
    assert not plan_of(p, nodes=(node("hot"), empty_goal)).evictions


@pytest.mark.parametrize("year", [1, 9999])
def test_times_at_the_ends_of_the_calendar_are_ages_like_others(year: int) -> None:
    at = datetime(year, 1, 1, tzinfo=UTC)
    odd = [pod(f"p{i}", on="hot", created_at=at, started_at=at) for i in range(3)]
    assert len(plan_of(*odd).refusals) + len(plan_of(*odd).evictions) == 3
    old = node("hot", created_at=at)
    verdict = next(v for v in plan_of(*odd, nodes=(old, node("cool"))).nodes if v.node == "hot")
    assert (verdict.reason is NodeReason.TOO_YOUNG) == (year > 2026)
