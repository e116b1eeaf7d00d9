"""When a whole cycle evicts nothing: at the boundary it acts, one step beyond it does not."""

from datetime import timedelta

import pytest

from desched.model.plan import HoldReason
from desched.model.snapshot import Snapshot
from desched.model.state import State
from tests.builders import NOW, load, node, planned, pod, policy, snapshot, unknown


def one_overloaded(*, cool: int = 1, blind: int = 0) -> Snapshot:
    """A node that one move relieves, beside cool nodes and nodes of unknown load."""
    loads = {"hot": (0.9, 0.1)} | {f"cool{i}": (0.1, 0.1) for i in range(cool)}
    dark = {f"blind{i}": (unknown(), unknown()) for i in range(blind)}
    return snapshot(
        [node(name) for name in (*loads, *dark)],
        [pod("a", on="hot"), pod("b", on="hot")],
        load({**loads, **dark}, {"a": (0.8, 0.1), "b": (0.8, 0.1)}),
    )


@pytest.mark.parametrize(("seconds", "hold"), [(299, HoldReason.JUST_STARTED), (300, None)])
def test_it_has_started_for_as_long_as_the_shortest_window(
    seconds: int, hold: HoldReason | None
) -> None:
    state = State(since=NOW - timedelta(seconds=seconds))
    assert planned(one_overloaded(), state=state).hold is hold


@pytest.mark.parametrize(("cool", "hold"), [(1, HoldReason.TOO_FEW_UNDERLOADED_NODES), (2, None)])
def test_more_nodes_are_underloaded_than_the_policy_names(
    cool: int, hold: HoldReason | None
) -> None:
    by = policy(min_underloaded_nodes=1)
    assert planned(one_overloaded(cool=cool), by).hold is hold


@pytest.mark.parametrize(
    ("cool", "blind", "hold"),
    [
        (1, 1, None),  # one may always be
        (1, 2, HoldReason.TOO_MANY_UNKNOWN_NODES),
        (17, 2, None),  # a tenth of them
        (16, 2, HoldReason.TOO_MANY_UNKNOWN_NODES),
    ],
)
def test_a_tenth_of_the_nodes_may_be_unknown(
    cool: int, blind: int, hold: HoldReason | None
) -> None:
    assert planned(one_overloaded(cool=cool, blind=blind)).hold is hold


def test_without_a_node_in_scope_the_hold_counts_why() -> None:
    nodes = [node("a", unschedulable=True), node("b", unschedulable=True), node("c", ready=False)]
    plan = planned(snapshot(nodes, [], load({n.name: (0.9, 0.1) for n in nodes})))
    assert plan.hold is HoldReason.NO_NODE_IN_SCOPE
    assert plan.hold_detail == "none of 3, 2 cordoned, 1 not_ready"
