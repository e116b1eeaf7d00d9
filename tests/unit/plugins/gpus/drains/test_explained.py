"""What explanations have about drains for GPUs."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from desched.decision import decide
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, State
from desched.plugins.gpus.drains.drain import GPU_DEMAND, Drain, DrainEnd
from desched.plugins.gpus.drains.rules import Reserve
from desched.views.explained.explain import explain
from desched.views.explained.subject import parse_subject
from desched.views.explained.values import Explanation, RuleOutcome
from desched.views.explanation import explanation_blocks
from tests.builders import NOW, certain
from tests.shown import text_of
from tests.unit.plugins.gpus.gpu_cluster import (
    RULES,
    draining,
    drains,
    gpu_node,
    runs,
    seen,
    waits,
)

NODES = [gpu_node(f"g{i}") for i in range(4)]
SPREAD = [runs(f"p{i}", f"g{i}") for i in range(4)]
BIG = waits("big")
MINUTES_LATER = NOW + timedelta(minutes=30)
DRAIN = Drain((BIG.ref,), ("g0",), 8, NOW, MINUTES_LATER, namespace="train", moves=1)
ALL = seen(NODES, [*SPREAD, BIG])
DRAINED = seen(NODES, [*SPREAD[1:], BIG])


def answer(
    question: str, cluster: Snapshot, state: State | None = None, **rules: Any
) -> Explanation:
    by = drains(msgspec.structs.replace(RULES, **rules))
    return explain(parse_subject(*question.split()), decide(cluster, by, state or State()), "test")


def explained(explanation: Explanation) -> str:
    return " ".join(text_of(explanation_blocks(explanation), 200).split())


def held(notes: Iterable[str]) -> list[str]:
    return [note for note in notes if "New pods are kept off it" in note]


def test_a_node_that_a_drain_holds_shows_for_what_and_until_when() -> None:
    found = answer("node g0", DRAINED, draining(DRAIN))
    assert found.node is not None
    assert "pod train/big (8 GPUs) on g0: 1 move made, held until 12:30 UTC" in explained(found)
    other = answer("node g1", DRAINED, draining(DRAIN)).node
    assert other is not None
    assert not held(other.notes)


def test_a_node_of_a_drain_that_ended_is_not_held() -> None:
    ended = DRAIN.ended(DrainEnd.NOT_NEEDED, NOW)
    found = answer("node g0", DRAINED, draining(ended)).node
    assert found is not None
    assert not held(found.notes)


def test_a_node_that_is_free_for_a_reserve_shows_that() -> None:
    found = answer("node g0", DRAINED, reserves=(Reserve(8),), namespaces=())
    assert found.node is not None
    assert len(held(found.node.notes)) == 1
    assert "reserve of 8 GPUs on 1 nodes" in explained(found)
    busy = answer("node g1", DRAINED, reserves=(Reserve(8),), namespaces=()).node
    assert busy is not None
    assert not held(busy.notes)


def test_a_victim_and_its_node_show_the_drain_that_the_plan_begins() -> None:
    [victim] = decide(ALL, drains(), State()).plan.evictions
    found = answer(f"pod {victim.pod}", ALL)
    assert found.pod is not None
    assert {rule.outcome for rule in found.pod.rules} == {RuleOutcome.PASSED}
    pod = explained(found)
    assert f"makes room on {victim.node} for pod train/big, which waits for 8 GPUs" in pod
    assert "The plan drains it" in explained(answer(f"node {victim.node}", ALL))


def test_a_pod_that_left_for_a_drain_and_its_replacement_show_that() -> None:
    replacement = runs("p9", "g3", of="p0", created_at=NOW - timedelta(minutes=1))
    record = EvictionRecord(
        SPREAD[0].ref,
        "g0",
        "uid-p0",
        NOW - timedelta(minutes=2),
        certain("g3"),
        replacement=replacement.ref,
        purpose=GPU_DEMAND,
    )
    leaving = msgspec.structs.replace(SPREAD[0], deleting=True)
    cluster = seen(NODES, [leaving, *SPREAD[1:], replacement, BIG])
    state = draining(DRAIN, evictions=(record,))
    assert "Its eviction from g0 was requested 2 min ago" in explained(
        answer("pod apps/p0", cluster, state)
    )
    assert "It replaces apps/p0, whose eviction" in explained(answer("pod apps/p9", cluster, state))


def test_a_pending_pod_shows_the_drain_for_it() -> None:
    under_way = answer("pod train/big", DRAINED, draining(DRAIN))
    assert under_way.pod is not None
    assert "A drain for it is under way" in explained(under_way)
    assert "The plan begins a drain for it" in explained(answer("pod train/big", ALL))


def test_a_pending_pod_without_a_drain_shows_why() -> None:
    stay = [
        msgspec.structs.replace(each, annotations={"desched.io/evict": "false"}) for each in SPREAD
    ]
    found = answer("pod train/big", seen(NODES, [*stay, BIG]))
    assert found.pod is not None
    assert "opted_out" in explained(found)
    assert "No drain is under way for it" in explained(found)
    running = answer("pod apps/p1", seen(NODES, [*stay, BIG])).pod
    assert running is not None
    assert not running.notes
