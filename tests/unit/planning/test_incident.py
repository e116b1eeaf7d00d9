"""An incident of nodes, of pods or of the API server holds the cycle until it is over."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.model.cluster import STEERING_TAINT, Node, Owner, Pod, ServerHealth, Taint
from desched.model.plan import HoldReason, Plan
from desched.model.snapshot import Snapshot
from desched.model.state import LastCycle, State
from desched.policy.compatibility import SteeringMode
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import Policy, SteeringRules
from tests.builders import NOW, amounts, evicted, load, node, planned, pod, policy, snapshot

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LATELY: dict[str, Any] = {"ready": False, "troubled_since": NOW - MINUTE}


def cluster(nodes: Sequence[Node] = (), pods: Sequence[Pod] = (), **fields: Any) -> Snapshot:
    """A hot node that one move relieves, a cool one, a cordoned one, and these."""
    fit = {each.name: (0.1, 0.1) for each in nodes if each.ready and not each.taints}
    return snapshot(
        [node("hot"), node("cool"), node("elsewhere", unschedulable=True), *nodes],
        [pod("a", on="hot"), pod("b", on="hot"), *pods],
        load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)} | fit, {"a": (0.8, 0.1), "b": (0.8, 0.1)}),
        **fields,
    )


def of_twenty(count: int, **fields: Any) -> list[Node]:
    """The other 17 nodes, the first of them with these fields."""
    return [node(f"n{i}", **(fields if i < count else {})) for i in range(17)]


def failing(count: int, namespace: str, **fields: Any) -> list[Pod]:
    """Pods of a namespace whose image cannot be pulled since a minute ago."""
    found: dict[str, Any] = {"created_at": NOW - MINUTE, "phase": "Pending", "ready": False}
    found |= {"waiting_for": "ImagePullBackOff", "waiting_since": NOW - MINUTE}
    found |= {"owner": Owner("ReplicaSet", "web-2", "uid-new", "apps/v1")}
    return [
        pod(f"{namespace}-{i}", on="elsewhere", namespace=namespace, **(found | fields))
        for i in range(count)
    ]


def waiting(count: int, namespace: str, minutes: int) -> list[Pod]:
    """Pods that have had no node for as long."""
    created_at = NOW - minutes * MINUTE
    return [
        pod(f"{namespace}-{i}", namespace=namespace, created_at=created_at, request=amounts())
        for i in range(count)
    ]


def ready(count: int, namespace: str = "apps") -> list[Pod]:
    return [pod(f"ready-{i}", on="elsewhere", namespace=namespace) for i in range(count)]


def in_trouble(since: timedelta) -> State:
    last = LastCycle(NOW - MINUTE, "desched-0", "evict", "held", hold="cluster_in_trouble")
    return State(last_cycle=msgspec.structs.replace(last, held_since=NOW - since))


def is_held(plan: Plan) -> bool:
    assert plan.hold in {None, HoldReason.CLUSTER_IN_TROUBLE}
    assert bool(evicted(plan)) == (plan.hold is None)
    return plan.hold is not None


@pytest.mark.parametrize(
    ("count", "held"), [(0, False), (2, False), (3, True), (6, True), (12, True), (15, True)]
)
def test_more_than_a_tenth_of_the_nodes_that_are_not_ready_hold(count: int, *, held: bool) -> None:
    plan = planned(cluster(of_twenty(count, **LATELY)))

    assert is_held(plan) is held
    figures = f"{count} of 20 nodes are in trouble ({count} not ready), at most 2 may be"
    assert plan.hold_detail == (figures if held else "")


@pytest.mark.parametrize(
    "fields",
    [
        {"ready": False},  # since when is not known
        LATELY | {"unschedulable": True},
        {"taints": (Taint("node.kubernetes.io/unreachable", "NoExecute"),)},
        {"taints": (Taint("node.kubernetes.io/disk-pressure", "NoSchedule"),)},
        LATELY | {"taints": (Taint("node.kubernetes.io/out-of-service", "NoExecute"),)},
        LATELY | {"troubled_since": NOW - 23 * HOUR},
    ],
)
def test_these_nodes_are_in_trouble(fields: dict[str, Any]) -> None:
    assert is_held(planned(cluster(of_twenty(3, **fields))))


@pytest.mark.parametrize(
    "fields",
    [
        LATELY | {"troubled_since": NOW - 24 * HOUR},  # an autoscaler forgot it
        LATELY | {"deleting": True},
        LATELY | {"taints": (Taint("ToBeDeletedByClusterAutoscaler", "NoSchedule"),)},
        LATELY | {"created_at": NOW - MINUTE},  # it has not started yet
        LATELY | {"operating_system": "windows"},
        {"unschedulable": True},
    ],
)
def test_these_nodes_are_in_no_trouble(fields: dict[str, Any]) -> None:
    assert not is_held(planned(cluster(of_twenty(15, **fields))))


def test_pods_that_cannot_start_hold_beyond_a_tenth_of_those_that_are_ready() -> None:
    some = [each for name in "xyz" for each in failing(4, name)]

    held = planned(cluster(pods=[*ready(108), *some]))  # with the two others
    assert is_held(held)
    assert held.hold_detail == (
        "12 pods in 3 namespaces or owners cannot start since 11:00 UTC (12 ImagePullBackOff) "
        "beside 110 that are Ready, at most 11 may be"
    )
    assert not is_held(planned(cluster(pods=[*ready(118), *some])))


def test_up_to_five_pods_that_cannot_start_are_no_incident() -> None:
    five = [*failing(2, "x"), *failing(2, "y"), *failing(1, "z")]
    assert not is_held(planned(cluster(pods=five)))
    assert is_held(planned(cluster(pods=[*five, *failing(1, "w")])))


@pytest.mark.parametrize(("minutes", "held"), [(4, False), (5, True), (59, True), (61, False)])
def test_pods_that_wait_for_more_than_five_minutes_count_for_an_hour(
    minutes: int, *, held: bool
) -> None:
    pods = [each for name in "xyz" for each in waiting(10, name, minutes)]
    assert is_held(planned(cluster(pods=pods))) is held


@pytest.mark.parametrize(
    ("hours", "began", "held"),
    [
        (2, 0.5, False),  # when the incident began, the cluster was used to them
        (2, 1.5, True),  # they were part of what held it
        (25, 26, False),  # an incident lasts a day at most
    ],
)
def test_what_began_an_incident_counts_until_it_is_over(
    hours: float, began: float, *, held: bool
) -> None:
    since: dict[str, Any] = {"waiting_since": NOW - hours * HOUR}
    pods = [each for name in "xyz" for each in failing(10, name, **since)]
    assert is_held(planned(cluster(pods=pods), state=in_trouble(began * HOUR))) is held


@pytest.mark.parametrize(
    "fields",
    [
        {"owner": Owner("Job", "night", "uid-night", "batch/v1")},
        {"owner": None},
        {"deleting": True},
        {"phase": "Failed"},
        {"waiting_for": "", "gated": True, "created_at": NOW - 10 * MINUTE},
        {"waiting_since": NOW - 2 * HOUR},
    ],
)
def test_these_pods_are_no_incident(fields: dict[str, Any]) -> None:
    pods = [each for name in "xyz" for each in failing(10, name, **fields)]
    assert not is_held(planned(cluster(pods=pods)))


def owned(*namespaces: str) -> dict[str, dict[str, str]]:
    """Namespaces of one owner."""
    return {name: {"team": "evil"} for name in namespaces}


OWNERS = policy(follow_up=FollowUpRules(pause_owner_label="team"))


@pytest.mark.parametrize(
    ("pods", "by", "held"),
    [
        (failing(500, "x"), policy(), False),
        (failing(500, "x") + failing(500, "y"), policy(), False),
        (failing(500, "x") + failing(500, "y") + failing(1, "z"), policy(), True),
        (failing(500, "x") + failing(500, "y") + failing(500, "z"), OWNERS, False),
        (failing(500, "kube-system"), policy(), True),
    ],
)
def test_no_tenant_holds_the_cycle_alone(pods: Sequence[Pod], by: Policy, *, held: bool) -> None:
    seen = cluster(pods=[*ready(10, "fine"), *pods], namespaces=owned("x", "y", "z"))
    assert is_held(planned(seen, by)) is held


def test_where_all_pods_are_in_one_namespace_it_holds_the_cycle() -> None:
    assert is_held(planned(cluster(pods=failing(10, "apps"))))
    assert not is_held(planned(cluster(pods=[*failing(10, "apps"), *ready(1, "fine")])))


@pytest.mark.parametrize(
    ("health", "why"),
    [
        (ServerHealth(20, 2), ""),
        (
            ServerHealth(20, 3),
            "the API server failed to answer 3 of the latest 20 requests, at most 2 may fail",
        ),
        (ServerHealth(5, 1), ""),
        (ServerHealth(5, 0, 9.0), ""),  # what is usual is not known
        (ServerHealth(5, 0, 0.9, 0.1), ""),
        (ServerHealth(5, 0, 2.0, 0.5), ""),
        (
            ServerHealth(5, 0, 2.0, 0.1),
            "the API server takes 2.0 s to answer, 0.10 s in the hour before",
        ),
    ],
)
def test_an_api_server_that_fails_or_is_slower_than_usual_holds(
    health: ServerHealth, why: str
) -> None:
    plan = planned(cluster(server_health=health))
    assert (is_held(plan), plan.hold_detail) == (bool(why), why)


def test_it_is_held_and_says_so_without_an_overload() -> None:
    calm = snapshot([node("a"), node("b")], [], load({"a": (0.1, 0.1), "b": (0.1, 0.1)}))
    failing_server = msgspec.structs.replace(calm.cluster, server_health=ServerHealth(5, 5))
    plan = planned(msgspec.structs.replace(calm, cluster=failing_server))
    assert plan.hold is HoldReason.CLUSTER_IN_TROUBLE


def test_meanwhile_soft_taints_stay_until_they_expire() -> None:
    kept: dict[str, Any] = {"taints": (STEERING_TAINT,), "steered_until": NOW + 10 * MINUTE}
    over = kept | {"steered_until": NOW}
    nodes = [*of_twenty(0), node("kept", **kept), node("over", **over)]
    steers = policy(steering=SteeringRules(SteeringMode.WHEN_NEEDED))

    calm = planned(cluster(nodes), steers)
    assert {removal.node for removal in calm.removed_taints} == {"kept", "over"}
    trouble = planned(cluster(nodes, server_health=ServerHealth(5, 5)), steers)
    assert {removal.node for removal in trouble.removed_taints} == {"over"}
    assert not trouble.taints
