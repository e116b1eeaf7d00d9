"""The rule by which a price is proposed, and the reason that is written beside it."""

import pytest

from desched.doctor.price import PricedReplay, ProposedPrice, proposed_price

CURVE = {3.0: (100, 40), 5.0: (150, 28), 10.0: (190, 20), 20.0: (300, 9)}
"""By price: the overloaded minutes that are left, and the evictions."""


def proposed(curve=CURVE, before=1100.0, covered_share=1.0) -> ProposedPrice:
    replays = [PricedReplay(price, *each) for price, each in curve.items()]
    return proposed_price(replays, before, covered_share, "the last day")


def test_it_is_the_highest_that_avoids_nine_tenths_of_what_the_best_avoids():
    found = proposed()
    assert found.minutes == 10.0
    curve, choice = found.why
    assert curve == (
        "Replayed with the last day, which had 1,100 overloaded node-minutes: 3m leaves 100 "
        "(40 evictions), 5m leaves 150 (28 evictions), 10m leaves 190 (20 evictions), 20m leaves "
        "300 (9 evictions)."
    )
    assert choice == "10m is the highest that avoids at least 90 % of what the best one avoids."
    assert proposed({**CURVE, 10.0: (210, 20)}).minutes == 5.0
    assert proposed({**CURVE, 20.0: (200, 9)}).minutes == 20.0


def test_a_lower_price_may_be_worse():
    assert proposed({**CURVE, 3.0: (500, 90)}).minutes == 10.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"covered_share": 0.4}, "load is known for only 40 % of the nodes' time in the last day"),
        ({"before": 50.0}, "the last day had only 50 overloaded node-minutes"),
        ({"before": 90.0}, "no price would have avoided overload in the last day"),
    ],
)
def test_the_default_stays_where_the_past_does_not_show_it(changes, why):
    curve = {3.0: (95, 4), 5.0: (90, 2)} if changes.get("before") == 90.0 else CURVE
    found = proposed(curve, **changes)
    assert found.minutes is None
    assert found.why[0] == f"The default: {why}."
    assert "desched backtest" in found.why[1]
