"""Replicas of one workload move one at a time: the real cycle on a simulated cluster."""

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.lab.history import Usage
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.report import CycleReport, Mode
from desched.model.resources import Resource
from desched.model.state import State
from tests.builders import policy, rule

INTERVAL_SECONDS = 300
BY_CPU = policy(rule(Resource.CPU))


def pair_beside_a_bare_pod() -> Simulation:
    """On `hot` a bare pod and both replicas of `pair`; each of these takes 17.5 of 100 %."""
    simulation = Simulation()
    for name in ("hot", "cool", "idle"):
        simulation.cluster.add_node(name)
    simulation.cluster.add_namespace("apps")
    simulation.cluster.add_pod("apps", "bare", PodTemplate(usage=Usage(2600, 0)), "hot")
    pair = PodTemplate(usage=Usage(700, 0), labels={"app": "pair"})
    simulation.cluster.add_deployment("apps", "pair", 2, pair, nodes=("hot", "hot"))
    simulation.clock.advance(3600)
    return simulation


def ready_replicas(simulation: Simulation) -> int:
    pods = simulation.cluster.read_cluster().pods
    return sum(pod.labels.get("app") == "pair" and pod.ready and not pod.deleting for pod in pods)


def run(simulation: Simulation, cycles: int, interval_seconds: float) -> list[CycleReport]:
    world, state, reports = simulation.world(acting=True), State(), []
    for number in range(1, cycles + 1):
        info = CycleInfo(number, Mode.EVICT, "test")
        report, _ = run_cycle(world, BY_CPU, state, info)
        state = report.state
        reports.append(report)
        assert ready_replicas(simulation) >= 1
        simulation.clock.advance(interval_seconds)
    return reports


def test_two_replicas_on_a_hot_node_move_one_after_the_other() -> None:
    simulation = pair_beside_a_bare_pod()
    reports = run(simulation, 6, INTERVAL_SECONDS)
    # After the first has landed, the node settles for a cycle.
    assert [len(report.plan.evictions) for report in reports] == [1, 0, 1, 0, 0, 0]
    nodes = {p.node for p in simulation.cluster.read_cluster().pods if p.labels}
    assert "hot" not in nodes
