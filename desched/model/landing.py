"""Where the replacement of an evicted pod is expected, as values and in words."""

from collections.abc import Sequence

import msgspec

from desched.model.names import NodeName

NEARLY_CERTAIN = 0.9
"""A node with this probability is named alone; nodes that share it are named together."""

MOST_NAMED = 3
LIKELY = 0.2
"""Of more than `MOST_NAMED` nodes, only the first one is named, and only if it is so likely."""

_SAME = 0.005
_CERTAIN, _ROUNDS_TO_IT = 1 - 1e-9, 0.995


class LandingChance(msgspec.Struct, frozen=True, gc=False):
    """The probability of a node to receive a replacement, from 0 to 1."""

    node: NodeName
    probability: float


def expected_on(landing: Sequence[LandingChance], nodes: int) -> str:
    """The likeliest nodes in words, as in `te5 (97 %)` or `n018 or n044 (50 % each)`.

    Args:
        landing: the likeliest nodes, likeliest first.
        nodes: how many nodes are possible.
    """
    if not landing:
        return "an unknown node"
    first, last = landing[0], landing[-1]
    highest = _percent(first.probability)
    if first.probability >= NEARLY_CERTAIN:
        return f"{first.node} ({highest})"
    are_all = sum(chance.probability for chance in landing) >= NEARLY_CERTAIN - _SAME
    are_equal = first.probability - last.probability < _SAME
    if are_all and len(landing) <= MOST_NAMED:
        return _all_of(landing, are_equal=are_equal)
    if are_equal and are_all:
        return f"one of {nodes} nodes ({highest} each)"
    if first.probability >= LIKELY and not are_equal:
        return f"{first.node} ({highest}) or another of {nodes} nodes"
    return f"one of {nodes} nodes, none above {highest}"


def _all_of(landing: Sequence[LandingChance], *, are_equal: bool) -> str:
    if are_equal:
        *names, last = [chance.node for chance in landing]
        return f"{', '.join(names)} or {last} ({_percent(landing[0].probability)} each)"
    *others, last = [f"{chance.node} ({_percent(chance.probability)})" for chance in landing]
    return f"{', '.join(others)} or {last}"


def _percent(probability: float) -> str:
    """The probability in percent; only what is certain is 100 %."""
    if _ROUNDS_TO_IT <= probability < _CERTAIN:
        return "over 99 %"
    return f"{probability * 100:.0f} %"
