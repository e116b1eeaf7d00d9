"""The tutorial for Volcano: its objects are read, and the reports say what it shows."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml
from rich.console import Console

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.gangs.objects import DeclaredGroup, GangObjects
from desched.lab.history import Usage
from desched.lab.scenarios import published_nodes
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import SchedulingClass
from desched.model.report import CycleReport, Mode
from desched.model.resources import Amounts
from desched.model.state import State
from desched.network.objects import NetworkObjects
from desched.plugins.gangs.pod_groups import POD_GROUPS
from desched.plugins.networks.kinds import HYPER_NODES, hyper_nodes
from desched.policy.policy import Policy
from desched.policy_file.loading import load_policy, parse_policy, validate_policy
from tests.repository import ROOT
from tests.shown import print_shown

TUTORIAL = ROOT / "docs" / "tutorial-volcano.md"
NETWORK = ROOT / "docs" / "examples" / "volcano-hyper-nodes.yaml"
PUBLISHED = ROOT / "policies" / "volcano-published.yaml"
POLICY = load_policy(PUBLISHED).policy
NODES = [f"node{i}" for i in range(8)]
PLACES = ("node0", "node0", "node1", "node2", "node3")


def section(title: str) -> str:
    return TUTORIAL.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(title: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)


def objects(title: str) -> list[dict[str, Any]]:
    return [each for block in blocks(title, "yaml") for each in yaml.safe_load_all(block)]


def network() -> list[dict[str, Any]]:
    """The HyperNodes that the page links to."""
    assert f"(examples/{NETWORK.name})" in section("The network")
    return list(yaml.safe_load_all(NETWORK.read_text()))


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
    found = HYPER_NODES.decoder().page(page(network())).values
    tree = hyper_nodes(found, state.nodes)
    around = msgspec.structs.replace(
        state, extras={**GangObjects((group(title),)).extras, **NetworkObjects(tree).extras}
    )
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


PASTED = "The overload of the guide, as pasted"
STRESS_SECONDS = 600
LOOK_SECONDS = 15


def changed_document(title: str) -> str:
    """The published policy with the keys that the section shows, as JSON."""
    (keys,) = (each for each in objects(title) if "kind" not in each)
    document = yaml.safe_load(yaml.safe_load(PUBLISHED.read_text())["data"]["policy.yaml"])
    for plugin in document["profiles"][0]["pluginConfig"]:
        if plugin["name"] == "LoadAware":
            plugin["args"] |= keys
    return json.dumps(document)


def changed_policy(title: str) -> Policy:
    return parse_policy(changed_document(title), "policy.yaml").policy


def since_stress(policy: Policy) -> tuple[int | None, CycleReport]:
    """After how many seconds of stress the first pod is evicted, and the last report.

    All pods are in the namespace default, and the stress has just ended if none is evicted.
    """
    simulation, stress = published_nodes("default", 3600)
    simulation.cluster.add_pod("default", "stress", stress, "te3")
    world, state = simulation.world(acting=True), State()
    for second in range(0, STRESS_SECONDS + 1, LOOK_SECONDS):
        report, _ = run_cycle(world, policy, state, CycleInfo(1, Mode.EVICT, "test"))
        if report.outcomes:
            return second, report
        state = report.state
        simulation.clock.advance(LOOK_SECONDS)
    return None, report


def test_the_guide_as_pasted_evicts_nothing_and_says_why() -> None:
    """S2.9: the policy excludes the namespace of its own manifests."""
    after, report = since_stress(POLICY)
    assert after is None
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        print_shown(report, console)
    findings = validate_policy(PUBLISHED.read_text(), PUBLISHED.name).findings
    text = " ".join(
        (*capture.get().split(), *(f"{f.severity}: {f.key} {f.text}" for f in findings))
    )
    assert [line for line in shown(PASTED) if line not in text] == []


def test_with_another_namespace_excluded_a_pod_leaves_before_the_stress_ends() -> None:
    """S2.9: by the other keys as they are in the guide."""
    protections = msgspec.structs.replace(POLICY.protections, excluded_namespaces=("kube-system",))
    after, report = since_stress(msgspec.structs.replace(POLICY, protections=protections))
    assert after is not None
    assert 240 <= after <= 300
    assert {e.pod.name.rpartition("-")[0] for e in report.plan.evictions} == {
        "low-priority-workload"
    }


def test_with_the_keys_of_the_page_it_leaves_after_two_minutes() -> None:
    """S2.9."""
    after, report = since_stress(changed_policy(PASTED))
    assert after is not None
    assert 90 <= after <= 120
    (stays,) = (r for r in report.plan.refusals if r.pod.name == "stress")
    assert stays.reason == "bare_pod"


def test_the_line_about_the_scheduler_is_what_the_policy_reads() -> None:
    policy = changed_policy("Volcano places the replacement")
    assert [other.profile for other in policy.scheduler.others.values()] == ["Volcano"]
