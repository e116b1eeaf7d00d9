"""How far apart the pods of gangs are."""

from collections.abc import Mapping
from typing import Any

import pytest

from desched.decision import decide
from desched.model.state import State
from desched.network.objects import HyperNode, NetworkObjects
from desched.plugins.gangs.facts import GangFacts, GangSpread
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


def spreads(found: Any) -> tuple[GangSpread, ...]:
    facts = GangFacts.of(decide(found, policy(), State()).facts)
    assert facts is not None
    return facts.spreads


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
    assert spreads(seen(*on)) == (GangSpread(name, len(on), nodes, domain, closer, outside, hot),)


def test_hyper_nodes_count_before_labels() -> None:
    tree = (
        HyperNode("s0", 1, nodes=("a", "c")),
        HyperNode("s1", 1, nodes=("b", "d", "e")),
        HyperNode("top", 2, hyper_nodes=("s0", "s1")),
    )
    (gang,) = spreads(seen("a", "b", "c", extras=NetworkObjects(tree).extras))
    assert (gang.domain, gang.closer, gang.outside) == ("HyperNode top", "HyperNode s0", 1)


def test_a_single_pod_is_no_gang() -> None:
    assert spreads(seen("a")) == ()


def test_the_explanation_of_a_pod_has_its_gang() -> None:
    decision = decide(seen("a", "c"), policy(), State())
    found = explain(parse_subject("pod/apps/rank-1"), decision, "the lab")
    assert found.pod is not None
    (note,) = found.pod.notes
    assert f"2 pods on 2 nodes in {BLOCK}=b1" in note
