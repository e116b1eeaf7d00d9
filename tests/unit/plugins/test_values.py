"""Policies carry plugins to other processes, and plugins take part one after the other."""

import pickle
from typing import Any

from desched.model.plan import RefusalReason
from desched.model.state import State
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.overload.classification import Pressure
from desched.planning.placement.destinations import Destinations
from desched.planning.plugins import OtherMove, OtherMoves, Plugin
from desched.planning.selection.candidates import candidate_of
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.trial import Move, Trial
from desched.plugins import HOUSE
from desched.policy.policy import EvictionLimits
from tests.builders import load, node, planned, pod, policy, snapshot


def test_a_policy_from_another_process_is_the_same() -> None:
    assert pickle.loads(pickle.dumps(policy())) == policy()  # noqa: S301  (our own)
    assert len(set(HOUSE)) == len(HOUSE)


class MovesOne(Plugin, frozen=True):
    """Moves the pod of this name, if limits allow one more."""

    name: str

    def is_due(self, context: Any) -> bool:  # noqa: ARG002
        return True

    def other_moves(
        self,
        eligibility: Eligibility,
        pressure: Pressure,
        destinations: Destinations,
        quota: EvictionQuota,
    ) -> OtherMoves:
        context = eligibility.context
        one = next(p for p in context.cluster.pods if p.name == self.name)
        candidate = candidate_of(one, context, pressure.outlook.pasts)
        move = Trial(destinations, quota).move_of(candidate)
        if not isinstance(move, Move):
            assert move.reason is RefusalReason.LIMIT_TOTAL
            return OtherMoves()
        says = {"reason": f"for {self.name}"}
        return OtherMoves((OtherMove((pressure.known[one.node], move), says),))


def test_what_one_plugin_moves_counts_for_the_next() -> None:
    seen = snapshot(
        [node("a"), node("b")],
        [pod(name, on="a", of=name) for name in ("one", "two")],
        load({"a": (0.3, 0.1), "b": (0.1, 0.1)}, {"one": (0.1, 0.1), "two": (0.1, 0.1)}),
    )
    plugins = MovesOne("two"), MovesOne("one")

    def reasons(most: int) -> list[str]:
        limits = EvictionLimits(total=most, slow_start=False)
        plan = planned(seen, policy(plugins=plugins, limits=limits), State())
        return [eviction.reason for eviction in plan.evictions]

    assert reasons(1) == ["for two"]
    assert reasons(2) == ["for two", "for one"]
