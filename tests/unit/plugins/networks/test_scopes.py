"""S0.5: which domain a node is in, on the level that `balanceScope` names."""

from collections.abc import Mapping

import pytest

from desched.network.objects import HyperNode, NetworkObjects
from desched.planning.overload.balance_scope import BalanceScope
from tests.builders import load, node, policy, snapshot

GROUP = "cloud.google.com/gke-placement-group"
ZONE = "topology.kubernetes.io/zone"
BLOCK, RACK = "cloud.google.com/gce-topology-block", "topology.gke.io/rack"
TIER = "topology.volcano.sh/tier-1"
HYPER_NODES = (
    HyperNode("s0", 1, "", ("a",)),
    HyperNode("s1", 1, "", ("b",)),
    HyperNode("s2", 1, unreadable="no pattern"),
    HyperNode("s3", 2, "", ("c",)),
)


@pytest.mark.parametrize(
    ("scope", "labels", "expected"),
    [
        (GROUP, {"a": {GROUP: "pg1"}, "b": {}}, {"a": "pg1", "b": None}),
        (RACK, {"a": {RACK: "r"}, "b": {BLOCK: "x"}}, {"a": None, "b": None}),
        (
            RACK,
            {"a": {BLOCK: "x", RACK: "r"}, "b": {BLOCK: "y", RACK: "r"}},
            {"a": "x/r", "b": "y/r"},
        ),
        (
            "cloud.google.com/gce-topology-subblock",  # another label of the same level
            {"a": {ZONE: "z", BLOCK: "x", RACK: "r"}, "b": {BLOCK: "x", RACK: "r"}},
            {"a": "z/x/r", "b": None},
        ),
        (TIER, {"a": {}, "b": {}, "c": {}, "d": {}}, {"a": "s0", "b": "s1", "c": None, "d": None}),
    ],
)
def test_a_domain_is_a_value_or_the_path_of_values_to_a_level(
    scope: str, labels: Mapping[str, Mapping[str, str]], expected: Mapping[str, str | None]
) -> None:
    """R0.1, S0.5: what lacks a level, or is in doubt, is in no domain."""
    nodes = [node(name, labels=dict(each)) for name, each in labels.items()]
    hyper_nodes = tuple(e for e in HYPER_NODES if "c" not in labels or e.name != "s2")
    seen = snapshot(nodes, [], load({}), extras=NetworkObjects(hyper_nodes).extras)
    found = BalanceScope(seen.cluster, policy(balance_scope=scope))
    assert {each.name: found.domain(each) for each in nodes} == expected
