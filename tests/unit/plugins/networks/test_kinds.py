"""HyperNodes with the members that their selectors mean, and Topologies."""

from typing import Any

import msgspec
import pytest

from desched.api_objects.kinds import Kind
from desched.network.objects import UNKNOWN_TIER, HyperNode, Topology
from desched.plugins.networks.kinds import (
    HYPER_NODES,
    TOPOLOGIES,
    hyper_nodes,
)
from tests.builders import node

NODES = [node(f"te{i}", labels={"rack": f"r{i // 2}", "te": ""}) for i in range(4)]


def document(name: str, spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def read(*specs: Any) -> tuple[HyperNode, ...]:
    items = [document(f"s{i}", spec) for i, spec in enumerate(specs)]
    body = msgspec.json.encode({"metadata": {}, "items": items})
    return hyper_nodes(HYPER_NODES.decoder().page(body).values, NODES)


def member(kind: str = "Node", **selector: Any) -> dict[str, Any]:
    return {"type": kind, "selector": selector}


def exact(name: str) -> dict[str, Any]:
    return {"exactMatch": {"name": name}}


@pytest.mark.parametrize(
    ("selectors", "selected"),
    [
        ([exact("te0"), exact("gone"), exact("te0")], ("te0", "gone")),
        ([{"regexMatch": {"pattern": "te[12]"}}], ("te1", "te2")),
        ([{"regexMatch": {"pattern": "^e1$"}}], ()),
        ([{"regexMatch": {"pattern": "3"}}], ("te3",)),
        ([{"labelMatch": {"matchLabels": {"rack": "r1"}}}], ("te2", "te3")),
        (
            [
                {
                    "labelMatch": {
                        "matchLabels": {"rack": "r0"},
                        "matchExpressions": [{"key": "te", "operator": "Exists"}],
                    }
                }
            ],
            ("te0", "te1"),
        ),
        (
            [
                {
                    "labelMatch": {
                        "matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r0"]}]
                    }
                }
            ],
            ("te2", "te3"),
        ),
    ],
)
def test_members_are_selected_by_name_pattern_or_labels(
    selectors: list[Any], selected: tuple[str, ...]
) -> None:
    """R2.4: all three selectors; a pattern may match anywhere in a name, as in Go."""
    (found,) = read({"tier": 1, "members": [member(**each) for each in selectors]})
    assert found == HyperNode("s0", 1, nodes=selected)


def test_hyper_nodes_have_hyper_nodes_as_members() -> None:
    *_, found = read(
        {"tier": 1},
        {"tier": 1, "members": None},
        {
            "tier": 2,
            "tierName": "block",
            "members": [
                member("HyperNode", regexMatch={"pattern": "^s[01]$"}),
                member("HyperNode", **exact("gone")),
            ],
        },
    )
    assert found == HyperNode("s2", 2, "block", (), ("s0", "s1", "gone"))


@pytest.mark.parametrize(
    ("spec", "tier"),
    [
        ({"tier": 1, "members": [member(regexMatch={"pattern": "te[0-"})]}, 1),
        ({"tier": 1, "members": [member(regexMatch={"pattern": "(?=te)"})]}, 1),
        ({"tier": 1, "members": [member(labelMatch={})]}, 1),
        (
            {
                "tier": 1,
                "members": [
                    member(labelMatch={"matchExpressions": [{"key": "a", "operator": "Near"}]})
                ],
            },
            1,
        ),
        ({"tier": 1, "members": [member("HyperNode", labelMatch={"matchLabels": {"a": "b"}})]}, 1),
        ({"tier": 1, "members": [member("Rack", **exact("r1"))]}, 1),
        ({"tier": 1, "members": [member()]}, 1),
        ({"tier": "1", "members": []}, UNKNOWN_TIER),
        ({"members": []}, UNKNOWN_TIER),
        (None, UNKNOWN_TIER),
    ],
)
def test_what_is_not_understood_makes_one_hyper_node_unreadable(spec: Any, tier: int) -> None:
    """R2.4, X4: and ends no cycle."""
    broken, other = read(spec, {"tier": 1, "members": [member(**exact("te0"))]})
    assert (broken.tier, bool(broken.unreadable)) == (tier, True)
    assert other == HyperNode("s1", 1, nodes=("te0",))


def test_a_pattern_cannot_take_forever() -> None:
    """One that makes other engines try all ways."""
    many = node("a" * 60)
    body = document("s0", {"tier": 1, "members": [member(regexMatch={"pattern": "(a*)*b$"})]})
    found = HYPER_NODES.decoder().one(msgspec.json.encode(body))
    assert hyper_nodes([found], [many]) == (HyperNode("s0", 1),)


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_topologies_name_the_labels_of_their_levels(kind: Any) -> None:
    """R0.1: of Kueue and of KAI."""
    levels = [{"nodeLabel": key} for key in ("block", "rack", "kubernetes.io/hostname")]
    (found,) = (
        kind.decoder()
        .page(msgspec.json.encode({"items": [document("dc", {"levels": levels})], "metadata": {}}))
        .values
    )
    labels = ("block", "rack", "kubernetes.io/hostname")
    assert (found.name, found.levels) == ("dc", labels)
    specs: list[Any] = [{"levels": None}, {"levels": ["rack"]}, {"levels": [{}]}, None, 7]
    for broken in specs:
        one = kind.decoder().one(msgspec.json.encode(document("dc", broken)))
        assert one == Topology(found.system, "dc")


def test_they_are_read_only_where_they_are_served() -> None:
    """X3: each is looked for first."""
    kinds: list[Kind[Any, Any]] = [HYPER_NODES, *TOPOLOGIES]
    assert all(kind.is_optional and kind.is_discovered for kind in kinds)


def test_topologies_of_kueue_are_read_in_both_versions() -> None:
    """R0.1: newer ones of Kueue do not serve v1beta1."""
    versions = [kind.access.version for kind in TOPOLOGIES if "kueue" in kind.access.group]
    assert versions == ["v1beta1", "v1beta2"]
