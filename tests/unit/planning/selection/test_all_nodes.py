"""The moves of several overloaded nodes that compete for limits and destinations."""

import msgspec

from desched.model.cluster import Pod
from desched.model.snapshot import Snapshot
from desched.planning.eligibility.annotations import PREFER_NO_EVICTION_ANNOTATION
from tests.builders import (
    budget,
    evicted,
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


def two_hot_nodes(pods: list[Pod], cores: dict[str, float], **cool: float) -> Snapshot:
    """`hot1` is hotter than `hot2`; the cool nodes have these loads."""
    nodes = [node("hot1"), node("hot2"), *(node(name) for name in cool)]
    loads = {"hot1": (0.9, 0.1), "hot2": (0.88, 0.1), **{n: (c, 0.1) for n, c in cool.items()}}
    owners = [workload(name, 10) for name in ("web", "shared", "own")]
    return snapshot(nodes, pods, load(loads, {n: (c, 0.1) for n, c in cores.items()}), owners)


def test_a_cooler_node_does_not_take_the_last_evictions_of_the_cycle() -> None:
    pods = [pod(f"{n}{i}", on=f"hot{n}") for n in (1, 2) for i in range(3)]
    seen = two_hot_nodes(pods, {p.name: 0.25 for p in pods}, cool=0.1)
    plan = planned(seen, policy(limits=no_limits_but(total=2, node=None)))
    assert evicted(plan) == ["10", "11"]
    assert {r for name, r in reasons(plan).items() if name.startswith("2")} == {"limit_total"}


def test_a_budget_shared_by_two_nodes_is_not_overdrawn() -> None:
    pods = [pod("a1", on="hot1"), pod("a2", on="hot2")]
    seen = two_hot_nodes(pods, {"a1": 0.7, "a2": 0.7}, cool=0.1)
    loaded = msgspec.structs.replace(seen.cluster, budgets=(budget("one", 1, app="web"),))
    plan = planned(msgspec.structs.replace(seen, cluster=loaded))
    assert evicted(plan) == ["a1"]
    assert reasons(plan) == {"a2": "budget_exhausted"}


def test_where_memory_and_cpu_are_both_too_high_both_are_relieved() -> None:
    usage = {"cpu": (1.0, 0.1), "memory": (0.1, 4.0)}
    seen = snapshot(
        [node("hot"), node("cool")],
        [pod(name, on="hot") for name in usage],
        load({"hot": (0.95, 0.98), "cool": (0.1, 0.1)}, usage),
    )
    assert sorted(evicted(planned(seen))) == ["cpu", "memory"]


# --- what moves cost -----------------------------------------------------------------------------


def full_node(**cores: float) -> Snapshot:
    """`hot` at 95 % with pods of one workload, and `dear`, which prefers to stay."""
    pods = [pod(name, on="hot", of="web") for name in cores if name != "dear"]
    prefers = {PREFER_NO_EVICTION_ANNOTATION: "true"}
    pods.append(pod("dear", on="hot", of="own", annotations=prefers))
    used = {name: (amount, 0.1) for name, amount in cores.items()}
    loads = load({"hot": (0.95, 0.1), "cool": (0.1, 0.1)}, used)
    owners = [workload("web", 20), workload("own", 20)]
    return snapshot([node("hot"), node("cool", cpu=32)], pods, loads, owners)


ONE_AT_A_TIME = policy(limits=no_limits_but(workload=1, in_flight_workload=1))


def test_a_dear_pod_moves_if_cheaper_ones_cannot_relieve_the_node() -> None:
    plan = planned(full_node(a=0.2, dear=0.9), ONE_AT_A_TIME)
    assert evicted(plan) == ["dear"]


def test_a_dear_pod_moves_if_that_saves_more_for_its_cost() -> None:
    """One eviction of 3.3 instead of two of 1.3, which would save a fifth of it at first."""
    plan = planned(full_node(a=0.5, b=0.5, dear=0.9))
    assert evicted(plan) == ["dear"]
    assert reasons(plan) == {"a": "not_needed", "b": "not_needed"}


def test_a_dear_pod_stays_if_a_cheaper_one_relieves_the_node() -> None:
    plan = planned(full_node(a=0.9, dear=0.9))
    assert evicted(plan) == ["a"]
    assert reasons(plan) == {"dear": "not_needed"}
