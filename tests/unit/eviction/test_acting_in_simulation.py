"""Acting on a cluster that reacts: budgets are spent, and free up with each replacement."""

from itertools import pairwise

import pytest

from desched.eviction.executor import carry_out
from desched.eviction.journal import Journal
from desched.eviction.requests import Acting
from desched.lab.budgets import SimulatedBudget
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import Pod, SchedulingClass
from desched.model.plan import Plan, PlannedEviction
from desched.model.report import Outcome
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector
from desched.model.state import State
from desched.observation import observe
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.pod_usage import UsageBook
from tests.builders import planned_eviction, policy


def planned(pod: Pod) -> PlannedEviction:
    assert pod.owner is not None
    return planned_eviction(pod.ref, pod.node, "cool", workload_uid=pod.owner.uid)


def cluster(*, free_nodes: int) -> Simulation:
    """A Deployment of three, each on a node that it fills; its budget lets one of them be away."""
    made = Simulation()
    for name in ("a", "b", "c", *(f"free-{i}" for i in range(free_nodes))):
        made.cluster.add_node(name)
    made.cluster.add_namespace("shop")
    large = PodTemplate(scheduling=SchedulingClass(Amounts(cpu_millicores=3000, pods=1)))
    made.cluster.add_deployment("shop", "web", 3, large, nodes=("a", "b", "c"))
    guard = SimulatedBudget("shop", "guard", LabelSelector(), min_available=2)
    made.cluster.add_budget(guard)
    made.clock.advance(3600)
    return made


def carried_out(simulation: Simulation) -> tuple[Outcome, ...]:
    """Evict all three, as if a plan had chosen them."""
    by, world = policy(), simulation.world(acting=True)
    assert world.evictor is not None
    seen = observe(world, by)
    context = EligibilityContext.of(UsageBook(seen, by, seen.taken_at), State())
    journal = Journal(State(), lambda _: None, by.follow_up, world.clock)
    acting = Acting(world, context, journal)
    return carry_out(Plan((), tuple(planned(pod) for pod in seen.cluster.pods)), acting)


@pytest.mark.parametrize(("free_nodes", "pause_seconds"), [(3, 5.0), (0, 35.0)])
def test_pods_under_one_budget_go_one_after_the_other_as_replacements_become_ready(
    free_nodes: int, pause_seconds: float
) -> None:
    """A replacement needs 5 s, and without a free node also the 30 s that the old pod takes."""
    outcomes = carried_out(cluster(free_nodes=free_nodes))
    assert [outcome.verdict.value for outcome in outcomes] == ["evicted"] * 3
    pauses = [(later.at - earlier.at).total_seconds() for earlier, later in pairwise(outcomes)]
    assert pauses == [pause_seconds, pause_seconds]
