"""Classes of nodes on the lines themselves, in ratios that are exact in binary."""

import pytest

from desched.model.plan import NodeClass
from desched.model.resources import Resource
from desched.model.state import State
from desched.planning.overload.classification import Pressure, classify
from desched.planning.overload.pod_usage import UsageBook
from tests.builders import NOW, load, node, policy, rule, snapshot

LINES = policy(rule(Resource.CPU, low_ratio=0.25, target_ratio=0.75))


def classed(**cpu: float) -> Pressure:
    seen = snapshot(map(node, cpu), (), load({name: (ratio, 0.1) for name, ratio in cpu.items()}))
    return classify(UsageBook(seen, LINES, NOW), State())


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (0.25, NodeClass.UNDERLOADED),
        (0.251, NodeClass.BALANCED),
        (0.75, NodeClass.BALANCED),
        (0.751, NodeClass.OVERLOADED),
    ],
)
def test_a_node_on_a_line_is_on_its_cool_side(ratio: float, expected: NodeClass) -> None:
    assert classed(n=ratio).known["n"].verdict.node_class is expected


def test_an_overloaded_node_receives_nothing() -> None:
    known = classed(hot=0.9, warm=0.5, cool=0.1).known
    assert {name: loaded.receives for name, loaded in known.items()} == {
        "hot": False,
        "warm": True,
        "cool": True,
    }
