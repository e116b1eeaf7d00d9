"""On which nodes a pod fits."""

import msgspec
import pytest

from desched.model.cluster import (
    ClusterState,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodVolume,
    Taint,
    Toleration,
    VolumeKind,
)
from desched.model.resources import Amounts
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.planning.feasibility import Room
from tests.builders import amounts, node, pod

ZONE = "topology.kubernetes.io/zone"


def places(one: Pod, *nodes: object, **cluster: object) -> list[str]:
    """Where the pod is schedulable by the scheduler's rules."""
    pods = cluster.pop("pods", ())
    state = ClusterState(tuple(nodes), (one, *pods), **cluster)  # type: ignore[arg-type,misc]
    room = Room(state, {}, {})
    return [name for name, fits in zip(room.names, room.schedulable(one), strict=True) if fits]


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
    assert places(one, *nodes, pods=[taken]) == ["gpu"]


def test_room_is_what_running_pods_leave_and_ended_ones_leave_all() -> None:
    filler = pod("filler", on="a", request=amounts(3.5))
    ended = pod("ended", on="b", request=amounts(3.5), phase="Succeeded")
    assert places(pod("p", request=amounts(1)), node("a"), node("b"), pods=[filler, ended]) == ["b"]


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
    assert places(one, node("free"), tainted) == fits


def test_a_soft_taint_forbids_nothing() -> None:
    assert places(pod("p"), node("soft", taints=(Taint("x", "PreferNoSchedule"),))) == ["soft"]


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
    scheduling: dict[str, object], fits: list[str]
) -> None:
    nodes = [node("a", labels={ZONE: "a", "cores": "4"}), node("b", labels={ZONE: "b"}), node("c")]
    assert places(pod("p", scheduling=scheduling), *nodes) == fits


def test_a_volume_is_reached_only_from_where_it_is() -> None:
    one = pod("p", volumes=(PodVolume(VolumeKind.CLAIM, "data"),))
    nodes = [node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"})]
    claims = {("apps", "data"): PersistentVolumeClaim("apps", "data", "fast", "pv")}
    zonal = PersistentVolume("pv", node_affinity=term(Requirement(ZONE, Operator.IN, ("b",))))
    assert places(one, *nodes, claims=claims, volumes={"pv": zonal}) == ["b"]
    assert places(one, *nodes, claims=claims, volumes={"pv": PersistentVolume("pv")}) == ["a", "b"]
    assert places(one, *nodes, claims=claims) == []
    assert places(one, *nodes) == []


@pytest.mark.parametrize("fields", [{"ready": False}, {"unschedulable": True}, {"deleting": True}])
def test_a_closed_node_takes_nobody(fields: dict[str, bool]) -> None:
    assert places(pod("p"), node("closed", **fields)) == []


def test_a_trial_does_not_change_the_room_it_was_made_from() -> None:
    state = ClusterState((node("a"),), ())
    room = Room(state, {}, {})
    trial = room.copy()
    trial.reserve("a", Amounts(cpu_millicores=4000, pods=1), {})
    one = pod("p", request=amounts(1))
    assert not trial.schedulable(one).any()
    assert room.schedulable(one).all()
