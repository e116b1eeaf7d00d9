"""Small clusters for the demonstration and for tests, an hour old: all windows are covered."""

from msgspec.structs import replace

from desched.lab.budgets import SimulatedBudget
from desched.lab.gpu_cluster import (
    CPU_MILLICORES,
    EXTRAS,
    GPU,
    RACK,
    ai_nodes,
    ai_workloads,
)
from desched.lab.history import IDLE, Usage
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import PersistentVolumeClaim, PodVolume, SchedulingClass, VolumeKind
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, Operator, Requirement

NODES = ("te1", "te2", "te3", "te4", "te5")
OVERLOADED_NODE = "te3"
LOW_PRIORITY_WORKLOAD = "low-priority-workload"
SETTLED_SECONDS = 3600.0
MIB = 1024**2

GPU_RACKS = {"r1": ("g1", "g2", "g3", "g4"), "r2": ("g5", "g6", "g7", "g8")}
GPUS_PER_NODE = 8
TRAINING = "llama"


def published_scenario(stress_priority: int = 0) -> Simulation:
    """The load-aware scenario published for Volcano: te3 uses 87.5 % of its CPU, te5 is idle.

    On te3, a bare pod uses two of four cores. Each of three pods of a Deployment with low priority
    uses half a core, although it requests less. The other nodes except te5 have a small load.
    """
    simulation = _published(stress_priority)
    simulation.clock.advance(SETTLED_SECONDS)
    return simulation


def guarded_scenario(guard_usage: Usage = IDLE) -> Simulation:
    """The published scenario with four more pods on te3 that must stay, each for another reason.

    The reasons are the priority threshold, a claim, an excluded namespace and an exhausted budget.
    `guard_usage` is the usage of each of these pods.
    """
    simulation = _published(stress_priority=0)
    cluster = simulation.cluster
    cluster.priority_classes["high-priority"] = 10_000
    claim = PersistentVolumeClaim("demo", "ledger-data", "fast", "pv-1")
    cluster.claims[claim.namespace, claim.name] = claim
    quorum = LabelSelector((Requirement("app", Operator.IN, ("quorum",)),))
    cluster.add_budget(SimulatedBudget("demo", "quorum", quorum, min_available=2))
    for namespace, template, other_node in (
        ("demo", _template("payments", guard_usage, priority_class="high-priority"), "te1"),
        ("demo", _template("ledger", guard_usage, claim=claim.name), "te2"),
        ("default", _template("frontend", guard_usage), "te4"),
        ("demo", _template("quorum", guard_usage), "te1"),
    ):
        nodes = (OVERLOADED_NODE, other_node)
        cluster.add_deployment(namespace, template.labels["app"], 2, template, nodes=nodes)
    simulation.clock.advance(SETTLED_SECONDS)
    return simulation


def steering_scenario() -> Simulation:
    """Pods on te1 request little and use much: kube-scheduler would put each straight back.

    te1 uses 85 % of its CPU and looks almost free by requests. The other nodes use little and look
    almost full.
    """
    simulation = Simulation()
    cluster = simulation.cluster
    for name in NODES:
        cluster.add_node(name, cpu_millicores=4000, memory_bytes=16 * 1024 * MIB)
    cluster.add_namespace("shop")
    reserved = _template("reserved", Usage(200, 256 * MIB), request_cpu_millicores=3000)
    cluster.add_deployment("shop", "reserved", len(NODES) - 1, reserved, nodes=NODES[1:])
    for app, usage_millicores, sibling in (
        ("cart", 900, "te2"),
        ("checkout", 900, "te3"),
        ("search", 1600, "te4"),
    ):
        template = _template(app, Usage(usage_millicores, 512 * MIB))
        cluster.add_deployment("shop", app, 2, template, nodes=("te1", sibling))
    simulation.clock.advance(SETTLED_SECONDS)
    return simulation


def ai_scenario() -> Simulation:
    """Training, inference, fast networks and model caches; a rack uses 85 % of its CPU."""
    simulation = Simulation()
    cluster = simulation.cluster
    for node in ai_nodes():
        cluster.add_node(
            node.name,
            cpu_millicores=CPU_MILLICORES,
            memory_bytes=64 * 1024 * MIB,
            labels=node.labels,
            extended=node.devices,
        )
    empty = cluster.read_cluster()
    cluster.adopt_surroundings(replace(empty, extras=EXTRAS))
    for ai_workload in ai_workloads():
        cluster.add_namespace(ai_workload.namespace)
        if ai_workload.bare:
            cluster.add_pod(
                ai_workload.namespace, ai_workload.name, ai_workload.template, ai_workload.nodes[0]
            )
            continue
        cluster.add_deployment(
            ai_workload.namespace,
            ai_workload.name,
            len(ai_workload.nodes),
            ai_workload.template,
            annotations=ai_workload.annotations,
            nodes=ai_workload.nodes,
        )
    simulation.clock.advance(SETTLED_SECONDS)
    return simulation


def gpus_scenario() -> Simulation:
    """A pod waits for eight GPUs of one node: 56 are idle, but each node has one in use.

    Each of eight pods of a Deployment, spread over two racks of four nodes, has one GPU.
    """
    simulation = Simulation()
    cluster = simulation.cluster
    nodes = [(name, rack) for rack, names in GPU_RACKS.items() for name in names]
    for name, rack in nodes:
        cluster.add_node(
            name,
            cpu_millicores=64_000,
            memory_bytes=512 * 1024 * MIB,
            labels={RACK: rack},
            extended={GPU: GPUS_PER_NODE},
        )
    for namespace in ("research", "train"):
        cluster.add_namespace(namespace)
    small = _gpu_template("notebook", 1)
    names = [name for name, _ in nodes]
    cluster.add_deployment("research", "notebook", len(nodes), small, nodes=names)
    cluster.add_deployment("train", TRAINING, 1, _gpu_template(TRAINING, GPUS_PER_NODE))
    simulation.clock.advance(SETTLED_SECONDS)
    return simulation


def _gpu_template(app: str, gpus: int) -> PodTemplate:
    """A pod with this number of GPUs that uses four cores for each."""
    requests = Amounts(gpus * 4000, gpus * 32 * 1024 * MIB, pods=1, extended=((GPU, gpus),))
    return PodTemplate(
        scheduling=SchedulingClass(requests),
        usage=Usage(gpus * 4000, gpus * 8 * 1024 * MIB),
        labels={"app": app},
    )


def _published(stress_priority: int) -> Simulation:
    simulation, stress = published_nodes("demo")
    simulation.cluster.priority_classes["stress"] = stress_priority
    simulation.cluster.add_pod("demo", "stress", stress, OVERLOADED_NODE)
    return simulation


def published_nodes(namespace: str, settled_seconds: float = 0) -> tuple[Simulation, PodTemplate]:
    """The published scenario in this namespace without its stress, and the template of that pod."""
    simulation = Simulation()
    cluster = simulation.cluster
    for name in NODES:
        cluster.add_node(name, cpu_millicores=4000, memory_bytes=16 * 1024 * MIB)
    cluster.add_namespace(namespace)
    cluster.add_namespace("shop")
    cluster.priority_classes |= {"low-priority": 1_000, "stress": 0}
    low_priority = _template(
        LOW_PRIORITY_WORKLOAD,
        Usage(500, 200 * MIB),
        request_cpu_millicores=300,
        priority_class="low-priority",
        scheduler="volcano",
    )
    cluster.add_deployment(
        namespace,
        LOW_PRIORITY_WORKLOAD,
        3,
        low_priority,
        annotations={"volcano.sh/preemptable": "true"},
        nodes=[OVERLOADED_NODE] * 3,
    )
    web = _template("web", Usage(300, 700 * MIB), request_cpu_millicores=250)
    nodes = ["te1"] * 3 + ["te2"] * 4 + ["te4"] * 2
    cluster.add_deployment("shop", "web", len(nodes), web, nodes=nodes)
    simulation.clock.advance(settled_seconds)
    usage = Usage(2000, 256 * MIB)
    return simulation, PodTemplate(usage=usage, labels={"app": "stress"}, priority_class="stress")


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
