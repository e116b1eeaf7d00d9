import msgspec
import pytest

from desched.lab.cluster import GIB
from desched.lab.history import Usage
from desched.lab.load import SimulatedLoad
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.load import (
    ClusterLoad,
    LoadHistory,
    Measured,
    PodChoice,
    PodUsage,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Resource
from desched.policy.policy import DestinationWindow, MetricsSource, Policy, ResourceRule

POLICY = Policy(
    source="test",
    digest="",
    metrics=MetricsSource("http://localhost"),
    rules=(
        ResourceRule(Resource.CPU, 0.3, 0.8, 0.05, 0.1, (300, 900)),
        ResourceRule(Resource.MEMORY, 0.3, 0.8, 0.05, 0.1, (300,)),
    ),
)


def simulation(cpu_millicores: float = 2000) -> Simulation:
    made = Simulation()
    made.cluster.add_node("a")
    made.cluster.add_node("b")
    made.clock.advance(3600)
    made.cluster.add_pod("default", "busy", PodTemplate(usage=Usage(cpu_millicores, 4 * GIB)), "a")
    return made


def load(of: Simulation) -> ClusterLoad:
    return of.load.read_load(of.cluster.read_cluster(), POLICY)


def ratios(found: Measured | Unknown) -> list[float]:
    assert isinstance(found, Measured)
    return [level.ratio for level in found.levels]


def test_levels_are_means_over_each_window_as_shares_of_capacity() -> None:
    world = simulation()
    world.clock.advance(450)
    assert ratios(load(world).nodes["a"][Resource.CPU]) == pytest.approx([0.5, 0.25])
    assert ratios(load(world).nodes["a"][Resource.MEMORY]) == pytest.approx([0.25])
    assert ratios(load(world).nodes["b"][Resource.CPU]) == [0, 0]


def test_the_host_itself_counts_for_its_node() -> None:
    made = Simulation()
    made.cluster.add_node("a", host_usage=Usage(1000, 0))
    made.clock.advance(900)
    assert ratios(load(made).nodes["a"][Resource.CPU]) == pytest.approx([0.25, 0.25])


def test_a_young_pods_rate_is_diluted_and_its_memory_is_not() -> None:
    world = simulation()
    world.clock.advance(150)
    usage = load(world).pods["default", "busy"]
    assert usage.cpu_millicores == pytest.approx((1000, 2000 / 6))
    assert usage.memory_bytes == pytest.approx((4 * GIB,))


def test_a_pod_that_began_this_moment_is_not_measured() -> None:
    assert load(simulation()).pods["default", "busy"] == PodUsage()


def test_a_node_is_never_more_than_full() -> None:
    world = simulation(cpu_millicores=9000)
    world.clock.advance(900)
    assert ratios(load(world).nodes["a"][Resource.CPU]) == [1, 1]


def test_a_node_that_joined_within_the_window_is_unknown() -> None:
    world = simulation()
    world.cluster.add_node("new")
    world.clock.advance(400)
    cpu = load(world).nodes["new"][Resource.CPU]
    assert isinstance(cpu, Unknown)
    assert cpu.reason is UnknownReason.WINDOW_NOT_COVERED
    assert ratios(load(world).nodes["new"][Resource.MEMORY]) == [0]


def history(of: Simulation, node: str = "a") -> LoadHistory:
    """CPU at the points by which plans forecast."""
    found = of.load.read_load(of.cluster.read_cluster(), POLICY)
    return found.history[node][Resource.CPU]


def test_the_history_shows_when_load_began() -> None:
    world = simulation()
    world.clock.advance(450)
    points = history(world).ratios
    assert (len(points), history(world).step_seconds) == POLICY.history._replace(
        steps=POLICY.history.steps + 1
    )
    # Means over five minutes: the pod has been there for seven and a half.
    assert points[-4:] == pytest.approx((0, 0, 0.25, 0.5))


def test_the_history_has_no_points_before_the_node() -> None:
    made = Simulation()
    made.cluster.add_node("a")
    made.clock.advance(600)
    assert history(made).ratios[-2:] == (0.0, 0.0)
    assert set(history(made).ratios[:-2]) == {None}


def test_destination_windows_are_statistics_of_means_over_the_shortest_window() -> None:
    world = simulation()
    world.clock.advance(600)
    windows = (DestinationWindow(1200, 1.0), DestinationWindow(1200))
    rule = msgspec.structs.replace(POLICY.rules[0], destination_windows=windows)
    asked = msgspec.structs.replace(POLICY, rules=(rule,))
    found = world.load.read_load(world.cluster.read_cluster(), asked)
    assert found.destination_ratios["a"][Resource.CPU] == pytest.approx((0.5, 0.2))


def of_chosen(made: Simulation, *choices: PodChoice) -> ClusterLoad:
    """The load if these pods are chosen, one choice after the other."""
    asked = iter((*choices, choices[-1]))
    return made.load.read_load(made.cluster.read_cluster(), POLICY, lambda _: next(asked))


def two_nodes() -> Simulation:
    made = simulation()
    for name, node in (("calm", "b"), ("quiet", "b")):
        made.cluster.add_pod("default", name, PodTemplate(usage=Usage(100, GIB)), node)
    made.clock.advance(150)
    return made


def test_of_pods_that_are_not_chosen_only_the_sum_on_their_node_is_read() -> None:
    found = of_chosen(two_nodes(), PodChoice(frozenset({"a"})))
    everything = load(two_nodes())
    assert set(found.pods) == {("default", "busy")}
    assert found.pods["default", "busy"] == everything.pods["default", "busy"]
    calm, quiet = (everything.pods["default", name] for name in ("calm", "quiet"))
    sums = found.pod_sums["b"]
    for i in range(2):
        both = calm.cpu_millicores[i] + quiet.cpu_millicores[i]
        assert sums[Resource.CPU][i] == pytest.approx(both)
    assert sums[Resource.MEMORY] == pytest.approx((2 * GIB,))
    assert set(found.history) == {"a", "b"}  # destinations are judged by it as well
    assert set(of_chosen(two_nodes(), PodChoice()).history) == {"a", "b"}
    assert everything.pods_of is None
    assert everything.pod_sums == {}


def test_pods_are_chosen_until_no_more_are_needed() -> None:
    first, second = PodChoice(frozenset({"a"})), PodChoice(frozenset({"b"}))
    found = of_chosen(two_nodes(), PodChoice(), first)
    assert found.pods_of is not None
    assert not found.pods_of.has_pods
    assert found.pods == {}
    both = of_chosen(two_nodes(), first, second).pods_of
    assert both is not None
    assert both.nodes == {"a", "b"}


def test_the_pasts_of_pods_are_read_that_are_or_were_on_a_chosen_node() -> None:
    made = two_nodes()
    made.clock.advance(900)
    found = of_chosen(made, PodChoice(frozenset({"a"}), pasts=frozenset({"b"})))
    assert set(found.pod_pasts) == {("default", "calm"), ("default", "quiet")}
    assert {past.node for past in found.pod_pasts.values()} == {"b"}
    calm = found.pod_pasts["default", "calm"].cpu_millicores
    assert len(calm) == len(found.history["b"][Resource.CPU].ratios)
    assert calm[-3:] == pytest.approx((100, 100, 100))
    assert calm[0] is None


def test_the_pods_of_a_controller_can_be_chosen() -> None:
    made = Simulation()
    for node in "ab":
        made.cluster.add_node(node)
    template = PodTemplate(usage=Usage(500, GIB), labels={"app": "web"})
    made.cluster.add_deployment("default", "web", 2, template, nodes=("a", "b"))
    made.cluster.add_pod("default", "bare", template, "a")
    made.clock.advance(900)
    pods = made.cluster.read_cluster().pods
    (controller,) = {pod.controller for pod in pods if pod.controller}
    found = of_chosen(made, PodChoice(controllers=frozenset({controller})))
    assert set(found.pods) == {(p.namespace, p.name) for p in pods if p.controller}


def test_people_see_the_last_hour_of_all_nodes() -> None:
    made = simulation()
    made.clock.advance(600)
    reader = SimulatedLoad(made.cluster, last_hour=True)
    found = reader.read_load(made.cluster.read_cluster(), POLICY, lambda _: PodChoice())
    points = found.last_hour["a"][Resource.CPU].ratios
    assert points == pytest.approx([0.0] * 11 + [0.5, 0.5])
    assert set(found.last_hour) == {"a", "b"}
