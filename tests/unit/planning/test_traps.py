"""Relieved nodes that the scheduler would fill again keep a soft taint."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from desched.model.cluster import STEERING_TAINT, Owner, Pod
from desched.model.plan import Plan
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, MoveResult, RecentMove, State
from desched.planning.traps import relieved_nodes
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from tests.builders import (
    NOW,
    amounts,
    certain,
    load,
    node,
    planned,
    pod,
    policy,
    rule,
    snapshot,
    workload,
)

NAMES = tuple(f"n{i}" for i in range(10))
JOB: Mapping[str, Any] = {"of": None, "owner": Owner("Job", "batch-1", "uid-batch", "batch/v1")}


def steering(most: int = 9, mode: SteeringMode = SteeringMode.WHEN_NEEDED) -> Any:
    return policy(rule(Resource.CPU), steering=SteeringRules(mode, most))


def relieved(*names: str) -> State:
    """Nodes that lost a pod an hour ago."""
    at = NOW - timedelta(hours=1)
    return State(moves=tuple(RecentMove("uid-web", at, node=name, left_at=at) for name in names))


def cluster(
    requested: Mapping[str, float], *more: Pod, ratio: float = 0.6, **ratios: float
) -> Snapshot:
    """Ten nodes of 4 cores, of which 2 are requested, or so many; all have this load."""
    pods = [
        pod(f"on-{name}", on=name, request=amounts(requested.get(name, 2), 0.1)) for name in NAMES
    ]
    loads = dict.fromkeys(NAMES, ratio) | ratios
    return snapshot(
        [node(name) for name in NAMES],
        [*pods, *more],
        load({name: (level, 0.1) for name, level in loads.items()}),
        [workload("web", 20)],
    )


def tainted(plan: Plan) -> list[str]:
    return [taint.node for taint in plan.taints]


def test_a_relieved_node_with_few_requests_is_tainted_and_says_why() -> None:
    plan = planned(cluster({"n0": 0.4}), steering(), relieved("n0"))
    (taint,) = plan.taints
    assert taint.node == "n0"
    assert taint.why.startswith("40 points less are requested of it than of others")
    assert taint.until_landed_of is None


def test_a_node_that_no_pod_has_left_is_no_trap() -> None:
    assert tainted(planned(cluster({"n0": 0.4}), steering())) == []
    assert tainted(planned(cluster({"n0": 0.4}), steering(), relieved("n1"))) == []


def test_a_node_with_as_many_requests_as_others_is_no_trap() -> None:
    assert tainted(planned(cluster({}), steering(), relieved("n0"))) == []
    assert tainted(planned(cluster({"n0": 3}), steering(), relieved("n0"))) == []


@pytest.mark.parametrize(("ratio", "expected"), [(0.41, ["n0"]), (0.39, [])])
def test_a_node_below_half_of_its_target_can_bear_what_comes(
    ratio: float, expected: list[str]
) -> None:
    assert tainted(planned(cluster({"n0": 0.4}, ratio=ratio), steering(), relieved("n0"))) == (
        expected
    )


def test_pods_that_end_by_themselves_do_not_fill_a_node() -> None:
    job = pod("job", on="n0", request=amounts(3, 0.1), **JOB)
    assert tainted(planned(cluster({"n0": 0.4}, job), steering(), relieved("n0"))) == ["n0"]
    done = pod("done", on="n0", request=amounts(3, 0.1), phase="Succeeded")
    assert tainted(planned(cluster({"n0": 0.4}, done), steering(), relieved("n0"))) == ["n0"]


def test_at_most_three_of_ten_nodes_are_tainted_those_with_the_fewest_requests() -> None:
    """What comes must find room."""
    requested = {f"n{i}": 0.4 + i / 10 for i in range(4)}
    plan = planned(cluster(requested), steering(), relieved(*requested))
    assert tainted(plan) == ["n0", "n1", "n2"]


def test_the_limit_of_the_policy_counts_too() -> None:
    requested = {f"n{i}": 0.4 + i / 10 for i in range(3)}
    assert len(tainted(planned(cluster(requested), steering(2), relieved(*requested)))) == 2
    off = steering(mode=SteeringMode.OFF)
    assert tainted(planned(cluster(requested), off, relieved(*requested))) == []


def test_a_node_that_awaits_a_replacement_is_not_tainted() -> None:
    gone = pod("gone", on="n9").ref
    record = EvictionRecord(gone, "n9", "uid-other", NOW, certain("n0"))
    state = State((record,), moves=relieved("n0").moves)
    assert tainted(planned(cluster({"n0": 0.4}), steering(), state)) == []


def test_the_taint_stays_as_long_as_the_node_is_a_trap() -> None:
    ours = {"taints": (STEERING_TAINT,), "steered_until": NOW + timedelta(minutes=10)}
    for requested, removed in ((0.4, []), (2, ["n0"])):
        seen = cluster({"n0": requested})
        nodes = (node("n0", **ours), *seen.cluster.nodes[1:])
        seen = replace(seen, cluster=replace(seen.cluster, nodes=nodes))
        plan = planned(seen, steering(), relieved("n0"))
        assert [removal.node for removal in plan.removed_taints] == removed


def test_nodes_are_relieved_by_moves_that_are_known() -> None:
    record = EvictionRecord(
        pod("gone", on="a").ref, "a", "uid-web", NOW, certain("b"), result=MoveResult.NEVER_CAME
    )
    assert relieved_nodes(State((record,), moves=relieved("c").moves)) == {"a", "c"}
    assert relieved_nodes(State(moves=(RecentMove("uid-web", NOW),))) == frozenset()
