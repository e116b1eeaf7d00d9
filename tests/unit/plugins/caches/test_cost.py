"""A pod with a model is a dear one, most of all where it would be downloaded again."""

import pytest

from desched.model.cluster import Node
from desched.plugins.caches.models import CACHE_KEY
from desched.plugins.caches.plugin import Caches
from tests.builders import context_of, load, node, pod, policy, snapshot

HOLDS = {"cache.desched.io/llama": "true"}


@pytest.mark.parametrize(
    ("nodes", "surcharge"),
    [
        ([node("a", labels=HOLDS), node("b", labels=HOLDS)], 0.5),
        ([node("a", labels=HOLDS), node("b")], 2.0),
        ([node("a", labels=HOLDS), node("b", labels=HOLDS, unschedulable=True)], 2.0),
    ],
)
def test_it_costs_most_if_no_other_node_holds_the_model(
    nodes: list[Node], surcharge: float
) -> None:
    one = pod("p", on="a", annotations={CACHE_KEY: "llama"})
    seen = snapshot(nodes, [one], load({"a": (0.1, 0.1), "b": (0.1, 0.1)}))
    assert Caches().extra_cost(one, context_of(seen.cluster, policy())) == surcharge


def test_a_pod_without_one_costs_no_more() -> None:
    one = pod("p", on="a")
    seen = snapshot([node("a")], [one], load({"a": (0.1, 0.1)}))
    assert Caches().extra_cost(one, context_of(seen.cluster, policy())) == 0
