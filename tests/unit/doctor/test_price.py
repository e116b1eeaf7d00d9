"""The rule by which a price is proposed, and the reason that is written beside it."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from desched.doctor.price import PricedReplay, ProposedPrice, proposed_price
from desched.whatif.figures import PolicyFigures
from desched.whatif.past.backtest import backtest
from desched.whatif.past.run import Span
from tests.builders import policy, rule
from tests.unit.whatif.past.pasts import Life, a_past, at

CURVE = {3.0: (100, 40), 5.0: (150, 28), 10.0: (190, 20), 20.0: (300, 9)}
"""By price: the overloaded minutes that are left, and the evictions."""


@pytest.fixture(scope="module")
def figures() -> PolicyFigures:
    past = a_past([Life("web-1", "a", [0.2] * 12)])
    return backtest(past, [policy(rule())], Span(at(1), at(12))).policies[0]


@pytest.fixture
def proposed(figures: PolicyFigures) -> Callable[..., ProposedPrice]:
    def proposed(curve=CURVE, before=1100.0, covered_share=1.0) -> ProposedPrice:
        def of(left: float, evictions: int) -> PolicyFigures:
            without = replace(figures.without, node_minutes=before)
            after = replace(figures.with_policy, node_minutes=left)
            return replace(figures, without=without, with_policy=after, evictions=evictions)

        replays = [PricedReplay(price, of(*each)) for price, each in curve.items()]
        return proposed_price(replays, covered_share, "the last day")

    return proposed


def test_it_is_the_highest_that_avoids_nine_tenths_of_what_the_best_avoids(proposed):
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


def test_a_lower_price_may_be_worse(proposed):
    assert proposed({**CURVE, 3.0: (500, 90)}).minutes == 10.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"covered_share": 0.4}, "load is known for only 40 % of the nodes' time in the last day"),
        ({"before": 50.0}, "the last day had only 50 overloaded node-minutes"),
        ({"before": 90.0}, "no price would have avoided overload in the last day"),
    ],
)
def test_the_default_stays_where_the_past_does_not_show_it(proposed, changes, why):
    curve = {3.0: (95, 4), 5.0: (90, 2)} if changes.get("before") == 90.0 else CURVE
    found = proposed(curve, **changes)
    assert found.minutes is None
    assert found.why[0] == f"The default: {why}."
    assert "desched backtest" in found.why[1]
