"""Which nodes are closest to having room for pods that wait for GPUs."""

from collections.abc import Iterable
from typing import Any

import pytest

from desched.model.cluster import Node, Owner, Pod, Taint
from desched.model.state import State
from desched.network.objects import HyperNode, NetworkObjects
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.pod_usage import UsageBook
from desched.plugins.gpus.facts import ClusterGpus, GpuAnswer, GpuWait
from desched.plugins.gpus.plugin import Gpus
from desched.plugins.gpus.survey import survey
from desched.plugins.gpus.waits import MOST_WAITS
from tests.builders import NOW, load, policy, snapshot, workload
from tests.unit.plugins.gpus.gpu_cluster import GPU, gpu_node, gpu_pod


def measured(nodes: Iterable[Node], pods: Iterable[Pod], **cluster: Any) -> ClusterGpus:
    """What is measured where the rules have all they need."""
    pods = tuple(pods)
    used = load({}, {pod.name: (0.1, 0.1) for pod in pods})
    workloads = cluster.pop("workloads", [workload("web", replicas=40)])
    seen = snapshot(nodes, pods, used, workloads, **cluster)
    found = survey(EligibilityContext.of(UsageBook(seen, policy(), NOW), State()))
    assert found is not None
    return found


def wait_of(nodes: Iterable[Node], pods: Iterable[Pod], **cluster: Any) -> GpuWait:
    (found,) = measured(nodes, pods, **cluster).waits
    return found


def waiting(name: str = "large", gpus: int = 8, **fields: Any) -> Pod:
    pending: dict[str, Any] = {"phase": "Pending", "unschedulable": True}
    return gpu_pod(name, gpus=gpus, **(pending | fields))


def shown(wait: GpuWait) -> dict[str, list[str]]:
    """The pods in the way by node, those that may not leave with the reason."""
    return {
        each.node: [
            f"{pod.pod.name}: {pod.reason.value}" if pod.reason else pod.pod.name
            for pod in each.leaving
        ]
        for each in wait.nodes
    }


JOB = workload("train", replicas=1, survives_disruption=False)
WITH_JOB = [workload("web", replicas=40), JOB]


def test_the_closest_node_is_the_one_that_the_fewest_pods_would_have_to_leave() -> None:
    pods = [
        *(gpu_pod(f"a{i}", on="g1") for i in range(3)),
        *(gpu_pod(f"b{i}", on="g2", gpus=2) for i in range(2)),
        waiting(),
    ]
    found = wait_of([gpu_node("g1"), gpu_node("g2")], pods)
    assert (found.answer, found.gpus, found.resource) == (GpuAnswer.PODS_IN_THE_WAY, 8, GPU)
    assert shown(found) == {"g2": ["b0", "b1"]}


def test_of_equally_many_pods_those_that_may_leave_are_closer() -> None:
    pods = [
        gpu_pod("job", on="g1", of="train"),
        gpu_pod("free", on="g2"),
        waiting(),
    ]
    found = wait_of([gpu_node("g1"), gpu_node("g2")], pods, workloads=WITH_JOB)
    assert shown(found) == {"g2": ["free"]}


def test_a_pod_that_may_not_leave_is_named_with_its_reason() -> None:
    pods = [
        *(gpu_pod(f"a{i}", on="g1") for i in range(2)),
        gpu_pod("train-1", on="g1", of="train"),
        waiting(),
    ]
    found = wait_of([gpu_node("g1")], pods, workloads=WITH_JOB)
    assert shown(found) == {"g1": ["a0", "a1", "train-1: job_counts_eviction"]}


def test_fewer_pods_win_also_if_one_of_them_may_not_leave() -> None:
    pods = [
        gpu_pod("job", on="g1", of="train", gpus=4),
        gpu_pod("a", on="g2"),
        gpu_pod("b", on="g2"),
        waiting(),
    ]
    found = wait_of([gpu_node("g1"), gpu_node("g2")], pods, workloads=WITH_JOB)
    assert shown(found) == {"g1": ["job: job_counts_eviction"]}


def test_a_small_pod_that_may_leave_is_better_than_a_large_one_that_may_not() -> None:
    pods = [
        gpu_pod("large", on="g", of="train", gpus=4),
        gpu_pod("small", on="g", gpus=2),
        gpu_pod("other", on="g", gpus=2, of="train"),
        waiting("waits", gpus=2),
    ]
    found = wait_of([gpu_node("g")], pods, workloads=WITH_JOB)
    assert shown(found) == {"g": ["small"]}


def test_pods_leave_also_for_cpu() -> None:
    busy = [gpu_pod(f"cpu{i}", on="g", gpus=0, cpu=20) for i in range(3)]
    found = wait_of([gpu_node("g", cpu=64)], [*busy, waiting(cpu=40)])
    assert len(found.leaving) == 2
    assert {each.gpus for each in found.leaving} == {0}


def test_of_many_small_pods_enough_leave_and_none_in_vain() -> None:
    """As many sets of these pods as there are would take minutes to compare."""
    sizes = {f"cpu{i:02}": 0.5 + i % 7 / 4 for i in range(60)}
    small = [gpu_pod(name, on="g", gpus=0, cpu=cpu) for name, cpu in sizes.items()]
    found = wait_of([gpu_node("g", cpu=80)], [*small, gpu_pod("a", on="g"), waiting(cpu=60)])
    leaving = [each.pod.name for each in found.leaving]
    assert "a" in leaving
    left = 80 - sum(cpu for name, cpu in sizes.items() if name not in leaving)
    assert left >= 60
    assert left - min(sizes[name] for name in leaving if name != "a") < 60


def test_a_pod_that_is_on_every_node_is_never_in_the_way() -> None:
    agent = gpu_pod("agent", on="g1", owner=Owner("DaemonSet", "agent", "uid-agent"))
    pods = [agent, gpu_pod("a", on="g2"), gpu_pod("b", on="g2"), waiting()]
    assert shown(wait_of([gpu_node("g1"), gpu_node("g2")], pods)) == {"g2": ["a", "b"]}


def test_a_terminating_pod_is_not_in_the_way() -> None:
    pods = [gpu_pod("leaving", on="g", deleting=True), gpu_pod("a", on="g"), waiting()]
    assert shown(wait_of([gpu_node("g")], pods)) == {"g": ["a"]}


def test_where_a_node_has_room_something_else_keeps_the_pod() -> None:
    found = wait_of([gpu_node("g1"), gpu_node("g2")], [gpu_pod("a", on="g1"), waiting()])
    assert (found.answer, shown(found)) == (GpuAnswer.HAS_ROOM, {"g2": []})


def test_no_node_is_large_enough() -> None:
    found = wait_of([gpu_node("g", gpus=4)], [gpu_pod("a", on="g"), waiting()])
    assert (found.answer, found.nodes) == (GpuAnswer.TOO_LARGE, ())


@pytest.mark.parametrize(
    "other",
    [
        gpu_node("g", taints=(Taint("team", "NoSchedule", "other"),)),
        gpu_node("g", unschedulable=True),
        gpu_node("g", ready=False),
    ],
    ids=["tainted", "cordoned", "not ready"],
)
def test_no_node_with_gpus_admits_the_pod(other: Node) -> None:
    assert wait_of([other], [waiting()]).answer is GpuAnswer.NOT_ADMITTED


@pytest.mark.parametrize(
    "fields",
    [{"unschedulable": False}, {"gated": True}, {"deleting": True}, {"gpus": 0}],
    ids=str,
)
def test_other_pending_pods_do_not_wait_for_gpus(fields: dict[str, Any]) -> None:
    assert measured([gpu_node("g")], [waiting(**fields)]).waits == ()


def test_alike_pods_of_a_workload_share_an_answer_for_the_next_one() -> None:
    pods = [gpu_pod("a", on="g1"), gpu_pod("b", on="g2"), *(waiting(f"w{i}") for i in range(5))]
    scheduling = pods[-1].scheduling
    assert all(each.scheduling == scheduling for each in pods[2:])
    found = wait_of([gpu_node("g1"), gpu_node("g2")], pods)
    assert (len(found.pods), shown(found)) == (5, {"g1": ["a"]})


GANG = {"scheduling.x-k8s.io/pod-group": "train"}


def test_a_gang_needs_places_for_all_its_pods() -> None:
    members = [waiting(f"w{i}", labels=GANG) for i in range(2)]
    pods = [*(gpu_pod(f"p{i}", on=f"g{i}") for i in range(3)), gpu_pod("q", on="g0"), *members]
    found = wait_of([gpu_node(f"g{i}") for i in range(3)], pods)
    assert "apps/train" in found.gang
    assert shown(found) == {"g1": ["p1"], "g2": ["p2"]}


def test_small_pods_of_a_gang_share_a_node() -> None:
    members = [waiting(f"w{i}", gpus=2, labels=GANG) for i in range(4)]
    pods = [gpu_pod("one", on="g1"), *(gpu_pod(f"p{i}", on="g2") for i in range(8)), *members]
    found = wait_of([gpu_node("g1"), gpu_node("g2")], pods)
    assert [(each.node, each.places, len(each.leaving)) for each in found.nodes] == [("g1", 4, 1)]


def test_a_gang_for_which_there_are_too_few_nodes_gets_no_node() -> None:
    found = wait_of([gpu_node("g")], [waiting(f"w{i}", labels=GANG) for i in range(2)])
    assert (found.answer, found.nodes) == (GpuAnswer.TOO_LARGE, ())


HARD = {
    "scheduling.k8s.io/group-name": "train",
    "volcano.sh/network-topology-mode": "hard",
    "volcano.sh/network-topology-highest-tier": "1",
}
TREE = (
    HyperNode("s0", 1, "", ("g1", "g2"), ()),
    HyperNode("s1", 1, "", ("g3", "g4"), ()),
    HyperNode("s2", 2, "", (), ("s0", "s1")),
)


def test_a_gang_stays_within_one_domain_of_its_topology() -> None:
    """g1 and g3 are idle, but in different domains; beside g3 fewer pods are in the way."""
    members = [waiting(f"w{i}", annotations=HARD) for i in range(2)]
    pods = [gpu_pod("a", on="g2"), gpu_pod("b", on="g2"), gpu_pod("c", on="g4"), *members]
    found = wait_of(
        [gpu_node(f"g{i}") for i in range(1, 5)], pods, extras=NetworkObjects(TREE).extras
    )
    assert shown(found) == {"g3": [], "g4": ["c"]}
    assert "s1" in found.detail


def test_a_gang_whose_pods_run_stays_in_their_domain() -> None:
    member = gpu_pod("w0", on="g1", gpus=8, annotations=HARD)
    pods = [member, gpu_pod("a", on="g2"), waiting("w1", annotations=HARD)]
    found = wait_of(
        [gpu_node(f"g{i}") for i in range(1, 5)], pods, extras=NetworkObjects(TREE).extras
    )
    assert shown(found) == {"g2": ["a"]}


def test_a_gang_for_which_no_domain_is_large_enough_gets_no_node() -> None:
    members = [waiting(f"w{i}", annotations=HARD) for i in range(3)]
    found = wait_of(
        [gpu_node(f"g{i}") for i in range(1, 5)], members, extras=NetworkObjects(TREE).extras
    )
    assert (found.answer, found.nodes) == (GpuAnswer.NO_DOMAIN, ())


def test_only_so_many_kinds_are_searched_those_of_high_priority_first() -> None:
    pods = [waiting(f"w{i:03}", of=None, priority=i) for i in range(MOST_WAITS + 2)]
    found = measured([gpu_node("g")], pods).waits
    assert [wait.pods[0].name for wait in found[-2:]] == ["w001", "w000"]
    assert {wait.answer for wait in found[:-2]} == {GpuAnswer.HAS_ROOM}
    assert {wait.answer for wait in found[-2:]} == {GpuAnswer.NOT_SEARCHED}


def test_the_share_of_pods_that_may_move_does_not_count_that_they_have_gpus() -> None:
    """By default a pod with a GPU stays for load; here it counts as one that may move."""
    pods = [
        gpu_pod("a", on="g"),
        gpu_pod("b", on="g"),
        gpu_pod("train", on="g", of="train"),
        gpu_pod("bare", on="g", of=None),
        gpu_pod("plain", on="g", gpus=0),
    ]
    found = measured([gpu_node("g")], pods, workloads=WITH_JOB)
    assert (found.pods, found.movable_pods) == (4, 2)
    assert {each.reason.value: each.pods for each in found.staying} == {
        "bare_pod": 1,
        "job_counts_eviction": 1,
    }
    assert Gpus() in policy().plugins
