"""Simulations that go on from a snapshot."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from desched.decision import decide
from desched.lab.continuation import Continuation
from desched.lab.demo import demo_policy
from desched.lab.figures import Assumption
from desched.lab.scenarios import ai_scenario, guarded_scenario, steering_scenario
from desched.lab.world import Simulation
from desched.model.cluster import (
    PersistentVolume,
    PersistentVolumeClaim,
    PodVolume,
    StorageClass,
    VolumeKind,
)
from desched.model.load import ClusterLoad, Measured, PodUsage, Unknown
from desched.model.resources import Resource
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.observation import observe
from desched.plugins.queues.objects import Queue, QueueObjects
from desched.ports import PodToRead
from tests.builders import (
    GIB,
    NOW,
    amounts,
    budget,
    load,
    measured,
    node,
    pod,
    policy,
    rule,
    selector,
    snapshot,
    unknown,
)

LEAD = 1800.0


def begun(seen: Snapshot, lead: float = LEAD) -> Simulation:
    """The simulation at the time of the snapshot."""
    simulation = Continuation(seen, policy(), lead).begin()
    simulation.clock.advance(lead)
    assert simulation.clock.now() == seen.taken_at
    return simulation


def cpu(simulation: Simulation, name: str) -> float:
    cluster = simulation.cluster.read_cluster()
    found = simulation.load.read_load(cluster, policy()).nodes[name][Resource.CPU]
    assert isinstance(found, Measured)
    return found.levels[0].ratio


def one_hot(**cluster: object) -> Snapshot:
    pods = (pod("p1", on="hot"), pod("p2", on="hot"), pod("bare", on="cool", of=None))
    used = {"p1": (1.0, 1.0), "p2": (0.5, 1.0), "bare": (0.2, 1.0)}
    loads = load({"hot": (0.9, 0.5), "cool": (0.1, 0.2)}, used)
    return snapshot((node("hot"), node("cool")), pods, loads, **cluster)  # type: ignore[arg-type]


def test_the_first_load_is_that_of_the_snapshot() -> None:
    simulation = begun(one_hot())

    assert cpu(simulation, "hot") == pytest.approx(0.9)
    assert cpu(simulation, "cool") == pytest.approx(0.1)
    found = simulation.load.read_load(simulation.cluster.read_cluster(), policy()).pods
    assert found["apps", "p1"].cpu_millicores == pytest.approx((1000.0,))
    assert found["apps", "p1"].memory_bytes == pytest.approx((GIB,))


@pytest.mark.parametrize("scenario", [guarded_scenario, steering_scenario, ai_scenario])
def test_the_first_plan_is_that_of_the_snapshot(scenario) -> None:
    by = demo_policy()
    seen = observe(scenario().world(acting=False), by)
    simulation = Continuation(seen, by, LEAD).begin()
    simulation.clock.advance(LEAD)

    there = decide(observe(simulation.world(acting=False), by), by, State()).plan

    then = decide(seen, by, State()).plan
    assert then.evictions
    assert [(e.pod, e.expected_node, e.landing_risk) for e in there.evictions] == [
        (e.pod, e.expected_node, e.landing_risk) for e in then.evictions
    ]
    assert [(r.pod, r.reason) for r in there.refusals] == [(r.pod, r.reason) for r in then.refusals]


def test_the_clock_of_the_api_server_goes_on() -> None:
    simulation = begun(one_hot(server_times=(NOW, NOW)))
    simulation.clock.advance(3600.0)

    assert observe(simulation.world(acting=False), policy()).cluster_lead_seconds <= 0


def test_load_follows_a_pod_and_the_rest_stays_with_its_node() -> None:
    simulation = begun(one_hot())

    simulation.cluster.delete_pod("apps", "p1")
    simulation.clock.advance(1800.0)

    (new,) = (p for p in simulation.cluster.read_cluster().pods if p.name.startswith("p1"))
    assert new.node == "cool"
    assert cpu(simulation, "hot") == pytest.approx(0.9 - 0.25)
    assert cpu(simulation, "cool") == pytest.approx(0.1 + 0.25)


def test_the_longest_window_counts() -> None:
    by = policy(rule(Resource.CPU, windows_seconds=(300, 600)))
    loads = ClusterLoad(
        {"n": {Resource.CPU: measured(0.9, 0.5)}}, {("apps", "p"): PodUsage((3000.0, 1000.0))}
    )
    seen = snapshot((node("n"),), (pod("p", on="n"),), loads)

    simulation = Continuation(seen, by, LEAD).begin()
    simulation.clock.advance(LEAD)

    found = simulation.load.read_load(simulation.cluster.read_cluster(), by)
    assert found.pods["apps", "p"].cpu_millicores == pytest.approx((1000.0, 1000.0))
    cpu_load = found.nodes["n"][Resource.CPU]
    assert isinstance(cpu_load, Measured)
    assert [level.ratio for level in cpu_load.levels] == pytest.approx([0.5, 0.5])


def test_an_unknown_node_stays_unknown() -> None:
    loads = load({"hot": (0.9, 0.5), "dark": (unknown(), unknown())}, {"p1": (1.0, 1.0)})
    seen = snapshot((node("hot"), node("dark")), (pod("p1", on="hot"),), loads)

    simulation = begun(seen)
    simulation.clock.advance(3600.0)

    found = simulation.load.read_load(simulation.cluster.read_cluster(), policy()).nodes["dark"]
    assert isinstance(found[Resource.CPU], Unknown)
    assert cpu(simulation, "hot") == pytest.approx(0.9)
    assumed = {each.assumption: each.detail for each in Continuation(seen, policy(), 0).assumed()}
    assert assumed[Assumption.NODES_UNKNOWN] == "1"


def test_a_pod_that_is_not_measured_uses_what_its_siblings_do() -> None:
    pods = (pod("p1", on="hot"), pod("p2", on="hot"))
    loads = load({"hot": (0.5, 0.5)}, {"p1": (1.0, 1.0)})
    seen = snapshot((node("hot"),), pods, loads)

    simulation = begun(seen)

    # The node's load has it already; only the pod's own figure is an assumption.
    assert cpu(simulation, "hot") == pytest.approx(0.75)
    assumed = {each.assumption: each.detail for each in Continuation(seen, policy(), 0).assumed()}
    assert assumed[Assumption.PODS_NOT_MEASURED] == "1"


def test_a_young_pod_begins_when_it_began() -> None:
    young = pod("young", on="hot", started_at=NOW - timedelta(seconds=150))
    loads = load({"hot": (0.3, 0.1)}, {"young": (0.5, 0.1)})
    seen = snapshot((node("hot"),), (young, pod("p1", on="hot")), loads)

    simulation = Continuation(seen, policy(), LEAD).begin()
    simulation.clock.advance(LEAD - 151)
    assert [p.name for p in simulation.cluster.read_cluster().pods] == ["p1"]
    simulation.clock.advance(1)
    assert len(simulation.cluster.read_cluster().pods) == 2


def test_pods_that_end_are_gone_and_pending_ones_are_placed_at_the_time_of_the_snapshot() -> None:
    pods = (
        pod("leaving", on="hot", deleting=True),
        pod("done", on="hot", phase="Succeeded"),
        pod("waiting", phase="Pending", ready=False, started_at=None),
    )
    seen = snapshot((node("hot"),), pods, load({"hot": (0.5, 0.1)}, {"leaving": (1.0, 0.1)}))

    simulation = Continuation(seen, policy(), LEAD).begin()
    simulation.clock.advance(LEAD - 1)
    assert simulation.cluster.read_cluster().pods == ()
    simulation.clock.advance(1)
    assert [(p.name, p.node) for p in simulation.cluster.read_cluster().pods] == [
        ("waiting", "hot")
    ]


@pytest.mark.parametrize(("allowed", "current"), [(1, True), (0, True), (1, False)])
def test_a_budget_requires_as_many_pods_as_at_the_snapshot(allowed: int, current: bool) -> None:  # noqa: FBT001  (a table)
    seen = one_hot(budgets=(replace(budget("pdb", allowed, app="web"), up_to_date=current),))

    (found,) = begun(seen).cluster.read_cluster().budgets

    assert found.disruptions_allowed == (allowed if current else 0)


def test_what_no_pod_or_node_is_stays_as_it_was() -> None:
    zone = NodeSelectorTerm((Requirement("zone", Operator.IN, ("a",)),))
    seen = one_hot(
        namespaces={"apps": {"team": "a"}},
        priority_classes={"high": 7},
        claims={("apps", "data"): PersistentVolumeClaim("apps", "data", "fast", "pv")},
        volumes={"pv": PersistentVolume("pv", "fast", (zone,))},
        storage_classes={"fast": StorageClass("fast", "csi.test")},
        controller_selectors={("apps", "uid-web"): selector(app="web")},
        server_version="v1.31.0",
    )

    found = begun(seen).cluster.read_cluster()

    for field in ("volumes", "storage_classes", "server_version", "controller_selectors"):
        assert getattr(found, field) == getattr(seen.cluster, field)
    assert found.namespaces["apps"] == {"team": "a"}
    assert found.priority_classes["high"] == 7
    assert found.claims == seen.cluster.claims


def test_a_look_finds_the_annotations_of_the_owner_and_the_queues_in_the_snapshot() -> None:
    protected, queues = {"desched.io/evict": "false"}, QueueObjects((Queue("Kueue", "", "team-a"),))
    seen = one_hot(declared_owners={("apps", "uid-web"): protected}, extras=queues.extras)
    simulation = begun(seen)
    (look,) = simulation.cluster.read_around([PodToRead(seen.cluster.pods[0].ref)])
    assert look is not None
    assert look.owner_annotations == protected
    assert look.extras == queues.extras


def test_a_replacement_goes_only_where_its_volume_can_be_reached() -> None:
    zone = NodeSelectorTerm((Requirement("zone", Operator.IN, ("a",)),))
    bound = pod("db-0", on="hot", volumes=(PodVolume(VolumeKind.CLAIM, "data"),))
    nodes = (node("hot"), node("near", labels={"zone": "a"}), node("far", labels={"zone": "b"}))
    busy = pod("busy", on="near", of=None, request=amounts(3, 8))  # the scheduler prefers far
    seen = snapshot(
        nodes,
        (bound, busy),
        load({"hot": (0.9, 0.5), "near": (0.1, 0.1), "far": (0.1, 0.1)}, {"db-0": (1.0, 1.0)}),
        claims={("apps", "data"): PersistentVolumeClaim("apps", "data", "fast", "pv")},
        volumes={"pv": PersistentVolume("pv", "fast", (zone,))},
    )
    simulation = begun(seen)

    simulation.cluster.delete_pod("apps", "db-0")
    simulation.clock.advance(60.0)

    (new,) = (p for p in simulation.cluster.read_cluster().pods if p.name.startswith("db-0"))
    assert new.node == "near"


def test_a_resource_that_is_not_watched_is_not_simulated() -> None:
    seen = one_hot()
    only_cpu = ClusterLoad(
        {name: {Resource.CPU: found[Resource.CPU]} for name, found in seen.load.nodes.items()},
        {key: PodUsage(usage.cpu_millicores) for key, usage in seen.load.pods.items()},
    )
    by = policy(policy().rules[0])
    simulation = Continuation(replace(seen, load=only_cpu), by, LEAD).begin()
    simulation.clock.advance(LEAD)

    assert cpu(simulation, "hot") == pytest.approx(0.9)


def test_beginning_twice_gives_two_independent_simulations() -> None:
    continuation = Continuation(one_hot(), policy(), LEAD)
    first, second = continuation.begin(), continuation.begin()

    first.clock.advance(LEAD)
    first.cluster.delete_pod("apps", "p1")
    second.clock.advance(LEAD)

    assert len(second.cluster.read_cluster().pods) == 3
    assert all(not p.deleting for p in second.cluster.read_cluster().pods)
