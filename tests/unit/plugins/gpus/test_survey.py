import pytest
from msgspec.structs import replace

from desched.model.cluster import ClusterState, Node, Owner, Pod, Taint
from desched.model.load import Level, Measured
from desched.network.objects import HyperNode, NetworkObjects
from desched.plugins.gpus.facts import GpusLeftOut
from desched.plugins.gpus.load import GpuLoad
from desched.plugins.gpus.survey import survey
from desched.snapshot_file.redaction import labels_read
from tests.builders import amounts, context_of, load, node, pod, policy, snapshot
from tests.unit.plugins.gpus.gpu_cluster import GPU, gpu_node, gpu_pod, surveyed

RACK = "topology.kubernetes.io/rack"
BLOCK = "cloud.google.com/gce-topology-block"


def test_a_cluster_without_gpus_has_no_survey() -> None:
    assert survey(context_of(ClusterState((node("a"),), (pod("p", on="a"),)))) is None


def test_eight_small_jobs_leave_most_gpus_idle_and_no_place_for_a_large_one() -> None:
    nodes = [gpu_node(f"g{i}") for i in range(8)]
    found = surveyed([*nodes, node("plain")], [gpu_pod(f"p{i}", on=f"g{i}") for i in range(8)])
    assert (found.gpus, found.idle) == (64, 56)
    assert found.places == {1: 56, 2: 24, 4: 8, 8: 0}
    assert [each.node for each in found.nodes] == [f"g{i}" for i in range(8)]
    assert found.nodes[0].places == {1: 7, 2: 3, 4: 1, 8: 0}


def test_a_place_has_gpus_of_one_kind() -> None:
    mixed = gpu_node("g", allocatable=amounts(64, 256, **{GPU: 1, "amd.com/gpu": 3}))
    assert surveyed([mixed]).places == {1: 4, 2: 1, 4: 0, 8: 0}


def test_places_do_not_count_cpu() -> None:
    busy = pod("cpu", on="g", request=amounts(64, 1))
    assert surveyed([gpu_node("g")], [busy]).places[8] == 1


def test_gpus_that_pods_hold_until_they_are_gone_are_not_idle() -> None:
    pods = [
        gpu_pod("leaving", on="g", gpus=2, deleting=True),
        gpu_pod("over", on="g", gpus=4, phase="Succeeded"),
    ]
    assert surveyed([gpu_node("g")], pods).idle == 6


@pytest.mark.parametrize(
    "closed", [{"unschedulable": True}, {"ready": False}, {"deleting": True}], ids=str
)
def test_idle_gpus_of_a_node_that_takes_no_pods_do_not_count(closed: dict[str, bool]) -> None:
    found = surveyed([gpu_node("open"), gpu_node("shut", **closed)])
    assert (found.gpus, found.idle, found.places[8]) == (8, 8, 1)
    assert found.nodes[1].left_out is GpusLeftOut.CLOSED


SHARED = {
    "parts": gpu_node("g", allocatable=amounts(64, 256, **{GPU: 8, "volcano.sh/vgpu-number": 80})),
    "parts only": gpu_node("g", allocatable=amounts(64, 256, **{"volcano.sh/vgpu-memory": 80})),
    "time slices": gpu_node("g", labels={"nvidia.com/gpu.sharing-strategy": "time-slicing"}),
}


@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
def test_a_node_that_shares_gpus_is_left_out(shared: Node) -> None:
    found = surveyed([shared, gpu_node("whole")])
    assert [each.left_out for each in found.nodes] == [GpusLeftOut.SHARED, None]
    assert (found.gpus, found.idle) == (8, 8)


@pytest.mark.parametrize(
    "part",
    [
        gpu_pod("p", on="g", gpus=0, annotations={"gpu-fraction": "0.5"}),
        pod("p", on="g", request=amounts(1, 1, **{GPU: 1, "nvidia.com/gpumem": 4000})),
    ],
    ids=["KAI", "HAMi"],
)
def test_a_node_whose_pods_have_parts_of_gpus_is_left_out(part: Pod) -> None:
    assert surveyed([gpu_node("g")], [part]).nodes[0].left_out is GpusLeftOut.SHARED


@pytest.mark.parametrize(("measured", "left_out"), [(2, GpusLeftOut.SHARED), (8, None)])
def test_a_node_that_offers_more_gpus_than_are_measured_is_left_out(
    measured: int, left_out: GpusLeftOut | None
) -> None:
    seen = snapshot([gpu_node("g")], [], load({}))
    loads = {"g": Measured((Level(300, 0.5),), devices=measured)}
    context = context_of(seen.cluster)
    load_of = replace(seen.load, extras=GpuLoad(loads).extras)
    book = replace(context.book, snapshot=replace(seen, load=load_of))
    found = survey(replace(context, book=book))
    assert found is not None
    assert found.nodes[0].left_out is left_out


def test_a_snapshot_keeps_the_label_of_shared_gpus() -> None:
    found = labels_read(ClusterState((), ()), policy())
    assert "nvidia.com/gpu.sharing-strategy" in found.nodes


def test_gpus_are_counted_for_each_domain_of_the_network() -> None:
    where = {"g1": ("b1", "r1"), "g2": ("b1", "r1"), "g3": ("b2", "r1")}
    nodes = [gpu_node(n, labels={BLOCK: b, RACK: r}) for n, (b, r) in where.items()]
    pods = [gpu_pod("p", on="g1", gpus=5)]
    found = {(d.level, d.domain): d for d in surveyed(nodes, pods).domains}
    assert {key: (d.nodes, d.gpus, d.idle) for key, d in found.items()} == {
        (BLOCK, "b1"): (2, 16, 11),
        (BLOCK, "b2"): (1, 8, 8),
        (RACK, "b1/r1"): (2, 16, 11),
        (RACK, "b2/r1"): (1, 8, 8),
    }
    assert found[RACK, "b1/r1"].places == {1: 11, 2: 5, 4: 2, 8: 1}
    narrowest = [each.domain for each in surveyed(nodes, pods).nodes]
    assert narrowest == [f"{RACK}=b1/r1", f"{RACK}=b1/r1", f"{RACK}=b2/r1"]


def test_gpus_are_counted_for_hyper_nodes_and_for_groups_of_nodes() -> None:
    nodes = [gpu_node("g1", labels={"nvidia.com/gpu.clique": "7"}), gpu_node("g2", labels={})]
    tree = (HyperNode("s0", 1, "", ("g1",), ()), HyperNode("s1", 1, "", ("g2",), ()))
    found = surveyed(nodes, [gpu_pod("p", on="g1")], extras=NetworkObjects(tree).extras)
    assert {(d.level, d.domain, d.idle) for d in found.domains} == {
        ("topology.volcano.sh/tier-1", "s0", 7),
        ("topology.volcano.sh/tier-1", "s1", 8),
        ("nvidia.com/gpu.clique", "7", 7),
    }


def test_a_node_that_is_left_out_counts_in_no_domain() -> None:
    nodes = [
        gpu_node("g1", labels={RACK: "r"}),
        gpu_node("g2", labels={RACK: "r"}, ready=False),
        gpu_node("g3", labels={RACK: "other"}, ready=False),
    ]
    (rack,) = surveyed(nodes).domains
    assert (rack.nodes, rack.idle) == (1, 8)


# Fragmentation


def test_idle_gpus_that_no_pod_of_the_cluster_could_use_are_fragmented() -> None:
    """On g1 stays one of eight; each pod of the cluster has four."""
    pods = [gpu_pod("a", on="g1", gpus=4), gpu_pod("b", on="g1", gpus=4)]
    found = surveyed([gpu_node("g1", gpus=9), gpu_node("g2", gpus=4)], pods)
    assert [each.fragmented for each in found.nodes] == [1.0, 0.0]
    assert found.fragmented == 1.0


def test_gpus_beside_too_little_cpu_are_fragmented() -> None:
    pods = [gpu_pod("a", on="g", cpu=40), gpu_pod("b", on="g", cpu=0)]
    (found,) = surveyed([gpu_node("g", cpu=64)], pods).nodes
    assert found.idle == 6
    assert found.fragmented == pytest.approx(3.0)  # half of the pods fit


def test_gpus_behind_a_taint_are_fragmented_for_pods_that_do_not_tolerate_it() -> None:
    tainted = gpu_node("g2", taints=(Taint("other", "NoSchedule"),))
    found = surveyed([gpu_node("g1"), tainted], [gpu_pod("p", on="g1")])
    assert [each.fragmented for each in found.nodes] == [0.0, 8.0]


def test_pods_without_gpus_use_none() -> None:
    pods = [gpu_pod("a", on="g"), gpu_pod("b", on="g", gpus=0)]
    assert surveyed([gpu_node("g")], pods).fragmented == pytest.approx(3.5)


def test_pods_of_daemon_sets_do_not_count() -> None:
    agent = gpu_pod("agent", on="g", gpus=0, owner=Owner("DaemonSet", "agent", "uid-agent"))
    assert surveyed([gpu_node("g")], [gpu_pod("a", on="g"), agent]).fragmented == 0.0


def test_pods_that_wait_for_gpus_count() -> None:
    waiting = gpu_pod("large", gpus=8, phase="Pending")
    (found,) = surveyed([gpu_node("g")], [gpu_pod("a", on="g"), waiting]).nodes
    assert found.fragmented == pytest.approx(3.5)  # of 7 idle GPUs, for half of the pods
