"""The demonstrations: real cycles relieve scenarios in virtual time."""

from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from desched.history.timeline import Timeline
from desched.lab.closed_loop import Descheduler
from desched.lab.demo_picture import RecordedScene, all_scenes
from desched.lab.gpu_cluster import OVERLOADED_RACK, RACK, RACKS, ai_workloads
from desched.lab.scenarios import (
    TRAINING,
    ai_scenario,
    gpus_scenario,
    guarded_scenario,
    steering_scenario,
)
from desched.lab.world import Simulation
from desched.model.cluster import ClusterState, Pod
from desched.model.plan import NodeClass, PlannedEviction, RefusalReason, ResourcePressure
from desched.model.report import CycleReport, EvictionVerdict
from desched.model.resources import Resource
from desched.planning.placement.forecast_trust import foreseen
from desched.plugins.devices import whole_gpus
from desched.policy.policy import Policy
from desched.policy_file.loading import parse_policy
from desched.views.blocks import grid, print_blocks, styled, table

INTERVAL_SECONDS = 300.0
LANDING_SECONDS = 60.0  # longer than the grace period and the start of a pod
QUIET_CYCLES = 3
MOST_CYCLES = 20
BAR_CELLS = 25
POLICY_FILE = "published-policy.yaml"
GPU_DRAINS_FILE = "gpu-drains-policy.yaml"

ReportPrinter = Callable[[CycleReport, Console], None]
TimelineSink = Callable[[Timeline, Timeline], object]


class Subject(NamedTuple):
    """What is wrong with a cluster at first: how to show it, and what is left of it.

    `reached` is the end of a sentence about a cluster of which nothing is left.
    """

    show: Callable[[str, CycleReport, ClusterState, Console], None]
    left: Callable[[CycleReport, ClusterState], str]
    reached: Callable[[ClusterState], str]


class Scene(NamedTuple):
    """A scenario and what introduces it; a page adds `name` to the names of its nodes."""

    scenario: Callable[[], Simulation]
    introduce: Callable[[Console], None] = lambda _: None
    name: str = ""


class Demonstration(NamedTuple):
    """Scenes one after the other, with the file of their policy; `about` describes them on a page.

    They are about overloaded nodes unless `subject` says otherwise.
    """

    scenes: tuple[Scene, ...]
    target: str
    about: str
    policy: str = POLICY_FILE
    subject: Subject | None = None


def run_demo(
    console: Console,
    print_report: ReportPrinter,
    keep: TimelineSink | None = None,
    scenario: str = "load",
) -> int:
    """Run all scenes; returns 0 if at the end of each nothing is left of its subject, else 1.

    Only the cluster and the time are simulated; all other code is that of a live run.
    `print_report` shows the report of each cycle that acts. `keep` gets what happened to the nodes
    without and with desched. `scenario` is a key of `DEMONSTRATIONS`.
    """
    shown = DEMONSTRATIONS[scenario]
    policy = demo_policy(shown.policy)
    scenes = [RecordedScene(scene.name, scene.scenario, policy) for scene in shown.scenes]
    console.print(Text(f"A {shown.target}, policy {shown.policy}, in virtual time.\n"))
    code = 0
    for number, (each, recorded) in enumerate(zip(shown.scenes, scenes, strict=True)):
        if number:
            console.print()
        each.introduce(console)
        code |= _run_scene(recorded, shown, console, print_report)
    if keep is not None:
        keep(*all_scenes(scenes))
    return code


def _introduce_steering(console: Console) -> None:
    console.rule("Second scene: pods that request little and use much")
    console.print(Text(_without_taints(), style="yellow"))
    console.print(Text("With soft taints they can. The taints go when the moves have settled.\n"))


def _without_taints() -> str:
    """What a run without the right to patch nodes would leave in place, and why."""
    world = steering_scenario().world(acting=True)._replace(may_steer=lambda: False)
    plan = Descheduler(demo_policy(), "").cycle(world).plan
    risky = [r for r in plan.refusals if r.reason is RefusalReason.LANDING_RISK]
    count = len(plan.evictions) or "no"
    return (
        f"Without soft taints, {count} pods would move: kube-scheduler would put {len(risky)} of "
        "those on te1 straight back."
    )


def _introduce_ai(console: Console) -> None:
    """Say who runs on the overloaded rack."""
    console.print(Text(f"Rack {OVERLOADED_RACK} is overloaded. On it are pods of:"))
    on_it = (w for w in ai_workloads() if not set(RACKS[OVERLOADED_RACK]).isdisjoint(w.nodes))
    console.print(grid([Text(f"  {w.namespace}/{w.name} "), Text(w.about)] for w in on_it))
    console.print(
        Text('Inference may move by desched.io/evict: "true"; other pods with a GPU stay.')
    )
    console.print()


def _run_scene(
    scene: RecordedScene, shown: Demonstration, console: Console, print_report: ReportPrinter
) -> int:
    """Run cycles until several in a row evict nothing."""
    simulation, world = scene.simulation, scene.world()
    desched = Descheduler(demo_policy(shown.policy), shown.target)
    subject = shown.subject or Subject(_print_load, _overloaded, lambda _: _NOT_OVERLOADED)
    moved = quiet = number = 0
    while True:
        number += 1
        before = world.cluster.read_cluster()
        report = desched.cycle(world)
        scene.add(report)
        if number == 1:
            subject.show("Before", report, before, console)
        gone = _evicted(report)
        quiet = 0 if gone else quiet + 1
        moved += len(gone)
        if gone:
            console.rule(f"Cycle {number}")
            print_report(report, console)
            simulation.clock.advance(LANDING_SECONDS)
            _print_landings(gone, before.pods, simulation, console)
            simulation.clock.advance(INTERVAL_SECONDS - LANDING_SECONDS)
        else:
            time = f"{report.started_at:%H:%M}"
            console.print(Text(f"Cycle {number}, {time}: {report.result}, no eviction."))
            simulation.clock.advance(INTERVAL_SECONDS)
        if quiet == QUIET_CYCLES or number == MOST_CYCLES:
            break
    console.print()
    after = world.cluster.read_cluster()
    subject.show("After", report, after, console)
    left = subject.left(report, after)
    if left or quiet < QUIET_CYCLES:
        cause = left or "evictions continued"
        console.print(Text(f"Not reached: {cause}. This is a bug in desched."))
        return 1
    console.print(
        Text(
            f"{moved} pod{'' if moved == 1 else 's'} moved, {subject.reached(after)}, and "
            f"the last {quiet} cycles evicted nothing.",
            style="bold green",
        )
    )
    return 0


def demo_policy(file: str = POLICY_FILE) -> Policy:
    """The policy in a file of this package, the published one by default."""
    text = resources.files("desched.lab").joinpath(file).read_text("utf-8")
    return parse_policy(text, file).policy


_NOT_OVERLOADED = "no node is overloaded any more"


def _overloaded(report: CycleReport, _: ClusterState) -> str:
    """The overloaded nodes."""
    verdicts = report.plan.nodes
    return ", ".join(v.node for v in verdicts if v.node_class is NodeClass.OVERLOADED)


def _waiting(_: CycleReport, cluster: ClusterState) -> str:
    """The pods that wait for a node."""
    waiting = [str(pod.ref) for pod in cluster.pods if not pod.node]
    return f"{', '.join(waiting)} without a node" if waiting else ""


def _training(cluster: ClusterState) -> str:
    (pod,) = (pod for pod in cluster.pods if pod.labels.get("app") == TRAINING)
    return f"{pod.ref} has {whole_gpus(pod.scheduling.requests)} GPUs of {pod.node}"


def _evicted(report: CycleReport) -> list[PlannedEviction]:
    """The evictions that were made, as planned."""
    planned = {eviction.pod: eviction for eviction in report.plan.evictions}
    return [
        planned[outcome.pod]
        for outcome in report.outcomes
        if outcome.verdict is EvictionVerdict.EVICTED
    ]


# --- what is shown ----------------------------------------------------------------------------


def _print_landings(
    gone: Iterable[PlannedEviction], before: Iterable[Pod], simulation: Simulation, console: Console
) -> None:
    """Show where each pod went: its replacement is the new pod of the same owner."""
    old = {pod.uid: pod for pod in before}
    arrived = [pod for pod in simulation.cluster.read_cluster().pods if pod.uid not in old]
    console.print(Text("\nOne minute later:", style="bold"))
    for eviction in gone:
        evicted = old[eviction.pod.uid]
        successor = next(pod for pod in arrived if pod.owner == evicted.owner)
        arrived.remove(successor)
        state = "Ready" if successor.ready else "not Ready yet"
        as_expected = successor.node in foreseen(eviction)
        forecast = "as expected" if as_expected else f"expected on {eviction.expected_on}"
        sentence = (
            f"  {evicted.name} left {evicted.node}; its replacement {successor.name} is "
            f"{state} on {successor.node or 'no node'} ({forecast})."
        )
        console.print(Text(sentence, style="green"))
    console.print()


def _print_load(title: str, report: CycleReport, cluster: ClusterState, console: Console) -> None:
    """Show the CPU of each node as a bar, with a mark at the target, and its rack if it has one."""
    racks = {node.name: node.labels.get(RACK, "") for node in cluster.nodes}
    rows = []
    for verdict in sorted(report.plan.nodes, key=lambda verdict: (len(verdict.node), verdict.node)):
        (cpu,) = (p for p in verdict.pressures if p.resource is Resource.CPU)
        ratio = cpu.measured[0][1]
        node_class = verdict.node_class.replace("_", " ")
        cells = verdict.node, _bar(cpu, ratio), f"{ratio * 100:.1f}", node_class
        rows.append((*cells, racks[verdict.node]))
    shown = table(("Node", "CPU", "%", "State", "Rack"), rows)
    print_blocks((styled(title), shown), console)
    console.print()


def _print_gpus(title: str, _: CycleReport, cluster: ClusterState, console: Console) -> None:
    """Show which GPUs of each node pods hold, and which pods wait."""
    rows = []
    for node in cluster.nodes:
        pods = [pod for pod in cluster.pods_by_node.get(node.name, ()) if not pod.finished]
        used = sum(whole_gpus(pod.scheduling.requests) for pod in pods)
        cells = "█" * used + "░" * (whole_gpus(node.allocatable) - used)
        names = ", ".join(pod.name for pod in pods)
        style = "green" if used in {0, whole_gpus(node.allocatable)} else "yellow"
        rows.append((node.name, Text(cells, style=style), node.labels[RACK], names))
    print_blocks((styled(title), table(("Node", "GPUs in use", "Rack", "Pods"), rows)), console)
    for pod in cluster.pods:
        if not pod.node:
            gpus = whole_gpus(pod.scheduling.requests)
            console.print(Text(f"{pod.ref} waits for {gpus} GPUs of one node.", style="yellow"))
    console.print()


def _bar(pressure: ResourcePressure, ratio: float) -> Text:
    full = round(ratio * BAR_CELLS)
    mark = round(pressure.target_ratio * BAR_CELLS)
    cells = "█" * full + "░" * (BAR_CELLS - full)
    return Text(f"{cells[:mark]}┃{cells[mark:]}", style="red" if pressure.overloaded else "green")


DEMONSTRATIONS: Mapping[str, Demonstration] = {
    "load": Demonstration(
        (
            Scene(guarded_scenario, name="first scene"),
            Scene(steering_scenario, _introduce_steering, "second scene"),
        ),
        "simulated cluster te1 … te5",
        "Two scenes of five nodes each, side by side. Nodes and time are simulated.",
    ),
    "ai": Demonstration(
        (Scene(ai_scenario, _introduce_ai),),
        "simulated cluster te1 … te16",
        "Sixteen nodes with GPUs in four racks. Nodes and time are simulated.",
    ),
    "gpus": Demonstration(
        (Scene(gpus_scenario),),
        "simulated cluster g1 … g8",
        "Eight nodes with eight GPUs each, in two racks. Nodes and time are simulated.",
        GPU_DRAINS_FILE,
        Subject(_print_gpus, _waiting, _training),
    ),
}
"""What can be shown, by the name of the scenario."""
