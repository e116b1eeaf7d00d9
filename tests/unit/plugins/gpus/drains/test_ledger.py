"""How drains end."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.decision import decide
from desched.model.cluster import ClusterState, Node, Pod
from desched.model.state import Pause, PauseScope, State
from desched.plugins.gpus.drains.drain import Drain, DrainEnd, drains_of
from desched.plugins.gpus.drains.ledger import MOST_ENDED, judged
from desched.plugins.gpus.drains.rules import GpuDrainRules, Reserve
from desched.policy.policy import Policy
from tests.builders import NOW, context_of
from tests.unit.plugins.gpus.gpu_cluster import (
    draining,
    drains,
    gpu_node,
    rules_of,
    runs,
    seen,
    waits,
)

BIG = waits("big")
DRAIN = Drain(
    (BIG.ref,),
    ("g0",),
    8,
    NOW - timedelta(minutes=10),
    NOW + timedelta(minutes=50),
    namespace="train",
)
NODES = (gpu_node("g0"), gpu_node("g1"))
RESERVE = Reserve(8, 1)
OF_RESERVE = Drain((), ("g0",), 8, DRAIN.began_at, DRAIN.until, reserve=str(RESERVE))


def judged_by(policy: Policy, cluster: ClusterState, state: State) -> tuple[Drain, ...]:
    return judged(context_of(cluster, policy, state), rules_of(policy))


def after(
    pods: Iterable[Pod],
    nodes: Iterable[Node] = NODES,
    by: Policy | None = None,
    drain: Drain = DRAIN,
    **state: Any,
) -> Drain:
    cluster = seen(nodes, pods).cluster
    [found] = judged_by(by or drains(), cluster, draining(drain, **state))
    return found


def test_a_cycle_keeps_its_end() -> None:
    state = draining(DRAIN)
    decision = decide(seen(NODES, [landed(BIG, "g0")]), drains(), state)
    assert [drain.end for drain in drains_of(decision.state)] == [DrainEnd.LANDED]


def test_it_goes_on_while_its_pod_waits() -> None:
    assert after([BIG]) == DRAIN


def landed(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, node=node, unschedulable=False, phase="Running")


@pytest.mark.parametrize(
    ("pods", "end"),
    [
        ([landed(BIG, "g0")], DrainEnd.LANDED),
        ([landed(BIG, "g1")], DrainEnd.NOT_NEEDED),
        ([], DrainEnd.NOT_NEEDED),
        ([msgspec.structs.replace(BIG, deleting=True)], DrainEnd.NOT_NEEDED),
    ],
)
def test_it_ends_with_what_becomes_of_its_pod(pods: list[Pod], end: DrainEnd) -> None:
    found = after(pods)
    assert found.end is end
    assert found.ended_at == NOW
    assert found.why


def test_another_pod_of_the_workload_is_as_good() -> None:
    sibling = runs("other", "g0", 8, of="job")
    drain = msgspec.structs.replace(DRAIN, workload_uid="uid-job")
    assert after([BIG, sibling], drain=drain).end is DrainEnd.LANDED
    assert after([BIG, sibling]).end is None


def test_a_gang_has_landed_once_all_its_pods_have_nodes() -> None:
    ranks = [waits("rank0"), waits("rank1")]
    drain = msgspec.structs.replace(
        DRAIN, pods=tuple(p.ref for p in ranks), nodes=("g0", "g1"), gang="gang train/llama (V)"
    )
    first = landed(ranks[0], "g0")
    assert after([first, ranks[1]], drain=drain).end is None
    assert after([first, landed(ranks[1], "g1")], drain=drain).end is DrainEnd.LANDED


@pytest.mark.parametrize(
    "nodes",
    [
        (gpu_node("g1"),),
        (gpu_node("g0", ready=False), gpu_node("g1")),
        (gpu_node("g0", unschedulable=True), gpu_node("g1")),
    ],
)
def test_it_is_broken_without_its_node(nodes: tuple[Node, ...]) -> None:
    found = after([BIG], nodes)
    assert found.end is DrainEnd.BROKEN
    assert "g0" in found.why


def test_it_ends_when_its_time_is_over() -> None:
    assert after([BIG], drain=msgspec.structs.replace(DRAIN, until=NOW)).end is DrainEnd.TIME_OVER


def test_a_person_or_the_policy_ends_it() -> None:
    pause = Pause(PauseScope.NAMESPACE, NOW, None, "train", by="jo")
    assert after([BIG], pauses=(pause,)).end is DrainEnd.NOT_WANTED
    assert after([BIG], by=drains(None)).end is DrainEnd.NOT_WANTED
    others = GpuDrainRules(namespaces=("serve",))
    assert after([BIG], by=drains(others)).end is DrainEnd.NOT_WANTED
    assert after([BIG], by=drains(msgspec.structs.replace(others, least_priority=0))).end is None


def test_a_drain_for_a_reserve_ends_once_its_node_is_free() -> None:
    by = drains(GpuDrainRules(reserves=(RESERVE,)))
    pods = [runs("p0", "g0"), runs("p1", "g1")]
    assert after(pods, by=by, drain=OF_RESERVE).end is None
    assert after(pods[1:], by=by, drain=OF_RESERVE).end is DrainEnd.LANDED
    assert after(pods[:1], by=by, drain=OF_RESERVE).end is DrainEnd.NOT_NEEDED
    assert after(pods, drain=OF_RESERVE).end is DrainEnd.NOT_WANTED
    state = draining(OF_RESERVE, msgspec.structs.replace(DRAIN, nodes=("g1",)))
    by = drains(GpuDrainRules(("train",), reserves=(RESERVE,)))
    found = judged_by(by, seen(NODES, [pods[0], BIG]).cluster, state)
    assert found == drains_of(state)  # g1 is empty, but not for the reserve


def test_ended_drains_are_kept_for_a_day_and_not_without_limit() -> None:
    ended = DRAIN.ended(DrainEnd.LANDED, NOW)
    old = msgspec.structs.replace(ended, began_at=NOW - timedelta(days=1))
    state = draining(old, *(ended for _ in range(MOST_ENDED + 1)), DRAIN)
    found = judged_by(drains(), seen(NODES, [BIG]).cluster, state)
    assert old not in found
    assert len(found) == MOST_ENDED + 1


def test_drains_without_moves_do_not_push_out_those_whose_moves_count() -> None:
    ended = DRAIN.ended(DrainEnd.NOT_NEEDED, NOW)
    moved = msgspec.structs.replace(ended, moves=2)
    state = draining(moved, *(ended for _ in range(MOST_ENDED)))
    assert moved in judged_by(drains(), seen(NODES, [BIG]).cluster, state)
