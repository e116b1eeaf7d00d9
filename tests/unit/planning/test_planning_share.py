"""Pods of one namespace that take long to plan for take nothing from the others."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from desched.model.cluster import Pod, PodAffinityTerm
from desched.model.load import PodUsage
from desched.model.plan import Plan
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from desched.planning import deadline
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import Policy
from tests.builders import (
    GIB,
    amounts,
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

EVIL = "evil"
NODES = 40
HOST = "kubernetes.io/hostname"


def about_labels(number: int, terms: int) -> tuple[Requirement, ...]:
    return tuple(Requirement(f"k{number}-{i}", Operator.EXISTS) for i in range(terms))


def apart(number: int, terms: int) -> dict[str, Any]:
    """Terms about pods of all namespaces, by labels for which no index helps."""
    return {
        "pod_anti_affinity": tuple(
            PodAffinityTerm(HOST, LabelSelector((each,)), namespace_selector=LabelSelector())
            for each in about_labels(number, terms)
        )
    }


def on_nodes(number: int, terms: int) -> dict[str, Any]:
    """Terms about nodes of which only the last one matches."""
    own = (NodeSelectorTerm((each,)) for each in about_labels(number, terms))
    return {
        "required_node_affinity": (*own, NodeSelectorTerm((Requirement(HOST, Operator.EXISTS),)))
    }


def preferring(number: int, terms: int) -> dict[str, Any]:
    own = (NodeSelectorTerm((each,)) for each in about_labels(number, terms))
    return {"preferred_node_affinity": tuple((1, each) for each in own)}


def plan_beside(
    *strangers: Pod,
    workloads: int = 0,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    by: Policy | None = None,
) -> Plan:
    """The plan for hot nodes with pods of `apps` and those of a stranger, among many others."""
    names = [f"n{i:02}" for i in range(NODES)]
    bystanders = [
        pod(f"b{i}-{name}", on=name, of=None, namespace="other") for name in names for i in range(5)
    ]
    mine = [pod(f"mine{i}", on=names[i]) for i in range(4)]
    ratios = {name: (0.85 if i < 4 else 0.2, 0.2) for i, name in enumerate(names)}
    used = load(ratios, {each.name: (0.5, 0.1) for each in mine})
    theirs = {(p.namespace, p.name): PodUsage((1500.0,), (0.1 * GIB,)) for p in strangers}
    used = msgspec.structs.replace(used, pods={**used.pods, **theirs})
    owners = [workload(p.name, 40, p.namespace) for p in strangers[:workloads]]
    pods = [*strangers, *mine, *bystanders]
    seen = snapshot([node(name) for name in names], pods, used, [workload("web", 20), *owners])
    cluster = msgspec.structs.replace(seen.cluster, namespaces=labels or {})
    return planned(msgspec.structs.replace(seen, cluster=cluster), by)


def running(number: int, namespace: str = EVIL, **fields: Any) -> Pod:
    name = f"evil{number}"
    return pod(name, on=f"n{number % 4:02}", of=name, namespace=namespace, **fields)


@pytest.fixture
def small_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "NAMESPACE_SHARE", 20_000)


@pytest.mark.usefixtures("small_share")
def test_a_namespace_whose_pods_take_long_to_plan_for_is_refused_and_the_others_are_not() -> None:
    strangers = [running(i, scheduling=apart(i, 64)) for i in range(8)]
    plan = plan_beside(*strangers, workloads=8)
    of_stranger = {name: why for name, why in reasons(plan).items() if name.startswith("evil")}
    assert evicted(plan) == ["mine0", "mine1", "mine2", "mine3"]
    assert of_stranger
    assert set(of_stranger.values()) == {"planning_share_used"}
    assert not plan.hold


@pytest.mark.usefixtures("small_share")
def test_namespaces_of_one_owner_have_one_share() -> None:
    """If the policy names the label with the owner; else each namespace has its own."""
    strangers = [running(i, f"{EVIL}{i}", scheduling=apart(i, 16)) for i in range(8)]
    labels = {each.namespace: {"team": "evil"} for each in strangers}
    by = policy(follow_up=FollowUpRules(pause_owner_label="team"))
    alone = plan_beside(*strangers, workloads=8, labels=labels)
    together = plan_beside(*strangers, workloads=8, labels=labels, by=by)
    assert "planning_share_used" not in reasons(alone).values()
    assert "planning_share_used" in reasons(together).values()
    assert (len(together.evictions), together.hold) == (4, None)


@pytest.mark.usefixtures("small_share")
def test_pending_pods_that_take_long_to_plan_for_reserve_nothing() -> None:
    waiting = [
        pod(
            f"wait{i}",
            of=None,
            namespace=EVIL,
            phase="Pending",
            ready=False,
            request=amounts(0.01),
            scheduling=apart(i, 64),
        )
        for i in range(8)
    ]
    plan = plan_beside(*waiting)
    refused = {(each.namespace, each.reason.value) for each in plan.unreserved}
    assert (EVIL, "planning_share") in refused
    assert evicted(plan) == ["mine0", "mine1", "mine2", "mine3"]


@pytest.mark.parametrize("affinity", [on_nodes, preferring])
def test_a_requirement_for_nodes_is_evaluated_once_and_not_for_each_node(
    affinity: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluations, terms, matches = 0, 100, Requirement.matches

    def counted(self: Requirement, labels: Any) -> bool:
        nonlocal evaluations
        evaluations += self.key.startswith("k")
        return matches(self, labels)

    monkeypatch.setattr(Requirement, "matches", counted)
    same = affinity(0, terms)
    plan = plan_beside(*(running(i, scheduling=same) for i in range(8)), workloads=8)
    assert evicted(plan)
    assert terms <= evaluations <= 2 * terms
