"""The oracle on nodes of unequal size."""

from benchmarks.closed_loop import default_policy
from benchmarks.oracle import Oracle
from desched.lab.history import Usage
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import SchedulingClass
from desched.model.resources import Amounts

GIB = 2**30


def test_the_same_pods_overload_the_small_node_only() -> None:
    simulation = Simulation()
    for name, millicores in {"large": 64_000, "small": 8_000, "empty": 8_000}.items():
        simulation.cluster.add_node(name, cpu_millicores=millicores, memory_bytes=256 * GIB)
    template = PodTemplate(
        scheduling=SchedulingClass(Amounts(100, GIB, pods=1)), usage=Usage(1_000, GIB)
    )
    nodes = [name for name in ("large", "small") for _ in range(7)]
    simulation.cluster.add_deployment("default", "web", 14, template, nodes=nodes)
    simulation.clock.advance(300)
    Oracle(simulation, default_policy()).act(simulation.world(acting=True))
    gone = [pod.node for pod in simulation.cluster.read_cluster().pods if pod.deleting]
    assert gone == ["small"]
