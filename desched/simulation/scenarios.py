"""Clusters worth looking at, ready to run: an hour has passed, so every window is covered."""

from collections.abc import Sequence

from desched.model.cluster import PersistentVolumeClaim, PodVolume, SchedulingClass, VolumeKind
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.simulation.budgets import SimulatedBudget
from desched.simulation.history import IDLE, Usage
from desched.simulation.template import PodTemplate
from desched.simulation.world import Simulation

NODES = ("te1", "te2", "te3", "te4", "te5")
HOT_NODE = "te3"
LOW_PRIORITY_WORKLOAD = "low-priority-workload"
SETTLED_SECONDS = 3600.0

MIB = 1024**2


def published_scenario(stress_priority: int = 0) -> Simulation:
    """The load-aware scenario published for Volcano: te3 stands at 87.5 % CPU, te5 is idle.

    On te3 a bare pod uses two of four cores, and three pods of a Deployment of low priority half a
    core each, although they request less. The others carry a little load, except te5.
    """
    simulation = _published(stress_priority)
    simulation.clock.advance(SETTLED_SECONDS)
    return simulation


def guarded_scenario(guard_usage: Usage = IDLE) -> Simulation:
    """The published scenario with pods on te3 that must stay, each for a reason of its own.

    One is at the priority threshold, one has a claim, one lives in an excluded namespace and one is
    under an exhausted budget; `guard_usage` is what each of them uses.
    """
    simulation = _published(stress_priority=0)
    cluster = simulation.cluster
    cluster.add_priority_class("high-priority", 10_000)
    cluster.add_claim(PersistentVolumeClaim("demo", "ledger-data", "fast", "pv-1"))
    ledger = LabelSelector((Requirement("app", Operator.IN, ("quorum",)),))
    cluster.add_budget(SimulatedBudget("demo", "quorum", ledger, min_available=2))
    cluster.add_deployment(
        "demo",
        "payments",
        2,
        _template("payments", guard_usage, priority_class="high-priority"),
        nodes=(HOT_NODE, "te1"),
    )
    cluster.add_deployment(
        "demo",
        "ledger",
        2,
        _template("ledger", guard_usage, claim="ledger-data"),
        nodes=(HOT_NODE, "te2"),
    )
    cluster.add_deployment(
        "default", "frontend", 2, _template("frontend", guard_usage), nodes=(HOT_NODE, "te4")
    )
    cluster.add_deployment(
        "demo", "quorum", 2, _template("quorum", guard_usage), nodes=(HOT_NODE, "te1")
    )
    simulation.clock.advance(SETTLED_SECONDS)
    return simulation


def _published(stress_priority: int) -> Simulation:
    simulation = Simulation()
    cluster = simulation.cluster
    for name in NODES:
        cluster.add_node(name, cpu_millicores=4000, memory_bytes=16 * 1024 * MIB)
    cluster.add_namespace("demo")
    cluster.add_namespace("shop")
    cluster.add_priority_class("low-priority", 1_000)
    cluster.add_priority_class("stress", stress_priority)

    stress = PodTemplate(
        usage=Usage(2000, 256 * MIB), labels={"app": "stress"}, priority_class="stress"
    )
    cluster.add_pod("demo", "stress", stress, HOT_NODE)
    low_priority = _template(
        LOW_PRIORITY_WORKLOAD,
        Usage(500, 200 * MIB),
        request_cpu_millicores=300,
        priority_class="low-priority",
        scheduler="volcano",
    )
    cluster.add_deployment(
        "demo",
        LOW_PRIORITY_WORKLOAD,
        3,
        low_priority,
        annotations={"volcano.sh/preemptable": "true"},
        nodes=[HOT_NODE] * 3,
    )
    _add_background(simulation, ("te1", "te1", "te1", "te2", "te2", "te2", "te2", "te4", "te4"))
    return simulation


def _add_background(simulation: Simulation, nodes: Sequence[str]) -> None:
    web = _template("web", Usage(300, 700 * MIB), request_cpu_millicores=250)
    simulation.cluster.add_deployment("shop", "web", len(nodes), web, nodes=nodes)


def _template(
    app: str,
    usage: Usage,
    *,
    request_cpu_millicores: int = 100,
    priority_class: str = "",
    scheduler: str = "default-scheduler",
    claim: str = "",
) -> PodTemplate:
    requests = Amounts(cpu_millicores=request_cpu_millicores, memory_bytes=256 * MIB, pods=1)
    return PodTemplate(
        scheduling=SchedulingClass(requests),
        usage=usage,
        labels={"app": app},
        priority_class=priority_class,
        scheduler=scheduler,
        volumes=(PodVolume(VolumeKind.CLAIM, claim),) if claim else (),
    )
