"""Relieved nodes that the scheduler would fill again keep a soft taint."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from desched.decision import decide
from desched.model.cluster import STEERING_TAINT, Owner, Pod
from desched.model.plan import HoldReason, Plan
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, MoveResult, Newcomers, RecentMove, State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.traps import Traps, seen_newcomers, traps_after
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
    requested: Mapping[str, float], *more: Pod, ratio: float = 0.76, **ratios: float
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
    assert taint.why.startswith("only 10% of its CPU is requested since it was relieved")
    assert taint.until_landed_of is None


def test_a_node_that_no_pod_has_left_is_no_trap() -> None:
    assert tainted(planned(cluster({"n0": 0.4}), steering())) == []
    assert tainted(planned(cluster({"n0": 0.4}), steering(), relieved("n1"))) == []


def test_a_node_with_as_many_requests_as_others_is_no_trap() -> None:
    assert tainted(planned(cluster({}), steering(), relieved("n0"))) == []
    assert tainted(planned(cluster({"n0": 3}), steering(), relieved("n0"))) == []


@pytest.mark.parametrize(("ratio", "expected"), [(0.75, ["n0"]), (0.73, [])])
def test_a_node_that_bears_another_pod_is_no_trap(ratio: float, expected: list[str]) -> None:
    """Of 3 points, that uses twice its request."""
    assert tainted(planned(cluster({"n0": 0.4}, ratio=ratio), steering(), relieved("n0"))) == (
        expected
    )


def test_pods_that_end_by_themselves_do_not_fill_a_node() -> None:
    job = pod("job", on="n0", request=amounts(3, 0.1), **JOB)
    assert tainted(planned(cluster({"n0": 0.4}, job), steering(), relieved("n0"))) == ["n0"]
    done = pod("done", on="n0", request=amounts(3, 0.1), phase="Succeeded")
    assert tainted(planned(cluster({"n0": 0.4}, done), steering(), relieved("n0"))) == ["n0"]


def test_at_most_a_fifth_of_the_nodes_is_tainted_those_with_the_fewest_requests() -> None:
    """What comes must find room."""
    requested = {f"n{i}": 0.4 + i / 10 for i in range(4)}
    plan = planned(cluster(requested), steering(), relieved(*requested))
    assert tainted(plan) == ["n0", "n1"]


def test_the_limit_of_the_policy_counts_too() -> None:
    requested = {f"n{i}": 0.4 + i / 10 for i in range(2)}
    assert len(tainted(planned(cluster(requested), steering(1), relieved(*requested)))) == 1
    off = steering(mode=SteeringMode.OFF)
    assert tainted(planned(cluster(requested), off, relieved(*requested))) == []


def test_a_node_that_awaits_a_replacement_is_not_tainted() -> None:
    gone = pod("gone", on="n9").ref
    record = EvictionRecord(gone, "n9", "uid-other", NOW, certain("n0"))
    state = State((record,), moves=relieved("n0").moves)
    assert tainted(planned(cluster({"n0": 0.4}), steering(), state)) == []


def test_the_taint_stays_as_long_as_the_node_is_a_trap() -> None:
    ours: dict[str, Any] = {
        "taints": (STEERING_TAINT,),
        "steered_until": NOW + timedelta(minutes=10),
    }
    for requested, removed in ((0.4, []), (2, ["n0"])):
        seen = cluster({"n0": requested})
        nodes = (node("n0", **ours), *seen.cluster.nodes[1:])
        seen = replace(seen, cluster=replace(seen.cluster, nodes=nodes))
        plan = planned(seen, steering(), relieved("n0"))
        assert [removal.node for removal in plan.removed_taints] == removed


def test_a_trap_is_remembered_longer_than_its_moves_but_other_taints_are_not() -> None:
    ours: dict[str, Any] = {
        "taints": (STEERING_TAINT,),
        "steered_until": NOW + timedelta(minutes=10),
    }
    seen = cluster({"n0": 0.4, "n1": 0.4})
    nodes = (node("n0", **ours), node("n1", **ours), *seen.cluster.nodes[2:])
    seen = replace(seen, cluster=replace(seen.cluster, nodes=nodes))
    plan = planned(seen, steering(), State(traps=("n0",)))
    assert tainted(plan) == ["n0"]
    assert [removal.node for removal in plan.removed_taints] == ["n1"]
    assert decide(seen, steering(), State(traps=("n0", "n2"))).state.traps == ("n0",)
    held = replace(plan, hold=HoldReason.CLUSTER_SATURATED)
    assert traps_after(held, State(traps=("n0", "n2"))) == ("n0", "n2")


def test_moves_whose_pods_have_not_settled_relieve_a_node_too() -> None:
    record = EvictionRecord(
        pod("gone", on="n9").ref,
        "n0",
        "uid-other",
        NOW,
        certain("n9"),
        result=MoveResult.NEVER_CAME,
    )
    assert tainted(planned(cluster({"n0": 0.4}), steering(), State((record,)))) == ["n0"]


# --- what freed requests attract -----------------------------------------------------------------


def traps(state: State, *, may_steer: bool = False, requested: Mapping[str, float] = {}) -> Traps:
    seen = cluster(requested)
    context = EligibilityContext.of(UsageBook(seen, steering(), NOW), state)
    return Traps.of(context, classify(context.book, state), may_steer=may_steer)


NEWCOMERS = Newcomers(use_of_requests=2.0, requested_nodes=0.5, at=NOW)
"""They fill ten nodes that are half requested, up to 55 %."""


def attracted(of: Traps, node_name: str, *freed: float) -> list[float]:
    found: list[float] = of.attracted(node_name, np.array(freed)).tolist()
    return found


def test_what_is_freed_attracts_as_much_and_new_pods_use_more_than_they_request() -> None:
    found = traps(State(newcomers=NEWCOMERS))
    assert found.line == pytest.approx(0.55)
    assert attracted(found, "n0", 0.0, 0.1, 0.2) == pytest.approx([0.0, 0.2, 0.4])


def test_a_node_that_is_fuller_than_others_will_be_attracts_only_what_is_below_them() -> None:
    found = traps(State(newcomers=NEWCOMERS), requested={"n0": 2.6})
    assert attracted(found, "n0", 0.05, 0.2) == pytest.approx(
        [0.0, 2 * (found.line - 0.45)], abs=1e-6
    )


def test_without_new_pods_nothing_is_attracted() -> None:
    assert attracted(traps(State()), "n0", 0.2) == [0.0]


FEW = Newcomers(use_of_requests=1.0, requested_nodes=0.05, at=NOW)


def test_nodes_that_have_or_may_get_the_taint_attract_nothing() -> None:
    """A fifth of ten nodes may have it."""
    found = traps(State(newcomers=FEW), may_steer=True)
    assert found.more == 2
    assert attracted(found, "n2", 0.2) == [0.0]
    both = found.after_relief_of("n0").after_relief_of("n0").after_relief_of("n1")
    assert both.protected == ("n0", "n1")
    assert attracted(both, "n0", 0.2) == [0.0]
    assert attracted(both, "n2", 0.1) == pytest.approx([0.1])


@pytest.mark.parametrize(("newcomers", "most"), [(FEW, 2), (NEWCOMERS, 1), (None, 2)])
def test_the_more_comes_the_fewer_nodes_have_the_taint(
    newcomers: Newcomers | None, most: int
) -> None:
    """The others must bear it: of a tenth of their CPU in an hour, a tenth of the nodes."""
    assert traps(State(newcomers=newcomers), may_steer=True).more == most


# --- which pods are new --------------------------------------------------------------------------


def seen_with(
    *uses: float, state: State | None = None, minutes: float = 10, jobs: bool = True
) -> Newcomers | None:
    """Young pods of Jobs on n0 that request 0.4 cores, and use so many times that."""
    times: dict[str, Any] = dict.fromkeys(
        ("created_at", "started_at"), NOW - timedelta(minutes=minutes)
    )
    of_job: Mapping[str, Any] = {} if jobs else {"of": "web", "owner": None}
    pods = [
        pod(f"new{i}", on="n0", request=amounts(0.4, 0.1), **{**JOB, **of_job}, **times)
        for i in range(len(uses))
    ]
    of_load = load(
        dict.fromkeys(NAMES, (0.5, 0.1)),
        {f"new{i}": (0.4 * use, 0.1) for i, use in enumerate(uses)},
    )
    seen = snapshot([node(name) for name in NAMES], pods, of_load)
    return seen_newcomers(UsageBook(seen, steering(), NOW), state or State())


def test_new_pods_show_what_they_use_and_how_many_come() -> None:
    found = seen_with(1.0, 2.0, 4.0)
    assert found is not None
    assert (found.use_of_requests, found.at) == (2.0, NOW)
    assert found.requested_nodes == pytest.approx(0.3)


def test_few_show_nothing_and_pods_that_are_old_or_of_other_owners_are_not_new() -> None:
    known = Newcomers(3.0, 0.2, NOW - timedelta(hours=1))
    for state in (State(), State(newcomers=known)):
        assert seen_with(2.0, 2.0, state=state) == state.newcomers
        assert seen_with(2.0, 2.0, 2.0, minutes=61, state=state) == state.newcomers
    assert seen_with(2.0, 2.0, 2.0, jobs=False) is None


def test_more_pods_than_usual_are_those_of_a_new_cluster() -> None:
    found = seen_with(*[2.0] * 40)
    assert found is not None
    assert found.requested_nodes == pytest.approx(0.5)  # of the 4 nodes that they request


def test_what_was_seen_fades() -> None:
    """Its use within 12 hours, its rate within 2."""
    state = State(newcomers=Newcomers(8.0, 0.4, NOW - timedelta(hours=12)))
    found = seen_with(2.0, 2.0, 2.0, state=state)
    assert found is not None
    assert found.use_of_requests == pytest.approx(4.0)
    assert found.requested_nodes == pytest.approx(0.3)
