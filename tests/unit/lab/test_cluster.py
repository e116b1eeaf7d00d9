"""Nodes and pods that exist elsewhere, and the life of their replicas in the simulation."""

from desched.lab.cluster import SimulatedCluster
from desched.lab.controllers import Replica
from desched.lab.history import Usage
from desched.lab.world import Simulation
from desched.model.cluster import Node, Pod
from tests.builders import amounts, node, pod, workload

BUSY, CALM = Usage(900, 1), Usage(100, 1)
WEB = workload("web")


def simulation(*nodes: Node) -> Simulation:
    made = Simulation()
    for each in nodes or (node("a", cpu=4), node("b", cpu=4)):
        made.cluster.adopt_node(each)
    return made


def a_pod(name: str, on: str, cpu: float = 1, of: str | None = "web") -> Pod:
    return pod(name, on, of, request=amounts(cpu), created_at=Simulation().clock.now())


def adopted(to: Simulation, name: str, on: str, usage: Usage = CALM, cpu: float = 1) -> Replica:
    replica = Replica(usage, name)
    to.cluster.adopt_pod(a_pod(name, on, cpu), replica, WEB)
    return replica


def placed(on: SimulatedCluster) -> dict[str, str]:
    return {pod.name: pod.node for pod in on.read_cluster().pods}


def test_a_pod_is_adopted_as_it_is() -> None:
    world = simulation()
    adopted(world, "web-1", "a")
    (found,) = world.cluster.read_cluster().pods
    assert found == a_pod("web-1", "a")
    assert found.owner is not None
    status = world.cluster.read_cluster().workloads["apps", found.owner.uid]
    assert (status.desired_replicas, status.ready_replicas) == (1, 1)


def test_each_adopted_pod_adds_a_replica_to_its_workload_and_each_end_removes_one() -> None:
    world = simulation()
    replicas = [adopted(world, f"web-{i}", "a") for i in range(3)]
    owner = world.cluster.read_cluster().pods[0].owner
    assert owner is not None
    world.cluster.end_replica(owner, replicas[1])
    assert placed(world.cluster) == {"web-0": "a", "web-2": "a"}
    status = world.cluster.read_cluster().workloads["apps", owner.uid]
    assert (status.desired_replicas, status.ready_replicas) == (2, 2)


def test_a_replacement_has_the_usage_and_the_name_of_the_pod_that_it_replaces() -> None:
    world = simulation()
    adopted(world, "web-1", "a", CALM)
    adopted(world, "web-2", "a", BUSY)
    world.cluster.delete_pod("apps", "web-2")
    new = world.cluster.newest_pod()
    assert (new.name, new.node) == ("web-2.1", "b")
    world.clock.advance(60)
    assert placed(world.cluster) == {"web-1": "a", "web-2.1": "b"}
    (stay,) = world.cluster.history.stays_of(new.uid)
    world.clock.advance(60)
    assert world.cluster.history.node_means(60, 120) == {"a": CALM, "b": BUSY}
    assert stay.node == "b"


def test_the_end_of_a_replica_ends_its_replacement() -> None:
    world = simulation()
    replica = adopted(world, "web-1", "a", BUSY)
    owner = world.cluster.newest_pod().owner
    world.cluster.delete_pod("apps", "web-1")
    world.cluster.end_replica(owner, replica)
    assert placed(world.cluster) == {}
    world.clock.advance(60)  # the grace period of the first pod ends without a trace
    assert placed(world.cluster) == {}
    assert world.cluster.history.node_means(0, 60) == {"a": Usage(), "b": Usage()}


def test_pods_that_shared_a_node_are_adopted_even_if_they_request_more_than_it_has() -> None:
    world = simulation()
    for i in range(3):
        adopted(world, f"web-{i}", "a", cpu=2)
    assert set(placed(world.cluster).values()) == {"a"}


def test_the_scheduler_places_a_pod_whose_room_a_replacement_has_taken() -> None:
    world = simulation(node("a", cpu=2), node("b", cpu=4))
    adopted(world, "web-1", "b", cpu=2)
    adopted(world, "web-2", "b", cpu=2)
    world.cluster.delete_pod("apps", "web-1")
    assert placed(world.cluster)["web-1.1"] == "a"
    world.clock.advance(60)
    adopted(world, "web-3", "a", cpu=2)
    assert placed(world.cluster) == {"web-1.1": "a", "web-2": "b", "web-3": "b"}


def test_the_scheduler_places_a_pod_whose_node_is_unknown() -> None:
    world = simulation(node("a"))
    adopted(world, "web-1", "elsewhere")
    assert placed(world.cluster) == {"web-1": "a"}


def test_pods_of_a_removed_node_are_replaced_elsewhere() -> None:
    world = simulation()
    adopted(world, "web-1", "a", BUSY)
    world.cluster.adopt_pod(a_pod("bare", "a", of=None), Replica(CALM, "bare"))
    world.clock.advance(60)
    world.cluster.remove_node("a")
    assert placed(world.cluster) == {"web-1.1": "b"}
    world.clock.advance(60)
    assert world.cluster.history.node_means(60, 120)["b"] == BUSY
    assert [each.name for each in world.cluster.read_cluster().nodes] == ["b"]


def test_a_deployment_with_pods_of_two_revisions_is_rolling_out() -> None:
    world = simulation()
    old, new = (a_pod(f"web-{i}", "a", of=revision) for i, revision in enumerate(("v1", "v2")))
    replicas = [Replica(CALM), Replica(CALM)]
    for each, replica in zip((old, new), replicas, strict=True):
        world.cluster.adopt_pod(each, replica, WEB)
    both = world.cluster.read_cluster().workloads.values()
    assert [(s.rolling_out, s.desired_replicas) for s in both] == [(True, 2)] * 2
    world.cluster.end_replica(old.owner, replicas[0])
    assert new.owner is not None
    status = world.cluster.read_cluster().workloads
    assert not status["apps", new.owner.uid].rolling_out


def test_a_state_of_the_cluster_does_not_change_with_the_cluster() -> None:
    world = simulation()
    adopted(world, "web-1", "a")
    before = world.cluster.read_cluster()
    workloads = dict(before.workloads)
    adopted(world, "web-2", "a")
    assert (len(before.pods), before.workloads) == (1, workloads)
