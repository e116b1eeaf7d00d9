"""The simplified other deschedulers on nodes of unequal size."""

from collections import Counter

from benchmarks.baselines import Baseline, biggest_first
from benchmarks.closed_loop import default_policy
from desched.lab.history import Usage
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import SchedulingClass
from desched.model.resources import Amounts

GIB = 2**30


def _evicted_from(*, first: int, second: int, pods: int, room: int = 64_000) -> Counter[str]:
    """Evictions by node: `pods` pods of one core on each of two nodes of so many millicores.

    A third node, of `room` millicores, is empty.
    """
    simulation = Simulation()
    cluster = simulation.cluster
    sizes = {"first": first, "second": second, "empty": room}
    for name, millicores in sizes.items():
        cluster.add_node(name, cpu_millicores=millicores, memory_bytes=256 * GIB)
    template = PodTemplate(
        scheduling=SchedulingClass(Amounts(100, GIB, pods=1)), usage=Usage(1_000, GIB)
    )
    nodes = [name for name in ("first", "second") for _ in range(pods)]
    cluster.add_deployment("default", "web", 2 * pods, template, nodes=nodes)
    simulation.clock.advance(300)
    before = {pod.name: pod.node for pod in cluster.read_cluster().pods}
    Baseline(default_policy(), biggest_first).act(simulation.world(acting=True))
    gone = (before[pod.name] for pod in cluster.read_cluster().pods if pod.deleting)
    return Counter(gone)


def test_a_pod_relieves_its_node_by_its_share_of_that_node() -> None:
    # A pod is an eighth of the second node, but a 64th of the first: one eviction is enough.
    assert _evicted_from(first=64_000, second=8_000, pods=7) == {"second": 1}


def test_the_order_of_the_nodes_does_not_matter() -> None:
    assert _evicted_from(first=8_000, second=64_000, pods=7) == {"first": 1}


def test_the_room_of_all_low_nodes_is_their_sum_in_millicores() -> None:
    # 1.6 cores below the target of the empty node of 2 cores: room for two pods, not for eight.
    assert _evicted_from(first=20_000, second=20_000, pods=20, room=2_000).total() == 2
