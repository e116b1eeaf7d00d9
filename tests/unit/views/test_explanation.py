"""Explanations as text and as JSON."""

import io

import pytest
from rich.console import Console

from desched.decision import decide
from desched.lab.demo import demo_policy
from desched.lab.history import Usage
from desched.lab.scenarios import guarded_scenario, steering_scenario
from desched.lab.world import Simulation
from desched.model.state import State
from desched.observation import observe
from desched.views.explained.explain import explain
from desched.views.explained.subject import parse_subject
from desched.views.explained.values import Explanation
from desched.views.explanation import print_explanation
from tests.builders import load, node, pod, policy, snapshot

QUESTIONS = ("node/te3", "pod/demo/payments-1", "workload/demo/low-priority-workload")


def answer(question: str, simulation: Simulation | None = None) -> Explanation:
    world = (simulation or guarded_scenario(Usage(50, 100 << 20))).world(acting=False)
    policy = demo_policy()
    decision = decide(observe(world, policy), policy, State())
    return explain(parse_subject(question), decision, "the lab")


def shown(explanation: Explanation, width: int = 80) -> str:
    stream = io.StringIO()
    print_explanation(explanation, Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


def test_a_node_is_told_from_its_load_to_its_pods() -> None:
    text = shown(answer("node/te3"))

    assert "te3 was above a target for 60 of the last 60 minutes, and is expected to be" in text
    assert "CPU 5m     92.5             80/75/70   82.5     92.5        0.0" in text
    assert "the plan takes 12.5 off, and 5.0 remain." in text
    assert "What stays: 50.0 points by 1 pod (bare_pod)" in text
    assert text.index("stress 50.0 % CPU") < text.index("low-priority-workload-1 12.5 % CPU")
    assert "would be evicted; its replacement is expected on one of 5" in text


@pytest.mark.parametrize("question", ["node n", "pod apps/stays"])
def test_what_pods_that_ended_used_is_told_with_the_node(question: str) -> None:
    used = load({"n": (0.9, 0.2)}, {"stays": (1.0, 0.5), "ends": (2.0, 0.5)})
    pods = (pod("stays", on="n"), pod("ends", on="n", phase="Succeeded"))
    decision = decide(snapshot([node("n")], pods, used), policy(), State())
    text = " ".join(shown(explain(parse_subject(*question.split()), decision, "test")).split())

    assert "departed_load: Only pods that ended" in text
    assert "(cpu 90.0%, 40.0% without them)." in text


def test_a_pod_is_told_with_its_rules_in_order_and_what_would_have_to_change() -> None:
    text = shown(answer("pod/demo/payments-1"), 100)

    assert "demo/payments-1 on te3 stays, priority_threshold: Its priority is at or above" in text
    assert "• Raise priorityThreshold, lower its priority, or annotate it" in text
    rules = text.partition("Rules, in order:")[2]
    assert rules.index("opted_out") < rules.index("refused  priority_threshold")
    assert rules.index("refused  priority_threshold") < rules.index("usage_unknown")
    assert "4 of 5 nodes can take it now, if it moves alone:" in text
    assert "Risk 0%: 0% to come back to te3" in text


def test_what_soft_taints_do_to_a_landing_is_told() -> None:
    text = " ".join(shown(answer("pod/shop/search-1", steering_scenario())).split())

    assert "Without soft taints on te1 it would be 100%." in text


def test_pods_that_stay_for_the_same_reason_repeat_no_sentence() -> None:
    used = load({"n": (0.9, 0.2)}, {"a": (2.0, 0.5), "b": (1.0, 0.5), "c": (0.5, 0.5)})
    pods = [pod(name, on="n", of=None) for name in "abc"]
    decision = decide(snapshot([node("n")], pods, used), policy(), State())
    text = shown(explain(parse_subject("node", "n"), decision, "test"))
    first, *others = [line for line in text.splitlines() if line.strip().startswith("stays, ")]

    assert ": " in first
    assert others
    assert all(line.strip().endswith(", as above") for line in others)


def test_a_workload_is_told_with_its_pace_and_the_nodes_of_its_pods() -> None:
    text = shown(answer("workload/demo/low-priority-workload"))

    assert "0 of its moves are under way (at most 1); 0 within the hour (at most 2)." in text
    assert "No PodDisruptionBudget covers it." in text
    assert "demo/low-priority-workload-1 on te3 12.5 % CPU" in text


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_number_is_cut(question: str, width: int) -> None:
    assert "…" not in shown(answer(question), width)
