"""The formulas against values worked out by hand; what follows from them is in the contract."""

from datetime import UTC, datetime

import pytest

from desched.model.cluster import (
    ClusterState,
    Effect,
    Node,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodVolume,
    SchedulingClass,
    Service,
    Taint,
    Toleration,
    VolumeKind,
)
from desched.model.resources import Amounts
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.simulation.scheduler import choose_node, fits, score_nodes

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 1024**3
WEB = Owner("ReplicaSet", "web-rs", "rs-1")


def node(name: str, **fields: object) -> Node:
    size = Amounts(cpu_millicores=4000, memory_bytes=16 * GIB, pods=10)
    labels = {"kubernetes.io/hostname": name}
    fields = {"labels": labels, "capacity": size, "allocatable": size} | fields
    return Node(name=name, uid=name, created_at=BEGIN, **fields)


def pod(name: str = "new", on: str = "", **fields: object) -> Pod:
    requests = Amounts(cpu_millicores=1000, memory_bytes=4 * GIB, pods=1)
    fields = {"scheduling": SchedulingClass(requests)} | fields
    return Pod(namespace="n", name=name, uid=name, created_at=BEGIN, node=on, **fields)


def cluster(*nodes: Node, pods: tuple[Pod, ...] = (), **fields: object) -> ClusterState:
    return ClusterState(nodes=nodes, pods=pods, **fields)


# 3 times taints and 2 times spread, each 100 if no node is worse than another; to this come the
# free share after placing the pod, and balance.
EVEN = 3 * 100 + 2 * 100

# A sibling without requests counts as 100 millicores and 200 MiB: (72 + 73) // 2 free, not 75.
SIBLINGS_DEFAULTS = 3


def test_an_empty_node_is_scored_by_what_the_pod_leaves_free() -> None:
    # 1 of 4 cores and 4 of 16 GiB: 75 free; the shares stay equal, so balance is 50 + 50/2.
    assert score_nodes(pod(), cluster(node("a"))) == {"a": EVEN + 75 + 75}


def test_a_pod_that_unbalances_a_node_scores_less_there() -> None:
    # Shares 0.25 and 0: standard deviation 0.125, balance 87 after 100: 50 + int((50 - 13) / 2).
    only_cpu = pod(scheduling=SchedulingClass(Amounts(cpu_millicores=1000, pods=1)))
    # The unset memory request counts as 200 MiB where free space is scored: 98 of 100 free.
    assert score_nodes(only_cpu, cluster(node("a"))) == {"a": EVEN + (75 + 98) // 2 + 68}


def test_a_pod_without_requests_skips_balance_and_counts_with_defaults() -> None:
    # 100 of 4000 millicores: 97; 200 MiB of 16 GiB: 98.
    bare = pod(scheduling=SchedulingClass(Amounts(pods=1)))
    assert score_nodes(bare, cluster(node("a"))) == {"a": EVEN + (97 + 98) // 2}


def test_siblings_on_a_node_cost_spread() -> None:
    # Two nodes: a has one sibling, round(ln 4 + 2) = 3; b none, 2. Of 3 + 2 - 3 = 2 in 3: 66.
    sibling = pod("old", on="a", owner=WEB, scheduling=SchedulingClass(Amounts()))
    state = cluster(node("a"), node("b"), pods=(sibling,))
    scores = score_nodes(pod(owner=WEB), state)
    assert scores["b"] - scores["a"] == 2 * (100 - 66) + SIBLINGS_DEFAULTS


def test_a_terminating_sibling_no_longer_costs_spread() -> None:
    sibling = pod("old", on="a", owner=WEB, deleting=True, scheduling=SchedulingClass(Amounts()))
    scores = score_nodes(pod(owner=WEB), cluster(node("a"), node("b"), pods=(sibling,)))
    assert scores["b"] - scores["a"] == SIBLINGS_DEFAULTS


def test_without_an_owner_the_service_alone_says_who_is_a_sibling() -> None:
    other = pod(
        "old", on="a", labels={"app": "web"}, owner=WEB, scheduling=SchedulingClass(Amounts())
    )
    state = cluster(
        node("a"), node("b"), pods=(other,), services=(Service("n", "web", {"app": "web"}),)
    )
    scores = score_nodes(pod(labels={"app": "web"}), state)
    assert scores["b"] - scores["a"] == 2 * (100 - 66) + SIBLINGS_DEFAULTS


def test_soft_taints_are_weighed_against_the_node_with_most() -> None:
    soft = [Taint(key, Effect.PREFER_NO_SCHEDULE) for key in ("x", "y")]
    state = cluster(node("a"), node("b", taints=(soft[0],)), node("c", taints=tuple(soft)))
    scores = score_nodes(pod(), state)
    assert scores["a"] - scores["b"] == 3 * 50
    assert scores["a"] - scores["c"] == 3 * 100


def test_equal_nodes_are_decided_by_name() -> None:
    assert choose_node(pod(), cluster(node("b"), node("a"))) == "a"


def test_without_a_fitting_node_there_is_none() -> None:
    assert choose_node(pod(), cluster()) is None


HARD = Taint("k", Effect.NO_SCHEDULE, "v")
EAST = NodeSelectorTerm((Requirement("zone", Operator.IN, ("east",)),))
WANTS_EAST = SchedulingClass(Amounts(), required_node_affinity=(EAST,))


@pytest.mark.parametrize(
    ("candidate", "place", "expected"),
    [
        (pod(), node("a"), True),
        (pod(), node("a", ready=False), False),
        (pod(), node("a", unschedulable=True), False),
        (pod(gated=True), node("a"), False),
        (pod(), node("a", taints=(HARD,)), False),
        (
            pod(scheduling=SchedulingClass(Amounts(), tolerations=(Toleration("k", "Exists"),))),
            node("a", taints=(HARD,)),
            True,
        ),
        (
            pod(scheduling=SchedulingClass(Amounts(), node_selector=(("zone", "east"),))),
            node("a"),
            False,
        ),
        (pod(scheduling=WANTS_EAST), node("a", labels={"zone": "west"}), False),
        (pod(scheduling=WANTS_EAST), node("a", labels={"zone": "east"}), True),
        (
            pod(scheduling=SchedulingClass(Amounts(), required_node_affinity=())),
            node("a"),
            False,
        ),
        (pod(), node("a", allocatable=Amounts(3000, 4 * GIB, pods=1)), True),
        (pod(), node("a", allocatable=Amounts(999, 4 * GIB, pods=1)), False),
        (pod(), node("a", allocatable=Amounts(3000, 4 * GIB - 1, pods=1)), False),
        (pod(), node("a", allocatable=Amounts(3000, 4 * GIB, pods=0)), False),
        (
            pod(scheduling=SchedulingClass(Amounts(extended=(("example.com/gpu", 1),)))),
            node("a"),
            False,
        ),
    ],
)
def test_filters_keep_a_pod_from_a_node(candidate: Pod, place: Node, *, expected: bool) -> None:
    assert fits(candidate, place, cluster(place)) is expected


def test_what_is_bound_and_not_finished_takes_room() -> None:
    small = node("a", allocatable=Amounts(1500, 16 * GIB, pods=10))
    running, ended = pod("old", on="a"), pod("old", on="a", phase="Succeeded")
    assert not fits(pod(), small, cluster(small, pods=(running,)))
    assert fits(pod(), small, cluster(small, pods=(ended,)))


def test_a_volume_ties_its_pod_to_the_nodes_that_reach_it() -> None:
    state = cluster(
        node("a", labels={"zone": "west"}),
        node("b", labels={"zone": "east"}),
        claims={("n", "data"): PersistentVolumeClaim("n", "data", volume="pv")},
        volumes={"pv": PersistentVolume("pv", node_affinity=(EAST,))},
    )
    tied = pod(volumes=(PodVolume(VolumeKind.CLAIM, "data"),))
    assert set(score_nodes(tied, state)) == {"b"}
