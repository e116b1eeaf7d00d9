"""Where nodes are by HyperNodes; what contradicts itself is in doubt, and nothing else."""

import pytest

from desched.gangs.topology import GroupTopology
from desched.network.objects import UNKNOWN_TIER, HyperNode, HyperNodeTree

SEED = (
    HyperNode("s0", 1, "rack", ("te0", "te1")),
    HyperNode("s1", 1, "rack", ("te2", "te3")),
    HyperNode("s2", 1, "rack", ("te4", "te5")),
    HyperNode("s3", 1, "rack", ("te6", "te7")),
    HyperNode("s4", 2, "block", (), ("s0", "s1")),
    HyperNode("s5", 2, "block", (), ("s2", "s3")),
    HyperNode("s6", 3, "zone", (), ("s4", "s5")),
)
"""The tree of Volcano's own walk-through."""


def tree(*changed: HyperNode, without: str = "") -> HyperNodeTree:
    """That tree with some parts changed or added."""
    parts = {each.name: each for each in (*SEED, *changed) if each.name != without}
    return HyperNodeTree(reversed(parts.values()))


def path(of: HyperNodeTree, node: str) -> list[str] | str:
    place = of.place(node)
    return place.doubt or [each.name for each in place.path]


def test_the_domain_of_a_node_is_its_path_from_the_widest() -> None:
    """R0.1: a tuple of HyperNodes."""
    assert path(tree(), "te0") == ["s6", "s4", "s0"]
    assert path(tree(), "te7") == ["s6", "s5", "s3"]
    assert path(tree(), "te9") == []
    assert not HyperNodeTree(())
    assert path(HyperNodeTree(()), "te0") == []


def test_members_that_do_not_exist_count_for_nothing() -> None:
    """R2.4: a HyperNode whose parts are gone is as if without them."""
    found = tree(HyperNode("s4", 2, "", ("gone",), ("s0", "s1", "gone")), without="s3")
    assert path(found, "te0") == ["s6", "s4", "s0"]
    assert path(found, "te6") == []


@pytest.mark.parametrize(
    ("changed", "doubt", "others"),
    [
        (
            HyperNode("s7", 2, "", (), ("s0",)),
            "HyperNode s0 is in s4 and s7",
            ["s6", "s4", "s1"],
        ),
        (
            HyperNode("s7", 1, "", ("te0",)),
            "node te0 is in HyperNodes s0 and s7",
            ["s6", "s4", "s1"],
        ),
        (
            HyperNode("s0", 2, "", ("te0",)),
            "HyperNode s0 of tier 2 is in s4 of tier 2",
            ["s6", "s4", "s1"],
        ),
        (
            HyperNode("s0", 1, "", ("te0",), unreadable="no tier"),
            "HyperNode s0 cannot be read: no tier",
            ["s6", "s4", "s1"],
        ),
        (
            HyperNode("s4", 2, "", (), ("s0", "s1"), "no tier"),
            "HyperNode s4 cannot be read: no tier",
            "HyperNode s4 cannot be read: no tier",
        ),
    ],
)
def test_a_contradiction_puts_in_doubt_what_is_below_it(
    changed: HyperNode, doubt: str, others: list[str] | str
) -> None:
    """R2.4: two parents, tiers upside down, unreadable members; the rest of the tree stays."""
    found = tree(changed)
    assert path(found, "te0") == doubt
    assert path(found, "te2") == others
    assert path(found, "te4") == ["s6", "s5", "s2"]


def test_a_cycle_ends_in_doubt() -> None:
    """R2.4: each node below it, and no endless loop."""
    parts = [
        HyperNode("a", 1, "", ("n",), ("c",)),
        HyperNode("b", 2, "", (), ("a",)),
        HyperNode("c", 3, "", (), ("b",)),
        HyperNode("d", 1, "", ("m",), ("d",)),
    ]
    for order in (parts, parts[::-1]):
        found = HyperNodeTree(order)
        assert "HyperNode c" in path(found, "n")
        assert path(found, "m") == "HyperNode d is a part of itself"


def test_unknown_members_may_be_whatever_is_in_nothing_else() -> None:
    """R2.4, X4: a node that no HyperNode has may be meant, and so may a smaller HyperNode."""
    unknown = HyperNode("s8", UNKNOWN_TIER, unreadable="no pattern")
    found = tree(unknown)
    why = "HyperNode s8 cannot be read: no pattern"
    assert path(found, "te9") == why
    assert path(found, "te0") == why  # s6 may be a part of it
    small = tree(HyperNode("s8", 1, unreadable="no pattern"))
    assert path(small, "te9") == why
    assert path(small, "te0") == ["s6", "s4", "s0"]


def test_tiers_have_names() -> None:
    """R2.4: the highest tier by number or by name; of two numbers the one that allows less."""
    found = tree(HyperNode("s7", 4, "block"))
    assert found.highest_tier(GroupTopology(hard=True, highest_tier=3)) == 3
    named = GroupTopology(hard=True, highest_tier_name="block")
    assert (found.lacks(named), found.highest_tier(named)) == ("", 2)
    other = GroupTopology(hard=True, highest_tier_name="hall")
    assert found.lacks(other) == "no HyperNode has the tier hall"
    assert not found.lacks(GroupTopology(hard=False))
    assert HyperNodeTree(()).lacks(GroupTopology(hard=False)).endswith("no HyperNodes are known")
