"""How many nodes hold the models that pods need."""

from desched.decision import decide
from desched.model.state import State
from desched.plugins.caches.facts import CacheFacts, ModelNodes
from desched.plugins.caches.holders import MOST_CHARACTERS, MOST_MODELS
from tests.builders import load, node, pod, policy, snapshot


def models(*needed: tuple[str, str]) -> tuple[ModelNodes, ...]:
    """Those of pods in these namespaces with these keys; node `a` holds llama."""
    pods = [
        pod(
            f"p{i}", on="b", of=None, namespace=namespace, annotations={"desched.io/cache-key": key}
        )
        for i, (namespace, key) in enumerate(needed)
    ]
    nodes = [node("a", labels={"cache.desched.io/llama": "true"}), node("b")]
    seen = snapshot(nodes, pods, load({"a": (0.1, 0.1), "b": (0.1, 0.1)}))
    facts = CacheFacts.of(decide(seen, policy(), State()).facts)
    assert facts is not None
    return facts.models


def test_each_model_has_its_nodes_and_its_workloads() -> None:
    """R1.2."""
    found = models(("apps", "llama"), ("apps", "llama"), ("apps", "gpt"), ("apps", ""))
    assert found == (ModelNodes("llama", 1, 2), ModelNodes("gpt", 0, 1))


def test_one_namespace_does_not_hide_the_models_of_others() -> None:
    """Nor does a long name grow the metrics."""
    found = models(*(("attacker", f"m{i}" + "x" * 200) for i in range(99)), ("victim", "llama"))
    assert len(found) == MOST_MODELS
    assert ModelNodes("llama", 1, 1) in found
    assert max(len(each.model) for each in found) == MOST_CHARACTERS
