from typing import Any

from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import SchedulingClass
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, Operator, Requirement

MIB = 1024**2


def of_prototype(**scheduling: Any) -> tuple[int, int]:
    requests = Amounts(cpu_millicores=500, pods=1)
    template = PodTemplate(scheduling=SchedulingClass(requests, **scheduling))
    found = template.prototype("default", None, priority=0).scheduling
    assert found.requests == requests
    return found.scored_cpu_millicores, found.scored_memory_bytes // MIB


def test_a_template_is_scored_by_its_requests_and_by_defaults_for_those_it_lacks() -> None:
    assert of_prototype() == (500, 200)
    assert of_prototype(scored_cpu_millicores=700, scored_memory_bytes=MIB) == (700, 1)


def test_pods_of_equal_deployments_are_told_apart_by_their_revision() -> None:
    cluster = Simulation().cluster
    cluster.add_node("a")
    for name in ("one", "two"):
        cluster.add_deployment("default", name, 1, PodTemplate(labels={"app": "web"}))
    state = cluster.read_cluster()

    one, two = state.pods
    assert one.owner is not None
    selector = state.controller_selectors[one.namespace, one.owner.uid]
    assert selector == LabelSelector(
        (
            Requirement("app", Operator.IN, ("web",)),
            Requirement("pod-template-hash", Operator.IN, (one.owner.uid,)),
        )
    )
    assert (selector.matches(one.labels), selector.matches(two.labels)) == (True, False)


def test_the_pods_of_a_deployment_share_one_scheduling_class() -> None:
    cluster = Simulation().cluster
    cluster.add_node("a")
    cluster.add_deployment("default", "web", 2, PodTemplate())

    one, two = cluster.read_cluster().pods
    assert one.scheduling is two.scheduling
