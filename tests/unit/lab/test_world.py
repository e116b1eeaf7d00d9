"""What only the Eviction API of the simulation can show; the rest is in the contract."""

from desched.lab.budgets import SimulatedBudget
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import Pod, PodRef
from desched.model.report import EvictionVerdict
from desched.model.selectors import LabelSelector


def simulation(replicas: int = 2, min_available: int = 1) -> Simulation:
    made = Simulation()
    made.cluster.add_node("a")
    made.cluster.add_deployment("default", "web", replicas, PodTemplate())
    budget = SimulatedBudget("default", "guard", LabelSelector(), min_available=min_available)
    made.cluster.add_budget(budget)
    made.clock.advance(60)
    return made


def pods(of: Simulation) -> tuple[Pod, ...]:
    return of.cluster.read_cluster().pods


def allowed(by: Simulation) -> int:
    return by.cluster.read_cluster().budgets[0].disruptions_allowed


def test_a_wrong_uid_spends_the_budget_and_evicts_nothing() -> None:
    world = simulation()
    pod = pods(world)[0]
    answer = world.evictor.evict(PodRef(pod.namespace, pod.name, "other"), "")
    assert answer.verdict is EvictionVerdict.REPLACED
    assert not pods(world)[0].deleting
    assert allowed(world) == 0
    world.clock.advance(120)
    assert allowed(world) == 1


def test_a_pod_that_is_not_ready_may_go_while_enough_others_are() -> None:
    world = simulation(replicas=2, min_available=2)
    world.cluster.add_pod("default", "starting", PodTemplate(), "a")
    starting = next(pod for pod in pods(world) if pod.name == "starting")
    assert allowed(world) == 0
    assert world.evictor.evict(starting.ref, "").verdict is EvictionVerdict.EVICTED


def test_a_pending_pod_needs_no_budget() -> None:
    world = simulation(min_available=2)
    world.cluster.change_node("a", unschedulable=True)
    world.cluster.add_pod("default", "waiting", PodTemplate())
    waiting = next(pod for pod in pods(world) if pod.name == "waiting")
    assert waiting.phase == "Pending"
    assert allowed(world) == 0
    assert world.evictor.evict(waiting.ref, "").verdict is EvictionVerdict.EVICTED


def test_an_evicted_pod_holds_its_place_for_its_grace_period() -> None:
    world = simulation(replicas=1, min_available=0)
    pod = pods(world)[0]
    world.evictor.evict(pod.ref, "")
    assert [p.deleting for p in pods(world)] == [True, False]
    world.clock.advance(29)
    assert world.cluster.pod(pod.ref) is not None
    world.clock.advance(1)
    assert world.cluster.pod(pod.ref) is None


def test_evicting_a_leaving_pod_again_changes_nothing() -> None:
    world = simulation(replicas=1, min_available=0)
    pod = pods(world)[0]
    world.evictor.evict(pod.ref, "")
    world.clock.advance(10)
    assert world.evictor.evict(pod.ref, "").verdict is EvictionVerdict.EVICTED
    world.clock.advance(20)
    assert len(pods(world)) == 1
