"""What desched relies on in a Steerer, stated once for the simulation and for the real thing."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Protocol

from desched.model.cluster import STEERING_TAINT, Effect, Node, Taint
from desched.ports import Steerer, SteeringAnswer
from tests.builders import NOW

UNTIL = NOW + timedelta(minutes=10)
OTHERS = (
    Taint("batch", Effect.PREFER_NO_SCHEDULE, "yes"),
    Taint(STEERING_TAINT.key, Effect.NO_SCHEDULE, "by-hand"),
)


class SteeringLab(Protocol):
    """A cluster whose nodes can be looked at."""

    steerer: Steerer

    def add_node(self, name: str, taints: Iterable[Taint] = ()) -> None:
        """A node with these taints."""

    def node(self, name: str) -> Node:
        """The node as desched reads it."""


def tainted(lab: SteeringLab, node: str, until: datetime) -> SteeringAnswer:
    (answer,) = lab.steerer.taint_all([node], until)
    return answer


def untainted(lab: SteeringLab, node: str) -> SteeringAnswer:
    (answer,) = lab.steerer.untaint_all([node])
    return answer


class SteererContract:
    """Inherited by a class with the fixture `steering_lab`."""

    def test_a_node_is_avoided_until_a_time_and_then_as_before(
        self, steering_lab: SteeringLab
    ) -> None:
        steering_lab.add_node("plain")
        assert tainted(steering_lab, "plain", UNTIL).done
        steered = steering_lab.node("plain")
        assert (steered.taints, steered.steered_until) == ((STEERING_TAINT,), UNTIL)
        assert untainted(steering_lab, "plain").done
        freed = steering_lab.node("plain")
        assert (freed.taints, freed.steered_until) == ((), None)

    def test_taints_of_others_are_not_changed(self, steering_lab: SteeringLab) -> None:
        steering_lab.add_node("shared", OTHERS)
        assert tainted(steering_lab, "shared", UNTIL).done
        steered = steering_lab.node("shared")
        assert set(steered.taints) == {*OTHERS, STEERING_TAINT}
        assert untainted(steering_lab, "shared").done
        assert steering_lab.node("shared").taints == OTHERS

    def test_a_taint_may_last_longer_and_never_shorter(self, steering_lab: SteeringLab) -> None:
        steering_lab.add_node("again")
        for minutes in (0, 5, -5):
            assert tainted(steering_lab, "again", UNTIL + timedelta(minutes=minutes)).done
        steered = steering_lab.node("again")
        assert steered.taints == (STEERING_TAINT,)
        assert steered.steered_until == UNTIL + timedelta(minutes=5)

    def test_the_same_taint_of_somebody_else_is_neither_taken_over_nor_away(
        self, steering_lab: SteeringLab
    ) -> None:
        steering_lab.add_node("theirs", (STEERING_TAINT,))
        refused = tainted(steering_lab, "theirs", UNTIL)
        assert not refused.done
        assert "somebody else" in refused.detail
        assert untainted(steering_lab, "theirs").done
        theirs = steering_lab.node("theirs")
        assert (theirs.taints, theirs.steered_until) == ((STEERING_TAINT,), None)

    def test_a_node_that_is_gone_cannot_be_avoided_and_needs_no_freeing(
        self, steering_lab: SteeringLab
    ) -> None:
        refused = tainted(steering_lab, "gone", UNTIL)
        assert (refused.done, refused.detail) == (False, "there is no such node")
        assert untainted(steering_lab, "gone").done
