"""Which pods of one node go when no set of them is enough."""

from tests.builders import evicted, load, no_limits_but, node, planned, pod, policy, snapshot


def test_without_enough_the_pod_goes_that_clears_most_for_its_cost() -> None:
    seen = snapshot(
        [node("hot"), node("cool")],
        [pod("valued", on="hot", priority=999_999), pod("plain", on="hot")],
        load({"hot": (0.95, 0.1), "cool": (0.1, 0.1)}, {"valued": (0.6, 0.1), "plain": (0.5, 0.1)}),
    )
    assert evicted(planned(seen)) == ["valued", "plain"]
    assert evicted(planned(seen, policy(limits=no_limits_but(node=1)))) == ["plain"]
