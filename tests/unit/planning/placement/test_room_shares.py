"""Pending pods that nobody binds, or far too many, keep no room from the replacements of others."""

from datetime import timedelta
from typing import Any

import pytest

from desched.model.cluster import Pod
from desched.model.plan import Plan
from tests.builders import NOW, amounts, evicted, load, node, planned, pod, reasons, snapshot

MINUTE = timedelta(minutes=1)


def pending(name: str, cores: float = 3.9, **fields: Any) -> Pod:
    """A pod of a stranger that would take all room of the cool node."""
    defaults: dict[str, Any] = {"namespace": "evil", "phase": "Pending", "ready": False}
    return pod(name, of=None, request=amounts(cores), **(defaults | fields))


def plan_with(*others: Pod) -> Plan:
    """A hot node with two movable pods, a cool node, and these pods."""
    mine = [pod(name, on="hot") for name in "ab"]
    used = load({"hot": (0.85, 0.1), "cool": (0.05, 0.1)}, {"a": (1.7, 0.1), "b": (1.7, 0.1)})
    return planned(snapshot([node("hot"), node("cool")], [*mine, *others], used))


def unreserved(plan: Plan) -> list[tuple[str, str, int]]:
    return [(each.namespace, each.reason.value, each.pods) for each in plan.unreserved]


def test_a_pending_pod_reserves_its_room() -> None:
    plan = plan_with(pending("p"))
    assert (evicted(plan), unreserved(plan)) == ([], [])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"scheduler": "nobody"}, "unknown_scheduler"),
        ({"has_resource_claims": True}, "resource_claims"),
        ({"scheduling_group": "training"}, "pod_group"),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "pod_group"),
        ({"unschedulable": True, "created_at": NOW - 11 * MINUTE}, "long_pending"),
        ({"created_at": NOW - 11 * MINUTE}, "long_pending"),
    ],
)
def test_a_pending_pod_that_nobody_binds_reserves_nothing(
    fields: dict[str, Any], reason: str
) -> None:
    plan = plan_with(pending("p", **fields))
    assert (evicted(plan), unreserved(plan)) == (["a"], [("evil", reason, 1)])


def test_a_pending_pod_whose_devices_are_counted_reserves_its_room() -> None:
    plan = plan_with(pending("p", has_resource_claims=True, uncounted_claims=""))
    assert (evicted(plan), unreserved(plan)) == ([], [])


def test_a_pod_is_long_pending_after_ten_minutes() -> None:
    at = NOW - 10 * MINUTE
    assert not evicted(plan_with(pending("p", unschedulable=True, created_at=at)))


@pytest.mark.parametrize(("namespace", "known"), [("evil", False), ("other", True)])
def test_a_scheduler_is_known_by_a_pod_that_it_placed_for_others(
    namespace: str, *, known: bool
) -> None:
    placed = pod("x", on="hot", of=None, namespace=namespace, scheduler="volcano")
    assert bool(evicted(plan_with(pending("p", scheduler="volcano"), placed))) is not known


@pytest.mark.parametrize(
    ("fields", "landings"),
    [
        ({}, ["idle"]),
        ({"created_at": NOW - 11 * MINUTE}, ["idle"]),  # it reserves nothing any more
        ({"created_at": NOW - 11 * MINUTE, "unschedulable": True}, ["cool", "idle"]),
    ],
)
def test_the_scheduler_counts_a_pod_on_the_node_that_it_prepares_for_it(
    fields: dict[str, Any], landings: list[str]
) -> None:
    """As while its volume is provisioned, which may never be. Where it preempts it does not."""
    held = pending("p", cores=1, nominated_node="cool", **fields)
    nodes = [node(name) for name in ("hot", "cool", "idle")]
    ratios = {"hot": (0.85, 0.1), "cool": (0.05, 0.1), "idle": (0.05, 0.1)}
    mine = [pod(name, on="hot", request=amounts(0.5)) for name in "ab"]
    used = load(ratios, {"a": (1.7, 0.1), "b": (1.7, 0.1)})
    (eviction,) = planned(snapshot(nodes, [*mine, held], used)).evictions
    assert [chance.node for chance in eviction.landing] == landings


def test_the_pending_pods_of_a_namespace_reserve_half_of_the_free_room() -> None:
    crowd = [pending(f"p{i}", 0.5) for i in range(20)]
    idle = [pod(f"on-{name}", on=name, of=None, request=amounts(3)) for name in ("hot", "cool")]
    plan = plan_with(*crowd, *idle)  # 1.8 cores are free by requests
    assert unreserved(plan) == [("evil", "namespace_share", 19)]
    spread = [pending(f"p{i}", 0.5, namespace=f"n{i % 4}") for i in range(8)]
    assert unreserved(plan_with(*spread)) == []


def test_the_pending_pods_of_a_namespace_reserve_half_of_the_room_under_the_ceilings() -> None:
    """The room by requests is more than the room by load, as on most clusters."""
    names = [f"n{i}" for i in range(20)]
    crowd = [pending(f"p{i}", 0.9) for i in range(40)]
    mine = [pod(f"mine{i}", on="hot") for i in range(2)]
    ratios = {"hot": (0.85, 0.1)} | dict.fromkeys(names, (0.3, 0.1))
    used = load(ratios, {each.name: (0.7, 0.1) for each in mine})
    plan = planned(snapshot([node("hot"), *map(node, names)], [*mine, *crowd], used))
    assert evicted(plan) == ["mine0"]
    ((namespace, reason, pods),) = unreserved(plan)
    assert (namespace, reason) == ("evil", "namespace_share")
    assert pods > len(crowd) / 2


def test_pods_that_fit_nowhere_wait_within_the_same_share() -> None:
    waiting = [pending(f"w{i}", 5) for i in range(3)]
    assert unreserved(plan_with(*waiting)) == [("evil", "namespace_share", 2)]


def test_small_requests_do_not_hide_a_large_usage() -> None:
    owner = {"of": "loud", "namespace": "apps"}
    running = pod("run", on="cool", **owner)
    tiny = [
        pod(f"p{i}", phase="Pending", ready=False, request=amounts(0.001), **owner)
        for i in range(20)
    ]
    mine = [pod(name, on="hot") for name in "ab"]
    used = load(
        {"hot": (0.85, 0.1), "cool": (0.05, 0.1)},
        {"a": (1.7, 0.1), "b": (1.7, 0.1), "run": (1.0, 0.1)},
    )
    plan = planned(snapshot([node("hot"), node("cool")], [*mine, running, *tiny], used))
    assert unreserved(plan) == [("apps", "namespace_share", 19)]
    assert "cycle_held" not in reasons(plan).values()
