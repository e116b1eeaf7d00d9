"""What is measured of GPUs, for any cluster of nodes with GPUs."""

import random
from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from desched.model.cluster import Node, Pod
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.pod_usage import UsageBook
from desched.plugins.devices import whole_gpus
from desched.plugins.gpus.facts import ClusterGpus, GpuAnswer
from desched.plugins.gpus.survey import survey
from tests.builders import NOW, amounts, load, node, pod, policy, snapshot, workload

GPU = "nvidia.com/gpu"
JOB = workload("job", 1, survives_disruption=False)
RACK = "topology.kubernetes.io/rack"


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Up to four nodes with pods of a Deployment and of a Job, and one pod that waits."""
    nodes, pods = list[Node](), list[Pod]()
    for number in range(draw(st.integers(1, 4))):
        gpus = cpu = draw(st.sampled_from([2, 4, 8]))
        size = replace(amounts(cpu, 64, **{GPU: gpus}), pods=20)
        labels = {RACK: draw(st.sampled_from(["r1", "r2"]))}
        nodes.append(node(f"g{number}", labels=labels, capacity=size, allocatable=size))
        for each in range(draw(st.integers(0, 6))):
            held, cores = (draw(st.integers(0, min(3, free))) for free in (gpus, cpu))
            gpus, cpu = gpus - held, cpu - cores
            of = draw(st.sampled_from(["web", "job"]))
            pods.append(_pod(f"p{number}-{each}", held, cores, of=of, on=f"g{number}"))
    wanted, cores = draw(st.integers(1, 8)), draw(st.integers(0, 8))
    pods.append(replace(_pod("waits", wanted, cores), phase="Pending", unschedulable=True))
    used = load({}, {each.name: (0.1, 0.1) for each in pods})
    return snapshot(nodes, pods, used, [workload("web", replicas=40), JOB])


def _pod(name: str, gpus: int, cpu: int, **fields: str) -> Pod:
    return pod(name, request=amounts(cpu, 1, **({GPU: gpus} if gpus else {})), **fields)


def surveyed(seen: Snapshot) -> ClusterGpus:
    found = survey(EligibilityContext.of(UsageBook(seen, policy(), NOW), State()))
    assert found is not None
    return found


@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_objects_does_not_matter(seen: Snapshot, chance: random.Random) -> None:
    nodes, pods = list(seen.cluster.nodes), list(seen.cluster.pods)
    chance.shuffle(nodes)
    chance.shuffle(pods)
    shuffled = replace(seen.cluster, nodes=tuple(nodes), pods=tuple(pods))

    assert surveyed(replace(seen, cluster=shuffled)) == surveyed(seen)


@given(clusters())
def test_the_figures_of_nodes_domains_and_the_cluster_agree(seen: Snapshot) -> None:
    found = surveyed(seen)

    for parts in (found.nodes, [each for each in found.domains if each.level == RACK]):
        assert sum(each.idle for each in parts) == found.idle
        assert abs(sum(each.fragmented for each in parts) - found.fragmented) < 1e-9
    for each in found.nodes:
        assert 0 <= each.idle <= each.gpus
        assert 0 <= each.fragmented <= each.idle
        assert each.places == {size: each.idle // size for size in (1, 2, 4, 8)}
    assert found.movable_pods + sum(each.pods for each in found.staying) == found.pods


def _least(on: Node, seen: Snapshot, waits: Pod) -> tuple[int, int] | None:
    """By trying all sets: the fewest pods that must leave, and how many of these may not."""
    pods = seen.cluster.pods_by_node[on.name]
    wanted = waits.scheduling.requests
    for number in range(len(pods) + 1):
        enough = [
            sum(each.owner is not None and each.owner.uid == "uid-job" for each in leaving)
            for leaving in combinations(pods, number)
            if _fits(
                on, [each for each in pods if each not in leaving], wanted.cpu_millicores, waits
            )
        ]
        if enough:
            return number, min(enough)
    return None


def _fits(on: Node, others: Sequence[Pod], cpu_millicores: int, waits: Pod) -> bool:
    requests = [each.scheduling.requests for each in (*others, waits)]
    return sum(map(whole_gpus, requests)) <= whole_gpus(on.allocatable) and (
        not cpu_millicores
        or sum(each.cpu_millicores for each in requests) <= on.allocatable.cpu_millicores
    )


@given(clusters())
def test_no_other_node_is_closer_than_the_closest(seen: Snapshot) -> None:
    waits = next(each for each in seen.cluster.pods if each.name == "waits")
    costs = {each.name: _least(each, seen, waits) for each in seen.cluster.nodes}
    possible = {name: cost for name, cost in costs.items() if cost is not None}
    (found,) = surveyed(seen).waits

    if not possible:
        assert (found.answer, found.nodes) == (GpuAnswer.TOO_LARGE, ())
        return
    (closest,) = found.nodes
    staying = sum(each.reason is not None for each in closest.leaving)
    best = min(possible.values())
    assert (len(closest.leaving), staying) == best == possible[closest.node]
    assert closest.node == min(name for name, cost in possible.items() if cost == best)
    assert (found.answer is GpuAnswer.HAS_ROOM) == (best == (0, 0))
