"""Explanations as text and as JSON."""

import pytest

from desched.decision import decide
from desched.lab.demo import demo_policy
from desched.lab.history import Usage
from desched.lab.scenarios import guarded_scenario
from desched.model.state import State
from desched.observation import observe
from desched.views.explained.explain import explain
from desched.views.explained.subject import parse_subject
from desched.views.explained.values import Explanation
from desched.views.explanation import explanation_blocks
from tests.builders import load, node, pod, policy, snapshot
from tests.shown import text_of

QUESTIONS = ("node/te3", "pod/demo/payments-1", "workload/demo/low-priority-workload")


def answer(question: str) -> Explanation:
    world = guarded_scenario(Usage(50, 100 << 20)).world(acting=False)
    policy = demo_policy()
    decision = decide(observe(world, policy), policy, State())
    return explain(parse_subject(question), decision, "the lab")


def shown(explanation: Explanation, width: int = 80) -> str:
    return text_of(explanation_blocks(explanation), width)


def test_of_two_kinds_of_staying_load_what_remains_is_told() -> None:
    text = shown(answer("node/te3"))

    assert "the plan takes 12.5 off, and 5.0 remain." in text
    assert "What stays: 50.0 points by 1 pod (bare_pod)" in text


def test_what_pods_that_ended_used_is_told_with_a_pod_of_the_node() -> None:
    used = load({"n": (0.9, 0.2)}, {"stays": (1.0, 0.5), "ends": (2.0, 0.5)})
    pods = (pod("stays", on="n"), pod("ends", on="n", phase="Succeeded"))
    decision = decide(snapshot([node("n")], pods, used), policy(), State())
    text = " ".join(shown(explain(parse_subject("pod", "apps/stays"), decision, "test")).split())

    assert "departed_load: Only pods that ended" in text


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_number_is_cut(question: str, width: int) -> None:
    assert "…" not in shown(answer(question), width)
