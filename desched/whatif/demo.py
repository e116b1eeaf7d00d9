"""The demonstrations: real cycles relieve scenarios in virtual time."""

from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from desched.history.timeline import Timeline
from desched.model.cluster import Node, Pod
from desched.model.plan import (
    NodeClass,
    NodeVerdict,
    PlannedEviction,
    RefusalReason,
    ResourcePressure,
)
from desched.model.report import CycleReport, EvictionVerdict
from desched.model.resources import Resource
from desched.policy.loading import parse_policy
from desched.policy.policy import Policy
from desched.whatif.closed_loop import Descheduler
from desched.whatif.demo_picture import RecordedScene, all_scenes
from desched.whatif.gpu_cluster import OVERLOADED_RACK, RACK, RACKS, ai_workloads
from desched.whatif.scenarios import ai_scenario, guarded_scenario, steering_scenario
from desched.whatif.world import Simulation

INTERVAL_SECONDS = 300.0
LANDING_SECONDS = 60.0  # longer than the grace period and the start of a pod
QUIET_CYCLES = 3
MOST_CYCLES = 20
BAR_CELLS = 25
POLICY_FILE = "published-policy.yaml"

ReportPrinter = Callable[[CycleReport, Console], None]
TimelineSink = Callable[[Timeline, Timeline], object]


class Scene(NamedTuple):
    """A scenario and what introduces it; a page adds `name` to the names of its nodes."""

    scenario: Callable[[], Simulation]
    introduce: Callable[[Console], None] = lambda _: None
    name: str = ""


class Demonstration(NamedTuple):
    """Scenes one after the other; `about` says on a page what they are."""

    scenes: tuple[Scene, ...]
    target: str
    about: str


def run_demo(
    console: Console,
    print_report: ReportPrinter,
    keep: TimelineSink | None = None,
    scenario: str = "load",
) -> int:
    """Run all scenes; returns 0 if no node is overloaded at the end of each, else 1.

    Only the cluster and the time are simulated; all other code is that of a live run.
    `print_report` shows the report of each cycle that acts. `keep` gets what happened to the nodes
    without and with desched. `scenario` is a key of `DEMONSTRATIONS`.
    """
    shown, policy = DEMONSTRATIONS[scenario], demo_policy()
    scenes = [RecordedScene(each.name, each.scenario, policy) for each in shown.scenes]
    console.print(Text(f"A {shown.target}, policy {POLICY_FILE}, in virtual time.\n"))
    code = 0
    for number, (each, recorded) in enumerate(zip(shown.scenes, scenes, strict=True)):
        if number:
            console.print()
        each.introduce(console)
        code |= _run_scene(recorded, shown.target, console, print_report)
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
    table = Table.grid(padding=(0, 2))
    for each in ai_workloads():
        if not set(RACKS[OVERLOADED_RACK]).isdisjoint(each.nodes):
            table.add_row(Text(f"  {each.namespace}/{each.name}"), Text(each.about))
    console.print(table)
    console.print(
        Text('Inference may move by desched.io/evict: "true"; other pods with a GPU stay.')
    )
    console.print()


def _run_scene(
    scene: RecordedScene, target: str, console: Console, print_report: ReportPrinter
) -> int:
    """Run cycles until several in a row evict nothing."""
    simulation, world, desched = scene.simulation, scene.world(), Descheduler(demo_policy(), target)
    nodes = world.cluster.read_cluster().nodes
    moved = quiet = number = 0
    verdicts: tuple[NodeVerdict, ...] = ()
    while quiet < QUIET_CYCLES and number < MOST_CYCLES:
        number += 1
        pods_before = world.cluster.read_cluster().pods
        report = desched.cycle(world)
        scene.add(report)
        verdicts = report.plan.nodes
        if number == 1:
            _print_load("Before", verdicts, nodes, console)
        gone = _evicted(report)
        quiet = 0 if gone else quiet + 1
        moved += len(gone)
        if gone:
            console.rule(f"Cycle {number}")
            print_report(report, console)
            simulation.clock.advance(LANDING_SECONDS)
            _print_landings(gone, pods_before, simulation, console)
            simulation.clock.advance(INTERVAL_SECONDS - LANDING_SECONDS)
        else:
            time = f"{report.started_at:%H:%M}"
            console.print(Text(f"Cycle {number}, {time}: {report.result}, no eviction."))
            simulation.clock.advance(INTERVAL_SECONDS)
    console.print()
    _print_load("After", verdicts, nodes, console)
    overloaded = [v.node for v in verdicts if v.node_class is NodeClass.OVERLOADED]
    if overloaded or quiet < QUIET_CYCLES:
        failure = ", ".join(overloaded) or "evictions continued"
        console.print(Text(f"Not relieved: {failure}. This is a bug in desched."))
        return 1
    sentence = (
        f"{moved} pod{'' if moved == 1 else 's'} moved, no node is overloaded any more, and "
        f"the last {quiet} cycles evicted nothing."
    )
    console.print(Text(sentence, style="bold green"))
    return 0


def demo_policy() -> Policy:
    """The published policy."""
    text = resources.files("desched.whatif").joinpath(POLICY_FILE).read_text("utf-8")
    return parse_policy(text, POLICY_FILE).policy


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
        as_expected = successor.node in eviction.likely_nodes
        forecast = "as expected" if as_expected else f"expected on {eviction.expected_on}"
        sentence = (
            f"  {evicted.name} left {evicted.node}; its replacement {successor.name} is "
            f"{state} on {successor.node or 'no node'} ({forecast})."
        )
        console.print(Text(sentence, style="green"))
    console.print()


def _print_load(
    title: str, verdicts: Iterable[NodeVerdict], nodes: Iterable[Node], console: Console
) -> None:
    """Show the CPU of each node as a bar, with a mark at the target, and its rack if it has one."""
    racks = {node.name: node.labels.get(RACK, "") for node in nodes}
    console.print(Text(title, style="bold"))
    table = Table(box=None, pad_edge=False)
    for heading in ("Node", "CPU", "%", "State", *(["Rack"] if any(racks.values()) else [])):
        table.add_column(heading, justify="right" if heading == "%" else "left")
    for verdict in sorted(verdicts, key=lambda verdict: (len(verdict.node), verdict.node)):
        (cpu,) = (p for p in verdict.pressures if p.resource is Resource.CPU)
        ratio = cpu.measured[0][1]
        node_class = verdict.node_class.replace("_", " ")
        cells = verdict.node, _bar(cpu, ratio), f"{ratio * 100:.1f}", node_class
        table.add_row(*cells, racks.get(verdict.node))
    console.print(table)
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
}
"""What can be shown, by the name of the scenario."""
