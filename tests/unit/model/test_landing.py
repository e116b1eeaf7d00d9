"""Where a replacement is expected, in words."""

import pytest

from desched.model.landing import LandingChance, expected_on


@pytest.mark.parametrize(
    ("landing", "nodes", "words"),
    [
        ({"te5": 1.0}, 1, "te5 (100 %)"),
        ({"te5": 0.999}, 3, "te5 (over 99 %)"),
        ({"te5": 0.97}, 4, "te5 (97 %)"),
        ({"n018": 0.5, "n044": 0.5}, 2, "n018 or n044 (50 % each)"),
        ({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, 3, "a, b or c (33 % each)"),
        ({"a": 0.6, "b": 0.31}, 5, "a (60 %) or b (31 %)"),
        ({"a": 0.5, "b": 0.25, "c": 0.2}, 5, "a (50 %), b (25 %) or c (20 %)"),
        ({"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}, 4, "one of 4 nodes (25 % each)"),
        ({"a": 0.4, "b": 0.1, "c": 0.1, "d": 0.1, "e": 0.1}, 9, "a (40 %) or another of 9 nodes"),
        (dict.fromkeys("abcde", 0.05), 40, "one of 40 nodes, none above 5 %"),
        ({}, 1, "an unknown node"),
    ],
)
def test_the_likeliest_nodes_are_named_with_their_probabilities(
    landing: dict[str, float], nodes: int, words: str
) -> None:
    chances = tuple(LandingChance(node, probability) for node, probability in landing.items())
    assert expected_on(chances, nodes) == words
