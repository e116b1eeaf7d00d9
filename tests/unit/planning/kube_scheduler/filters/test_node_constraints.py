"""On which nodes a pod fits."""

from typing import Any

import msgspec
import pytest

from desched.model.cluster import (
    ClusterState,
    HostPort,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodVolume,
    Taint,
    Toleration,
    VolumeKind,
)
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from tests.builders import amounts, free_capacity, node, pod, selector
from tests.schedulable import planned_for, schedulable

ZONE = "topology.kubernetes.io/zone"


def destinations(one: Pod, *nodes: Any, **cluster: Any) -> list[str]:
    """Where the pod is schedulable by the scheduler's rules."""
    pods = cluster.pop("pods", ())
    return schedulable(one, ClusterState(tuple(nodes), (one, *pods), **cluster))


def term(*requirements: Requirement) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm(requirements),)


def test_every_requested_resource_must_be_free() -> None:
    gpu = msgspec.structs.replace(amounts(4, 16, **{"nvidia.com/gpu": 2}), pods=110)
    nodes = [
        node("plain"),
        node("gpu", allocatable=gpu),
        node("full", allocatable=gpu),
        node("few-pods", allocatable=msgspec.structs.replace(gpu, pods=0)),
    ]
    taken = pod("taken", on="full", request=amounts(1, 1, **{"nvidia.com/gpu": 1}))
    one = pod("p", request=amounts(1, 1, **{"nvidia.com/gpu": 2}))
    assert destinations(one, *nodes, pods=[taken]) == ["gpu"]


def test_room_is_what_running_pods_leave_and_ended_ones_leave_all() -> None:
    filler = pod("filler", on="a", request=amounts(3.5))
    ended = pod("ended", on="b", request=amounts(3.5), phase="Succeeded")
    assert destinations(
        pod("p", request=amounts(1)), node("a"), node("b"), pods=[filler, ended]
    ) == ["b"]


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ((), ["free"]),
        ((Toleration(operator="Exists"),), ["free", "tainted"]),
        ((Toleration("team", "Equal", "a", "NoSchedule"),), ["free", "tainted"]),
        ((Toleration("team", "Equal", "b"),), ["free"]),
        ((Toleration("team", "Equal", "a", "NoExecute"),), ["free"]),
        ((Toleration("team", "Exists"),), ["free", "tainted"]),
        ((Toleration("team", "Gt", "1"),), ["free"]),
    ],
)
def test_hard_taints_keep_away_who_does_not_tolerate_them(
    tolerations: tuple[Toleration, ...], fits: list[str]
) -> None:
    one = pod("p", scheduling={"tolerations": tolerations})
    tainted = node("tainted", taints=(Taint("team", "NoSchedule", "a"),))
    assert destinations(one, node("free"), tainted) == fits


def test_a_soft_taint_forbids_nothing() -> None:
    assert destinations(pod("p"), node("soft", taints=(Taint("x", "PreferNoSchedule"),))) == [
        "soft"
    ]


@pytest.mark.parametrize(
    ("scheduling", "fits"),
    [
        ({"node_selector": ((ZONE, "a"),)}, ["a"]),
        ({"required_node_affinity": term(Requirement(ZONE, Operator.NOT_IN, ("a",)))}, ["b", "c"]),
        ({"required_node_affinity": term(Requirement(ZONE, Operator.EXISTS))}, ["a", "b"]),
        ({"required_node_affinity": term(Requirement("cores", Operator.GREATER, ("3",)))}, ["a"]),
        ({"required_node_affinity": term(Requirement("cores", Operator.LESS, ("4",)))}, []),
        ({"required_node_affinity": ()}, []),
        ({"required_node_affinity": (NodeSelectorTerm(),)}, []),
        (
            {
                "required_node_affinity": (
                    NodeSelectorTerm((), (Requirement("metadata.name", Operator.IN, ("c",)),)),
                )
            },
            ["c"],
        ),
    ],
)
def test_selectors_and_required_affinity_are_the_schedulers(
    scheduling: dict[str, Any], fits: list[str]
) -> None:
    nodes = [node("a", labels={ZONE: "a", "cores": "4"}), node("b", labels={ZONE: "b"}), node("c")]
    assert destinations(pod("p", scheduling=scheduling), *nodes) == fits


def test_a_volume_is_reached_only_from_where_it_is() -> None:
    one = pod("p", volumes=(PodVolume(VolumeKind.CLAIM, "data"),))
    nodes = [node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"})]
    claims = {("apps", "data"): PersistentVolumeClaim("apps", "data", "fast", "pv")}
    zonal = PersistentVolume("pv", node_affinity=term(Requirement(ZONE, Operator.IN, ("b",))))
    assert destinations(one, *nodes, claims=claims, volumes={"pv": zonal}) == ["b"]
    assert destinations(one, *nodes, claims=claims, volumes={"pv": PersistentVolume("pv")}) == [
        "a",
        "b",
    ]
    assert planned_for(one, ClusterState(tuple(nodes), (), claims=claims)) == []
    assert planned_for(one, ClusterState(tuple(nodes), ())) == []


def test_a_cordoned_node_takes_only_who_tolerates_the_cordon() -> None:
    cordoned = node("closed", unschedulable=True)
    assert destinations(pod("p"), cordoned) == []
    toleration = Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule")
    assert destinations(pod("p", scheduling={"tolerations": (toleration,)}), cordoned) == ["closed"]


@pytest.mark.parametrize("fields", [{"ready": False}, {"deleting": True}])
def test_only_taints_tell_the_scheduler_that_a_node_is_failing(fields: dict[str, bool]) -> None:
    assert planned_for(pod("p"), ClusterState((node("failing", **fields),), ())) == ["failing"]


def explained(one: Pod, *nodes: Node, pods: tuple[Pod, ...] = (), **cluster: Any) -> str:
    free = free_capacity(ClusterState(nodes, (one, *pods), **cluster))
    return free.fit(one, one.node, {}).explanation


def test_a_refusal_counts_nodes_by_the_first_filter_that_fails() -> None:
    alone = PodAffinityTerm("kubernetes.io/hostname", selector(app="web"))
    scheduling = {
        "pod_anti_affinity": (alone,),
        "host_ports": (HostPort(80),),
        "node_selector": (("disk", "ssd"),),
    }
    one = pod("p", on="source", request=amounts(2, 1), scheduling=scheduling)
    ssd: dict[str, Any] = {"labels": {"disk": "ssd", "kubernetes.io/hostname": "h"}}
    nodes = [
        node("cordoned", unschedulable=True, taints=(Taint("db", "NoSchedule", "x"),)),
        node("tainted-1", taints=(Taint("db", "NoSchedule", "x"), Taint("more", "NoExecute"))),
        node("tainted-2", taints=(Taint("db", "NoSchedule", "x"),)),
        node("tainted-3", taints=(Taint("gone", "NoExecute"),)),
        node("other-disk"),
        node("port-taken", **ssd),
        node("small", cpu=1, memory_gib=0.5, **ssd),
        node("sibling", labels={"disk": "ssd", "kubernetes.io/hostname": "sibling"}),
        node("source", labels={"disk": "ssd", "kubernetes.io/hostname": "source"}),
    ]
    holder = pod("holder", on="port-taken", of="x", scheduling={"host_ports": (HostPort(80),)})
    sibling = pod("q", on="sibling")
    assert explained(one, *nodes, pods=(holder, sibling)) == (
        "0/9 nodes are available: "
        "2 nodes had untolerated taint {db: x}, "
        "1 Insufficient cpu, "
        "1 Insufficient memory, "
        "1 node didn't have free ports for the requested pod ports, "
        "1 node didn't match Pod's node affinity/selector, "
        "1 node didn't match pod anti-affinity rules, "
        "1 node had untolerated taint {gone}, "
        "1 node is the one to be relieved, "
        "1 node was unschedulable"
    )


def test_where_the_scheduler_would_let_it_in_the_refusal_is_desched_own() -> None:
    assert explained(pod("p", on="a"), node("a"), node("b"), node("c")) == (
        "0/3 nodes are available: 2 nodes are no destination, 1 node is the one to be relieved"
    )


def test_an_explanation_is_of_now_and_not_of_before_a_reservation() -> None:
    one = pod("p", on="a", request=amounts(3))
    free = free_capacity(ClusterState((node("a"), node("b")), (one,)))
    assert "1 node is no destination" in free.fit(one, "a", {}).explanation
    trial = free.copy()
    trial.reserve("b", pod("q", request=amounts(3)), {})
    assert trial.fit(one, "a", {}).explanation == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node is the one to be relieved"
    )
    assert "Insufficient" not in free.fit(one, "a", {}).explanation


def test_a_pod_that_leaves_frees_its_requests() -> None:
    one, other = pod("p", on="a", request=amounts(4)), pod("q", on="b", request=amounts(3))
    free = free_capacity(ClusterState((node("a"), node("b"), node("c")), (one, other)))
    assert free.feasible(one, "a").tolist() == [True, False, True]
    assert free.feasible_beside(one, "a").tolist() == [False, False, True]
    free.reserve("c", one, {}, leaving=one)
    assert free.feasible(other, "b").tolist() == [True, True, False]
    assert [(c.pod.name, c.position, c.sign) for c in free.changes] == [("p", 0, -1), ("p", 2, 1)]


def test_a_pod_with_scheduling_gates_goes_nowhere() -> None:
    assert destinations(pod("p", gated=True), node("a")) == []
