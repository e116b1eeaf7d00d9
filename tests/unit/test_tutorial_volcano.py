"""The tutorial for Volcano: its objects are read, and the reports say what it shows."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml
from rich.console import Console

from desched.adapters.kubernetes.objects.network_topology import HYPER_NODES, hyper_nodes
from desched.adapters.kubernetes.objects.pod_groups import POD_GROUPS
from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.model.cluster import DeclaredGroup, SchedulingClass
from desched.model.report import Mode
from desched.model.resources import Amounts
from desched.model.state import State
from desched.policy.loading import load_policy
from desched.whatif.history import Usage
from desched.whatif.template import PodTemplate
from desched.whatif.world import Simulation
from tests.repository import ROOT
from tests.shown import print_shown

TUTORIAL = ROOT / "docs" / "tutorial-volcano.md"
POLICY = load_policy(ROOT / "policies" / "volcano-published.yaml").policy
NODES = [f"node{i}" for i in range(8)]
PLACES = ("node0", "node0", "node1", "node2", "node3")


def section(title: str) -> str:
    return TUTORIAL.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(title: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)


def objects(title: str) -> list[dict[str, Any]]:
    return [each for block in blocks(title, "yaml") for each in yaml.safe_load_all(block)]


def page(items: list[dict[str, Any]]) -> bytes:
    """The answer of an API server to a list request."""
    return msgspec.json.encode({"metadata": {}, "items": items})


def group(title: str) -> DeclaredGroup:
    (kind,) = POD_GROUPS["Volcano"]
    found: DeclaredGroup
    (found,) = kind.decoder().page(page(objects(title))).values
    return found


def report(title: str, usage: Mapping[str, int]) -> str:
    """What a dry run says on the cluster with the PodGroup of a section, on one line.

    `usage` is what the nodes use beside the training.
    """
    simulation = Simulation()
    cluster = simulation.cluster
    for name in NODES:
        cluster.add_node(name, host_usage=Usage(usage.get(name, 0), 0))
    cluster.add_namespace("train")
    llama = PodTemplate(
        scheduling=SchedulingClass(Amounts(500, 1 << 28, pods=1)),
        usage=Usage(800, 1 << 28),
        labels={"app": "llama"},
        annotations={"scheduling.k8s.io/group-name": "llama"},
        scheduler="volcano",
    )
    cluster.add_deployment("train", "llama", len(PLACES), llama, nodes=PLACES)
    simulation.clock.advance(3600)
    state = cluster.read_cluster()
    found = HYPER_NODES.decoder().page(page(objects("The network"))).values
    tree = hyper_nodes(found, state.nodes)
    around = msgspec.structs.replace(state, declared_groups=(group(title),), hyper_nodes=tree)
    cluster.adopt_surroundings(around)
    world = simulation.world(acting=False)
    seen, _ = run_cycle(world, POLICY, State(), CycleInfo(1, Mode.DRY_RUN, "test"))
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        print_shown(seen, console)
    return " ".join(capture.get().split())


def shown(title: str) -> list[str]:
    """The lines of reports that a section shows."""
    return [line.strip() for block in blocks(title, "text") for line in block.splitlines()]


def test_a_training_that_needs_all_its_pods_keeps_them() -> None:
    """R2.2: with the hard topology of the guide."""
    title = "A training that needs all its pods"
    text = report(title, {"node0": 2000})
    assert shown(title)
    assert [line for line in shown(title) if line not in text] == []


def test_a_training_that_can_spare_one_moves_it_below_its_spine() -> None:
    """R2.4."""
    title = "A training that can spare one"
    text = report(title, {"node0": 2000})
    assert [line for line in shown(title) if line not in text] == []
    assert "node0 → one of 4 nodes (25 % each); 3 nodes have room" in text  # s4 has four


def test_without_room_below_the_spine_none_moves() -> None:
    """R2.4: although the other spine is idle."""
    busy = dict.fromkeys(("node1", "node2", "node3"), 1800)
    text = report("A training that can spare one", {"node0": 2000, **busy})
    assert shown("No room below the spine")
    assert [line for line in shown("No room below the spine") if line not in text] == []
    assert "Would evict" not in text
