"""Real cycles relieve the published scenario in virtual time."""

from collections import Counter
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.errors import ObservationError, ObservationSource
from desched.history.timeline import Timeline
from desched.lab import demo
from desched.lab.closed_loop import Descheduler
from desched.lab.gpu_cluster import RACKS, RIGHT_RACK
from desched.lab.history import Usage
from desched.lab.scenarios import (
    LOW_PRIORITY_WORKLOAD,
    OVERLOADED_NODE,
    ai_scenario,
    guarded_scenario,
    published_scenario,
    steering_scenario,
)
from desched.lab.world import Simulation
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad
from desched.model.plan import RefusalReason
from desched.model.report import CycleReport, CycleResult, Mode
from desched.model.resources import Resource
from desched.model.state import MoveResult, State
from desched.policy.policy import Policy
from desched.ports import ChoosePods, LoadReader, all_pods
from tests.repository import ROOT
from tests.shown import print_shown

INTERVAL_SECONDS = 300
POLICIES = ROOT / "policies"


class Refused:
    """The LoadReader port of a Prometheus that is down."""

    def read_load(
        self,
        cluster: ClusterState,  # noqa: ARG002  (part of the port)
        policy: Policy,  # noqa: ARG002  (part of the port)
        choose: ChoosePods = all_pods,  # noqa: ARG002  (part of the port)
    ) -> ClusterLoad:
        raise ObservationError(ObservationSource.PROMETHEUS, "refused")


def run(
    simulation: Simulation,
    cycles: int,
    mode: Mode = Mode.EVICT,
    load: LoadReader | None = None,
) -> list[CycleReport]:
    world = simulation.world(acting=mode is Mode.EVICT)
    world = world._replace(load=load or world.load)
    policy, state, reports = demo.demo_policy(), State(), []
    for number in range(1, cycles + 1):
        report, _ = run_cycle(world, policy, state, CycleInfo(number, mode, "test"))
        state = report.state
        reports.append(report)
        simulation.clock.advance(INTERVAL_SECONDS)
    return reports


def evicted(reports: list[CycleReport]) -> list[str]:
    return [e.pod.name for report in reports for e in report.plan.evictions]


def low_priority_nodes(simulation: Simulation) -> Counter[str]:
    pods = simulation.cluster.read_cluster().pods
    mine = [pod for pod in pods if pod.labels.get("app") == LOW_PRIORITY_WORKLOAD]
    assert all(pod.ready for pod in mine)
    return Counter(pod.node for pod in mine)


def cpu_of_overloaded_node(report: CycleReport) -> float:
    verdict = next(v for v in report.plan.nodes if v.node == OVERLOADED_NODE)
    return next(p for p in verdict.pressures if p.resource is Resource.CPU).measured[0][1]


@pytest.mark.parametrize("stress_priority", [0, 1_000_000])
def test_one_pod_leaves_the_overloaded_node_and_no_other_ever_does(stress_priority: int) -> None:
    """S2.9, R2.10: never the stress pod, whatever its priority, and nothing in later cycles."""
    simulation = published_scenario(stress_priority)
    reports = run(simulation, 8)
    assert cpu_of_overloaded_node(reports[0]) == 0.875
    assert evicted(reports) == [f"{LOW_PRIORITY_WORKLOAD}-1"]
    assert reports[0].result is CycleResult.EVICTED
    assert {report.result for report in reports[1:]} == {CycleResult.NOTHING_TO_DO}
    assert cpu_of_overloaded_node(reports[-1]) == 0.75
    assert low_priority_nodes(simulation) == {OVERLOADED_NODE: 2, "te5": 1}


def test_pods_that_must_stay_are_refused_each_for_its_reason() -> None:
    """R2.10, X2: also the priority threshold, which is silent elsewhere."""
    first = run(guarded_scenario(), 1)[0]
    assert {refusal.pod.name: refusal.reason for refusal in first.plan.refusals} == {
        "stress": RefusalReason.BARE_POD,
        "payments-1": RefusalReason.PRIORITY_THRESHOLD,
        "ledger-1": RefusalReason.PVC_POD,
        "frontend-1": RefusalReason.NAMESPACE_EXCLUDED,
        "quorum-1": RefusalReason.BUDGET_EXHAUSTED,
        f"{LOW_PRIORITY_WORKLOAD}-2": RefusalReason.NO_RELIEF,
        f"{LOW_PRIORITY_WORKLOAD}-3": RefusalReason.NO_RELIEF,
    }


def test_busy_pods_that_must_stay_are_not_touched_while_others_leave_one_at_a_time() -> None:
    simulation = guarded_scenario(Usage(100, 0))
    reports = run(simulation, 16)  # in between the workload cools down for an hour
    assert evicted(reports) == [f"{LOW_PRIORITY_WORKLOAD}-1", f"{LOW_PRIORITY_WORKLOAD}-2"]
    assert max(len(report.plan.evictions) for report in reports) == 1
    assert low_priority_nodes(simulation)[OVERLOADED_NODE] == 1


def test_without_prometheus_no_cycle_acts() -> None:
    """S2.8: nothing is evicted, and the cycle fails."""
    simulation = published_scenario()
    before = simulation.cluster.read_cluster().pods
    with pytest.raises(ObservationError, match="refused"):
        run(simulation, 1, load=Refused())
    assert simulation.cluster.read_cluster().pods == before


def test_the_same_scenario_runs_the_same_way_twice() -> None:
    assert run(guarded_scenario(), 3) == run(guarded_scenario(), 3)


@pytest.mark.parametrize("may_steer", [True, False])
def test_pods_that_would_come_straight_back_leave_with_soft_taints_alone(
    *, may_steer: bool
) -> None:
    simulation = steering_scenario()
    world = simulation.world(acting=True)._replace(may_steer=lambda: may_steer)
    desched = Descheduler(demo.demo_policy(), "test")
    reports = []
    for _ in range(6):
        reports.append(desched.cycle(world))
        simulation.clock.advance(INTERVAL_SECONDS)
    assert evicted(reports) == ["cart-1"] * may_steer
    assert (reports[0].plan.unsteered is None) == may_steer
    assert not any(node.avoided for node in simulation.cluster.read_cluster().nodes)


def test_a_rack_of_gpu_nodes_is_relieved_towards_the_right_rack_by_the_right_pods() -> None:
    """R0.2, R1.2, R2.2, R3.1, R3.5, S1.5: nothing that a system promised is broken."""
    reports = run(ai_scenario(), 5)
    assert evicted(reports) == ["chat-1", "embed-1", "mistral-1", "gateway-1", "tokenizer-1"]
    assert [report.result for report in reports] == [
        CycleResult.EVICTED,
        *[CycleResult.NOTHING_TO_DO] * 4,
    ]
    landed = {e.pod.name: e.expected_node for e in reports[0].plan.evictions}
    assert set(landed.values()) <= set(RACKS[RIGHT_RACK])
    assert landed["mistral-1"] in {"te7", "te8"}
    assert said(reports[0]) == {
        ("pod_group", "gang train/llama (Volcano): 8 of 8 needed"): 8,
        ("pod_group", "gang research/sky (SkyPilot): nothing creates its pods again"): 1,
        ("model_cache", "model llama-70b is on te4 and te9 only"): 1,
    }


def said(report: CycleReport) -> Counter[tuple[str, str]]:
    return Counter((r.reason.value, r.detail.split(": 0/16")[0]) for r in report.plan.refusals)


# The demonstration


def test_the_demonstration_shows_before_each_move_and_after() -> None:
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        code = demo.run_demo(console, print_shown)
    output = capture.get()
    assert code == 0
    assert "87.5  overloaded" in output
    assert "75.0  balanced" in output
    assert "is Ready on te5 (as expected)" in " ".join(output.split())
    for reason in ("bare_pod", "pvc_pod", "priority_threshold", "budget_exhausted"):
        assert reason in output
    assert output.count("1 pod moved") == 2
    text = " ".join(output.split())
    assert text.count("the last 3 cycles evicted nothing") == 2
    assert "Without soft taints, no pods would move: kube-scheduler would put 3 of those" in text
    assert "kept off te1 by soft taints" in text


def test_the_demonstration_keeps_what_happened_without_and_with_desched() -> None:
    kept: list[Timeline] = []
    demo.run_demo(Console(quiet=True), lambda *_: None, lambda *both: kept.extend(both))
    before, after = kept

    assert before.nodes == after.nodes
    assert len(before.nodes) == 10
    hot = dict(zip(before.nodes, before.overloaded_minutes, strict=True))
    length = before.steps * before.step_seconds / 60
    assert {node: minutes for node, minutes in hot.items() if minutes} == {
        f"{OVERLOADED_NODE} (first scene)": length,
        "te1 (second scene)": length,
    }
    assert 0 < after.overload.node_minutes < before.overload.node_minutes / 2
    assert [(each.node, each.landed_on, each.result) for each in after.evictions] == [
        ("te3 (first scene)", "te5 (first scene)", MoveResult.LANDED_AS_FORECAST),
        ("te1 (second scene)", "te5 (second scene)", MoveResult.LANDED_AS_FORECAST),
    ]
    assert before.evictions == ()
    assert {each.reason for each in after.refusals} >= {RefusalReason.BARE_POD}


def test_the_demonstration_of_gpus_fits_into_80_columns_and_names_systems_and_objects() -> None:
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        code = demo.run_demo(console, print_shown, scenario="ai")
    output = capture.get()
    assert code == 0
    assert max(map(len, output.splitlines())) <= 80
    text = " ".join(output.split())
    assert "serve/mistral inference with mistral-7b, cached on te3, te7, te8" in text
    assert text.count("(gang train/llama (Volcano): 8 of 8 needed)") == 4
    assert "(model llama-70b is on te4 and te9 only: 0/16 nodes" in text
    assert text.count("(as expected)") == 5
    assert "5 pods moved, no node is overloaded any more" in text


def test_the_demonstrations_policy_is_the_published_one() -> None:
    published = yaml.safe_load((POLICIES / "volcano-published.yaml").read_text())
    packaged = yaml.safe_load((Path(demo.__file__).parent / demo.POLICY_FILE).read_text())
    assert packaged == published
