"""A share of a whole as a count."""

import pytest

from desched.policy.share import Share


@pytest.mark.parametrize(
    ("share", "whole", "count"),
    [
        (Share(0.1), 29, 2),
        (Share(0.1), 9, 1),
        (Share(0.1), 0, 1),
        (Share(0.29), 100, 29),
        (Share(1.0), 7, 7),
        (Share(0.5), 100, 50),
        (Share(0.5, at_most=20), 100, 20),
        (Share(0.5, at_most=20), 10, 5),
        (Share(0.5, at_most=0), 10, 0),
        (Share(0.01, at_least=5), 499, 5),
        (Share(0.01, at_least=5), 700, 7),
        (Share(0.5, rounded_up=True), 3, 2),
        (Share(0.5, rounded_up=True), 4, 2),
    ],
)
def test_a_share_is_rounded_as_it_says_and_at_least_one(share, whole, count):
    assert share.of(whole) == count
