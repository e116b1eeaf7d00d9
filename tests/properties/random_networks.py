"""Random HyperNodes, of which some contradict themselves."""

import random
from collections.abc import Sequence

from desched.network.objects import UNKNOWN_TIER, HyperNode


def hyper_nodes(
    chance: random.Random, nodes: Sequence[str], prefix: str = ""
) -> tuple[HyperNode, ...]:
    """Up to three tiers over these nodes; often one is missing, or one part is hostile."""
    if chance.random() < 0.3:
        return ()
    racks: list[list[str]] = [[] for _ in range(3)]
    for name in nodes:
        if chance.random() < 0.9:  # else no HyperNode has it
            chance.choice(racks).append(name)
    r, b = [f"{prefix}r{i}" for i in range(3)], [f"{prefix}b{i}" for i in range(2)]
    found = [HyperNode(name, 1, "rack", tuple(of)) for name, of in zip(r, racks, strict=True)]
    shape = chance.random()
    if shape < 0.7:
        gone = f"{prefix}gone"
        found += [
            HyperNode(b[0], 2, "block", (), (*r[:2], gone)),
            HyperNode(b[1], 2, "block", (), tuple(r[2:])),
        ]
    elif shape < 0.8:
        found = [HyperNode(b[0], 2, "block", (*racks[0], *racks[1], f"{prefix}gone"))]
    if shape < 0.5:
        found.append(HyperNode(f"{prefix}top", 3, "", (), tuple(b)))
    if chance.random() < 0.4:
        other = _hostile(chance, nodes, [each.name for each in found], f"{prefix}x")
        found = [each for each in found if each.name != other.name] + [other]
    return tuple(found)


def _hostile(
    chance: random.Random, nodes: Sequence[str], others: Sequence[str], name: str
) -> HyperNode:
    """A HyperNode of this name beside the others, or in place of one."""
    some = chance.choice(others)
    return chance.choice(
        [
            HyperNode(name, 9, "", (), (some,)),  # perhaps the part of two
            HyperNode(name, 1, "", (), (some,)),  # no larger tier
            HyperNode(name, 2, "", (), (name,)),
            HyperNode(some, 1, "", tuple(nodes[:2]), tuple(others)),  # perhaps a cycle
            HyperNode(name, 1, "", tuple(chance.sample(nodes, 2))),  # perhaps nodes in two
            HyperNode(name, chance.choice([1, 2, 9]), unreadable="no pattern"),
            HyperNode(name, UNKNOWN_TIER, unreadable="no tier"),
        ]
    )
