"""How far apart gangs are, and how many nodes hold the models that pods need."""

from collections.abc import Mapping
from typing import Any

import pytest

from desched.decision import decide
from desched.model.network_topology import HyperNode
from desched.model.report import GangSpread, ModelNodes
from desched.model.state import State
from desched.planning.locality import MOST_CHARACTERS, MOST_MODELS, Locality
from desched.views.explained.explain import explain
from desched.views.explained.subject import parse_subject
from tests.builders import load, node, pod, policy, snapshot

ZONE, BLOCK, RACK = (
    "topology.kubernetes.io/zone",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
)
KOORDINATOR = "gang.scheduling.koordinator.sh/"
MARKS = {f"{KOORDINATOR}name": "llama", f"{KOORDINATOR}min-available": "2"}
NETWORK = {
    "a": {BLOCK: "b1", RACK: "r1"},
    "b": {BLOCK: "b1", RACK: "r1"},
    "c": {BLOCK: "b1", RACK: "r2"},
    "d": {BLOCK: "b2", RACK: "r1"},
    "e": {},
}


def seen(*on: str, labels: Mapping[str, Mapping[str, str]] = NETWORK, **cluster: Any) -> Any:
    ranks = [pod(f"rank-{i}", on=name, annotations=MARKS) for i, name in enumerate(on)]
    loads = load({name: (0.9 if name == "a" else 0.1, 0.1) for name in labels})
    return snapshot([node(n, labels=of) for n, of in labels.items()], ranks, loads, **cluster)


def locality(found: Any) -> Locality:
    return decide(found, policy(), State()).locality


@pytest.mark.parametrize(
    ("on", "domain", "closer", "outside"),
    [
        ("ab", f"{RACK}=r1", "", 0),
        ("aac", f"{BLOCK}=b1", f"{RACK}=r1", 1),
        ("acc", f"{BLOCK}=b1", f"{RACK}=r2", 1),
        ("ad", "", f"{BLOCK}=b1", 1),
        ("aabd", "", f"{BLOCK}=b1", 1),
        ("ee", "", "", 0),
        ("ae", "", f"{BLOCK}=b1", 1),
    ],
)
def test_a_gang_has_a_narrowest_domain_and_a_closer_one(
    on: str, domain: str, closer: str, outside: int
) -> None:
    """R0.3: racks of one name in two blocks are no common domain."""
    nodes, hot = len(set(on)), "a" in on
    name = "gang apps/llama (Koordinator)"
    assert locality(seen(*on)).gangs == (
        GangSpread(name, len(on), nodes, domain, closer, outside, hot),
    )


def test_hyper_nodes_count_before_labels() -> None:
    tree = (
        HyperNode("s0", 1, nodes=("a", "c")),
        HyperNode("s1", 1, nodes=("b", "d", "e")),
        HyperNode("top", 2, hyper_nodes=("s0", "s1")),
    )
    (gang,) = locality(seen("a", "b", "c", hyper_nodes=tree)).gangs
    assert (gang.domain, gang.closer, gang.outside) == ("HyperNode top", "HyperNode s0", 1)


def test_a_single_pod_is_no_gang() -> None:
    assert locality(seen("a")).gangs == ()


def test_the_explanation_of_a_pod_has_its_gang() -> None:
    decision = decide(seen("a", "c"), policy(), State())
    found = explain(parse_subject("pod/apps/rank-1"), decision, "the lab")
    assert found.pod is not None
    assert [each.domain for each in found.pod.spreads] == [f"{BLOCK}=b1"]


def models(*needed: tuple[str, str]) -> tuple[ModelNodes, ...]:
    """Those of pods in these namespaces with these keys; node `a` holds llama."""
    pods = [
        pod(
            f"p{i}", on="b", of=None, namespace=namespace, annotations={"desched.io/cache-key": key}
        )
        for i, (namespace, key) in enumerate(needed)
    ]
    nodes = [node("a", labels={"cache.desched.io/llama": "true"}), node("b")]
    return locality(snapshot(nodes, pods, load({"a": (0.1, 0.1), "b": (0.1, 0.1)}))).models


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
