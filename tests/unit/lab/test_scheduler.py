"""The formulas against values worked out by hand; what follows from them is in the contract."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from desched.lab.scheduler.choice import NodeSample, choose_node, score_nodes
from desched.lab.scheduler.view import ClusterView
from desched.model.cluster import (
    ClusterState,
    Effect,
    Node,
    Owner,
    Pod,
    PodAffinityTerm,
    SchedulingClass,
    Service,
    SpreadConstraint,
    Taint,
)
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 1024**3
WEB = Owner("ReplicaSet", "web-rs", "rs-1")
APP = {"app": "web"}
IS_WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
SELECTORS = {("n", "rs-1"): IS_WEB}


def node(name: str, **fields: Any) -> Node:
    size = Amounts(cpu_millicores=4000, memory_bytes=16 * GIB, pods=10)
    labels = {"kubernetes.io/hostname": name}
    sizes: dict[str, Any] = {"labels": labels, "capacity": size, "allocatable": size}
    return Node(name=name, uid=name, created_at=BEGIN, **(sizes | fields))


def requesting(
    cpu_millicores: int = 0, memory_bytes: int = 0, **constraints: Any
) -> SchedulingClass:
    """What one container requests; it is scored with defaults for what it does not."""
    return SchedulingClass(
        Amounts(cpu_millicores=cpu_millicores, memory_bytes=memory_bytes, pods=1),
        scored_cpu_millicores=cpu_millicores or 100,
        scored_memory_bytes=memory_bytes or 200 * 1024**2,
        **constraints,
    )


def pod(name: str = "new", on: str = "", **fields: Any) -> Pod:
    fields = {"scheduling": requesting(1000, 4 * GIB)} | fields
    return Pod(namespace="n", name=name, uid=name, created_at=BEGIN, node=on, **fields)


def cluster(*nodes: Node, pods: tuple[Pod, ...] = (), **fields: Any) -> ClusterView:
    return ClusterView(ClusterState(nodes=nodes, pods=pods, **fields))


# 3 times taints, 100 if no node is worse than another; to this come the free share after placing
# the pod, and balance. Nothing is spread without a Service or a controller.
EVEN = 3 * 100

# A sibling without requests counts as 100 millicores and 200 MiB: (72 + 73) // 2 free, not 75.
SIBLINGS_DEFAULTS = 3


def test_an_empty_node_is_scored_by_what_the_pod_leaves_free() -> None:
    # 1 of 4 cores and 4 of 16 GiB: 75 free; the shares stay equal, so balance is 50 + 50/2.
    assert score_nodes(pod(), cluster(node("a"))) == {"a": EVEN + 75 + 75}


def test_a_pod_that_unbalances_a_node_scores_less_there() -> None:
    # Shares 0.25 and 0: standard deviation 0.125, balance 87 after 100: 50 + int((50 - 13) / 2).
    only_cpu = pod(scheduling=requesting(1000))
    # The unset memory request counts as 200 MiB where free space is scored: 98 of 100 free.
    assert score_nodes(only_cpu, cluster(node("a"))) == {"a": EVEN + (75 + 98) // 2 + 68}


def test_a_pod_without_requests_skips_balance_and_counts_with_defaults() -> None:
    # 100 of 4000 millicores: 97; 200 MiB of 16 GiB: 98.
    bare = pod(scheduling=requesting())
    assert score_nodes(bare, cluster(node("a"))) == {"a": EVEN + (97 + 98) // 2}


def test_siblings_on_a_node_cost_spread() -> None:
    # Two nodes: a has one sibling, round(ln 4 + 2) = 3; b none, 2. Of 3 + 2 - 3 = 2 in 3: 66.
    sibling = pod("old", on="a", owner=WEB, labels=APP, scheduling=requesting())
    state = cluster(node("a"), node("b"), pods=(sibling,), controller_selectors=SELECTORS)
    scores = score_nodes(pod(owner=WEB, labels=APP), state)
    assert scores["b"] - scores["a"] == 2 * (100 - 66) + SIBLINGS_DEFAULTS


def test_a_terminating_sibling_no_longer_costs_spread() -> None:
    sibling = pod("old", on="a", owner=WEB, labels=APP, deleting=True, scheduling=requesting())
    state = cluster(node("a"), node("b"), pods=(sibling,), controller_selectors=SELECTORS)
    scores = score_nodes(pod(owner=WEB, labels=APP), state)
    assert scores["b"] - scores["a"] == SIBLINGS_DEFAULTS


def test_without_an_owner_the_service_alone_selects_siblings() -> None:
    other = pod("old", on="a", labels=APP, owner=WEB, scheduling=requesting())
    state = cluster(node("a"), node("b"), pods=(other,), services=(Service("n", "web", APP),))
    scores = score_nodes(pod(labels=APP), state)
    assert scores["b"] - scores["a"] == 2 * (100 - 66) + SIBLINGS_DEFAULTS


def test_soft_taints_are_weighed_against_the_node_with_most() -> None:
    soft = [Taint(key, Effect.PREFER_NO_SCHEDULE) for key in ("x", "y")]
    state = cluster(node("a"), node("b", taints=(soft[0],)), node("c", taints=tuple(soft)))
    scores = score_nodes(pod(), state)
    assert scores["a"] - scores["b"] == 3 * 50
    assert scores["a"] - scores["c"] == 3 * 100


def test_a_node_to_avoid_counts_as_one_with_a_soft_taint() -> None:
    soft = Taint("x", Effect.PREFER_NO_SCHEDULE)
    tainted = cluster(node("a", taints=(soft,)), node("b"), node("c"))
    plain = cluster(node("a"), node("b"), node("c"))
    assert score_nodes(pod(), plain, avoided={"a"}) == score_nodes(pod(), tainted)
    assert choose_node(pod(), plain, avoided={"a"}) == "b"
    assert score_nodes(pod(), tainted, avoided={"a", "b"}) == {
        "a": score_nodes(pod(), plain)["a"] - 3 * 100,
        "b": score_nodes(pod(), plain)["b"] - 3 * 50,
        "c": score_nodes(pod(), plain)["c"],
    }


def test_a_bound_pod_is_scored_as_its_replacement_while_it_terminates() -> None:
    bound, other = (pod(name, on="a", owner=WEB, labels=APP) for name in ("old", "other"))
    leaving = structs.replace(bound, deleting=True)
    before = cluster(node("a"), node("b"), pods=(bound, other), controller_selectors=SELECTORS)
    after = cluster(node("a"), node("b"), pods=(leaving, other), controller_selectors=SELECTORS)
    assert score_nodes(bound, before) == score_nodes(pod(owner=WEB, labels=APP), after)
    assert score_nodes(bound, before) != score_nodes(pod(owner=WEB, labels=APP), before)


def test_equal_nodes_are_decided_by_name() -> None:
    assert choose_node(pod(), cluster(node("b"), node("a"))) == "a"


def test_equal_nodes_of_a_sample_are_decided_by_chance() -> None:
    nodes = cluster(
        node("a"), node("b"), node("c", taints=(Taint("x", Effect.PREFER_NO_SCHEDULE),))
    )
    chosen = [choose_node(pod(f"p{i}"), nodes, sample=NodeSample(1.0)) for i in range(200)]
    assert chosen == [choose_node(pod(f"p{i}"), nodes, sample=NodeSample(1.0)) for i in range(200)]
    assert set(chosen) == {"a", "b"}
    assert 70 < chosen.count("a") < 130
    assert choose_node(pod(), cluster(), sample=NodeSample(1.0)) is None


def test_without_a_fitting_node_there_is_none() -> None:
    assert choose_node(pod(), cluster()) is None


@pytest.mark.parametrize("place", [node("a", ready=False), node("a", unschedulable=True)])
def test_a_node_that_is_not_ready_or_cordoned_gets_no_pod(place: Node) -> None:
    assert choose_node(pod(), cluster(place)) is None


HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def in_zone(name: str, zone: str) -> Node:
    return node(name, labels={HOST: name, ZONE: zone})


ZONES = (in_zone("a", "east"), in_zone("b", "east"), in_zone("c", "west"))


def web(on: str = "", name: str = "", **constraints: Any) -> Pod:
    """A pod of the application, which requests nothing."""
    return pod(name or f"web-{on}", on=on, labels=APP, scheduling=requesting(**constraints))


BY_ZONE = PodAffinityTerm(ZONE, IS_WEB)


def spread(**fields: Any) -> SpreadConstraint:
    usual: dict[str, Any] = {"topology_key": ZONE, "max_skew": 1, "hard": True}
    return SpreadConstraint(**(usual | {"selector": IS_WEB} | fields))


def difference(candidate: Pod, *placed: Pod, nodes: tuple[Node, ...] = ZONES) -> dict[str, int]:
    """How much better each node is than the worst; placed pods request nothing, and weigh 2."""
    scores = score_nodes(candidate, cluster(*nodes, pods=placed))
    return {name: score - min(scores.values()) for name, score in scores.items()}


def test_preferred_nodes_score_by_the_weight_of_what_they_satisfy() -> None:
    terms = tuple(
        (weight, NodeSelectorTerm((Requirement(key, Operator.IN, (value,)),)))
        for weight, key, value in ((30, ZONE, "east"), (10, HOST, "a"), (40, HOST, "nowhere"))
    )
    prefers = web(preferred_node_affinity=terms)
    assert difference(prefers) == {"a": 200, "b": 2 * (100 * 30 // 40), "c": 0}


def test_preferred_pods_draw_near_and_push_away() -> None:
    near = web(preferred_pod_affinity=(PodAffinityTerm(ZONE, IS_WEB, weight=10),))
    away = web(preferred_pod_affinity=(PodAffinityTerm(ZONE, IS_WEB, weight=-10),))
    assert difference(near, web("b"))["a"] == 200
    assert difference(away, web("b"))["c"] - difference(away, web("b"))["a"] == 200


def test_pods_that_are_there_draw_near_whom_they_want() -> None:
    fan = web("c", pod_affinity=(BY_ZONE,))
    foe = web("c", preferred_pod_affinity=(PodAffinityTerm(ZONE, IS_WEB, weight=-1),))
    empty = structs.replace(fan, scheduling=requesting())
    neutral = difference(web(), empty)
    drawn, pushed = difference(web(), fan), difference(web(), foe)
    assert drawn["c"] - drawn["a"] == 200 + neutral["c"] - neutral["a"]
    assert pushed["a"] - pushed["c"] == 200 + neutral["a"] - neutral["c"]


def test_a_soft_spread_of_its_own_takes_the_place_of_the_systems_own() -> None:
    # East has two, west none: round(2 ln 4 + 0) = 3 and 0; 100 * (3 + 0 - 3) // 3 = 0 in the east.
    own = web(spread=(spread(hard=False),))
    placed = (web("a"), web("b"))
    free_of = difference(web(), *placed)  # what the two take of the nodes
    found = difference(own, *placed)
    assert found["c"] - found["a"] == 200 + free_of["c"] - free_of["a"]


def test_a_node_without_the_label_scores_nothing_for_a_soft_spread() -> None:
    own = web(spread=(spread(hard=False),))
    found = difference(own, nodes=(*ZONES, node("d")))
    assert found == {"a": 200, "b": 200, "c": 200, "d": 0}
