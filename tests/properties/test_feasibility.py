"""The filters over whole clusters: what holds whatever the pods ask for."""

from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from desched.model.cluster import (
    ClusterState,
    HostPort,
    Node,
    Pod,
    PodAffinityTerm,
    SpreadConstraint,
)
from desched.planning.placement.free_capacity import FreeCapacity
from tests.builders import amounts, free_capacity, node, pod, selector
from tests.schedulable import schedulable

HOST = "kubernetes.io/hostname"
APPS = ("x", "y")
KEYS = (HOST, "zone")

terms = st.builds(
    PodAffinityTerm, st.sampled_from(KEYS), st.sampled_from([selector(app=a) for a in APPS])
)
constraints = st.builds(
    SpreadConstraint,
    st.sampled_from(KEYS),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from([selector(app=a) for a in APPS]),
    st.integers(1, 3),
)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterState:
    nodes = tuple(_node(i, draw(st.sampled_from(("a", "b", None)))) for i in range(4))
    pods = tuple(
        pod(
            f"p{i}",
            on=draw(st.sampled_from(nodes)).name,
            of=draw(st.sampled_from(APPS)),
            request=amounts(draw(st.sampled_from((0.5, 2)))),
            scheduling={
                "pod_affinity": tuple(draw(st.lists(terms, max_size=1))),
                "pod_anti_affinity": tuple(draw(st.lists(terms, max_size=1))),
                "spread": tuple(draw(st.lists(constraints, max_size=2))),
                "host_ports": draw(st.sampled_from(((), (), (HostPort(80),)))),
            },
        )
        for i in range(draw(st.integers(1, 6)))
    )
    return ClusterState(nodes, pods)


def _node(number: int, zone: str | None) -> Node:
    labels = {HOST: f"n{number}"} | ({"zone": zone} if zone else {})
    return node(f"n{number}", labels=labels)


def _names(free: FreeCapacity, one: Pod) -> set[str]:
    destinations = free.feasible(one, one.node)
    return {name for name, fits in zip(free.names, destinations, strict=True) if fits}


@given(clusters())
def test_where_a_pod_can_go_is_where_it_could_go_in_a_cluster_without_it(
    cluster: ClusterState,
) -> None:
    one = cluster.pods[0]
    gone = msgspec.structs.replace(cluster, pods=cluster.pods[1:])
    new = msgspec.structs.replace(one, node="")
    assert _names(free_capacity(cluster), one) == set(schedulable(new, gone))


@given(clusters(), st.integers(0, 3))
def test_reserving_a_move_is_the_same_as_a_cluster_in_which_it_has_happened(
    cluster: ClusterState, target: int
) -> None:
    one, *others = cluster.pods
    free = free_capacity(cluster)
    free.reserve(f"n{target}", one, {}, leaving=one)
    moved = msgspec.structs.replace(one, node=f"n{target}", uid="new")
    happened = free_capacity(msgspec.structs.replace(cluster, pods=(moved, *others)))
    for other in others:
        assert _names(free, other) == _names(happened, other)


@given(clusters(), st.randoms())
def test_the_order_of_nodes_and_pods_changes_nothing(cluster: ClusterState, chance: Random) -> None:
    nodes, pods = list(cluster.nodes), list(cluster.pods)
    chance.shuffle(nodes)
    chance.shuffle(pods)
    shuffled = free_capacity(ClusterState(tuple(nodes), tuple(pods)))
    free = free_capacity(cluster)
    for one in cluster.pods:
        assert _names(free, one) == _names(shuffled, one)
        assert (
            free.fit(one, one.node, {}).explanation == shuffled.fit(one, one.node, {}).explanation
        )
