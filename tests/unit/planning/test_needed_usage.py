"""Of which pods the usage is needed."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from desched.model.cluster import Node, Pod
from desched.model.load import Measured, PodChoice, Unknown, UnknownReason
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, MoveResult, State
from desched.planning.needed_usage import needed_pods
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.situation import Situation
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, SteeringRules
from tests.builders import GIB, NOW, certain, load, node, pod, policy, rule, snapshot
from tests.chosen_load import known_of

NAMES = ("hot", "cool", "idle", "far")
YOUNG: dict[str, Any] = {
    "created_at": NOW - timedelta(seconds=100),
    "started_at": NOW - timedelta(seconds=100),
}
SUMS = PodChoice(sums=frozenset(NAMES))
Ratios = Mapping[str, tuple[Any, Any]]


def world(
    *pods: Pod,
    ratios: Ratios | None = None,
    usage: Mapping[str, tuple[float, float]] | None = None,
    nodes: Iterable[Node] | None = None,
    read: PodChoice = SUMS,
    **of_load: Any,
) -> Snapshot:
    """Four nodes of which `hot` is overloaded unless `ratios` differ; `read` has been read."""
    ratios = ratios or dict.fromkeys(NAMES, (0.2, 0.2)) | {"hot": (0.9, 0.2)}
    full = replace(load(ratios, usage), **of_load)
    seen = snapshot(nodes or map(node, NAMES), pods, full)
    return replace(seen, load=known_of(full, seen.cluster, read))


def needed(seen: Snapshot, by: Policy | None = None, state: State | None = None) -> set[str]:
    """The nodes, and the workloads as `Deployment/name`."""
    chosen = needed_pods(Situation.of(seen, by or POLICY, state or State()))
    return {
        *chosen.nodes,
        *(f"Deployment/{uid.removeprefix('uid-')}" for _, uid in chosen.controllers),
    }


POLICY = policy()
CALM: Ratios = dict.fromkeys(NAMES, (0.2, 0.2))
ONE_EACH = tuple(pod(f"p-{name}", on=name, of=name) for name in NAMES)


def test_while_no_node_is_overloaded_no_pod_is_needed() -> None:
    churn = (pod("new", on="cool", **YOUNG), pod("old", on="idle", deleting=True), pod("wait"))
    assert needed(world(*ONE_EACH, *churn, ratios=CALM)) == set()


def test_the_pods_of_overloaded_nodes_are_needed() -> None:
    assert needed(world(*ONE_EACH)) == {"hot"}


def test_a_leaving_pod_read_for_its_workload_leaves_the_load_of_a_destination() -> None:
    """Its node is not read as a whole."""
    pods = (*ONE_EACH, pod("old", on="cool", of="w", deleting=True))
    usage = {"old": (0.4, 1.0)}
    unread = world(*pods, usage=usage)
    seen = world(*pods, usage=usage, read=needed_pods(Situation.of(unread, POLICY, State())))
    before, after = (
        Situation.of(each, POLICY, State()).pressure.known["cool"].source(Resource.CPU).bases[0]
        for each in (unread, seen)
    )
    assert after.ratios == pytest.approx([before.ratios[0] - 0.4 / 4])


def test_a_node_may_be_overloaded_by_the_sum_of_its_pods_alone() -> None:
    seen = world(*ONE_EACH, ratios=CALM, usage={"p-idle": (0.1, 15.0)})
    assert needed(seen) == {"idle"}


def test_young_pods_and_their_siblings_are_needed() -> None:
    young, sibling = pod("new", on="cool", of="w", **YOUNG), pod("other", on="far", of="w")
    assert needed(world(*ONE_EACH, young, sibling)) == {"hot", "Deployment/w"}
    alone = pod("new", on="cool", of=None, **YOUNG)
    assert needed(world(*ONE_EACH, alone)) == {"hot", "cool"}


def test_the_siblings_of_pending_pods_are_needed() -> None:
    waiting, sibling = pod("new", of="w"), pod("other", on="far", of="w")
    assert needed(world(*ONE_EACH, waiting, sibling)) == {"hot", "Deployment/w"}


def test_the_siblings_of_pods_that_leave_any_node_are_needed() -> None:
    """The forecast of their node, which may get a pod, is without them."""
    old = pod("old", on="cool", of="w", deleting=True)
    assert needed(world(*ONE_EACH, old)) == {"hot", "Deployment/w"}


def test_pods_that_have_finished_are_not_needed() -> None:
    assert needed(world(*ONE_EACH, pod("old", on="cool", phase="Succeeded"))) == {"hot"}


@pytest.mark.parametrize(
    "by",
    [
        policy(
            rule(Resource.CPU, low_ratio=0.1, target_ratio=0.1),
            deviation=True,
        ),
        policy(rule(Resource.CPU, target_ratio=0.2)),
    ],
)
def test_pods_that_leave_any_node_are_needed_where_the_mean_of_all_nodes_decides(
    by: Policy,
) -> None:
    """With deviation thresholds, and where a pool may be saturated."""
    seen = world(*ONE_EACH, pod("old", on="far", deleting=True))
    assert needed(seen, by) >= {"hot", "far"}


def test_the_siblings_of_a_pod_that_is_short_of_cpu_are_needed() -> None:
    mine, sibling = pod("mine", on="hot", of="w"), pod("other", on="far", of="w")
    full = dict.fromkeys(NAMES, (0.2, 0.2)) | {"hot": (0.96, 0.2)}
    assert needed(world(mine, sibling, ratios=full)) == {"hot", "Deployment/w"}
    # That a pod is throttled shows when its node has been read.
    usage, throttled = {"mine": (1.0, 1.0), "other": (1.0, 1.0)}, frozenset({("apps", "mine")})
    first = world(mine, sibling, usage=usage, throttled=throttled)
    assert needed(first) == {"hot"}
    then = world(
        mine, sibling, usage=usage, throttled=throttled, read=PodChoice(frozenset({"hot"}))
    )
    assert needed(then) == {"hot", "Deployment/w"}


def test_a_sum_that_contradicts_the_load_of_its_node_is_looked_into() -> None:
    bounded = replace(measured_at(0.2), pods_ratios=(0.2,))
    ratios = {**CALM, "cool": (bounded, 0.2)}
    usage = {"p-cool": (3.9, 1.0)}
    assert needed(world(*ONE_EACH, ratios=ratios, usage=usage)) == {"cool"}


def measured_at(ratio: float) -> Measured:
    found = load({"n": (ratio, 0.1)}).nodes["n"][Resource.CPU]
    assert isinstance(found, Measured)
    return found


def summed(seen: Snapshot, by: Policy = POLICY, state: State | None = None) -> set[str]:
    """The nodes of which the sum is needed."""
    return set(needed_pods(Situation.of(seen, by, state or State())).sums)


def test_the_sum_of_each_node_with_pods_is_needed_once_a_node_may_be_relieved() -> None:
    memory = replace(measured_at(0.2), pods_ratios=(0.2,))
    ratios: Ratios = dict.fromkeys(NAMES, (0.2, memory)) | {"hot": (0.9, memory)}
    seen = world(*ONE_EACH[:-1], ratios=ratios, read=PodChoice())
    assert summed(seen) == {"hot", "cool", "idle"}
    lost = EvictionRecord(pod("gone").ref, "hot", "uid-web", NOW, certain("far"), left_at=NOW)
    settling = State(evictions=(replace(lost, result=MoveResult.NOT_WANTED),))
    assert summed(seen, state=settling) == set()
    assert summed(seen, policy(eviction_price_minutes=200)) == set()


def test_without_overload_the_sum_is_needed_where_it_may_show_overload() -> None:
    """Of what a node has in use, pods may use all; of an unknown amount, too."""
    memory = measured_at(0.5)
    ratios: Ratios = {
        "hot": (0.2, replace(memory, pods_ratios=(0.76,))),
        "cool": (0.2, replace(memory, pods_ratios=(0.74,))),
        "idle": (0.2, memory),
        "far": (0.2, Unknown(UnknownReason.STALE)),
    }
    small = [
        replace(n, allocatable=replace(n.allocatable, memory_bytes=n.capacity.memory_bytes - GIB))
        for n in map(node, NAMES)
    ]
    seen = world(*ONE_EACH, ratios=ratios, nodes=small, read=PodChoice())
    assert summed(seen, policy(rule(Resource.MEMORY, target_ratio=0.8))) == {"hot", "idle"}
    assert summed(seen, policy(rule(Resource.CPU))) == set()


def test_with_thresholds_around_the_mean_each_sum_is_needed() -> None:
    memory = replace(measured_at(0.2), pods_ratios=(0.2,))
    seen = world(*ONE_EACH, ratios=dict.fromkeys(NAMES, (0.2, memory)), read=PodChoice())
    distance = rule(Resource.MEMORY, low_ratio=0.3, target_ratio=0.3)
    assert summed(seen, policy(distance)) == set()
    assert summed(seen, policy(distance, deviation=True)) == set(NAMES)


def test_where_replacements_are_expected_or_have_landed_their_load_is_judged() -> None:
    evicted = EvictionRecord(
        pod("gone").ref,
        "hot",
        "uid-web",
        NOW - timedelta(seconds=150),
        certain("idle"),
        left_at=NOW,
    )
    landed = pod("new", on="far", of="web", **YOUNG)
    seen = world(*ONE_EACH, landed, ratios=CALM)
    assert needed(seen, state=State(evictions=(evicted,))) == {"idle", "far"}


def test_the_load_of_tainted_nodes_decides_whether_they_keep_the_taint() -> None:
    nodes = [
        node(name, steered_until=NOW + timedelta(minutes=9) if name == "cool" else None)
        for name in NAMES
    ]
    seen = world(*ONE_EACH, ratios=CALM, nodes=nodes)
    assert needed(seen) == set()
    assert needed(seen, policy(steering=SteeringRules(SteeringMode.ALWAYS))) == {"cool"}


def test_a_node_has_the_sum_of_its_pods_as_its_load_until_they_are_read() -> None:
    usage = {"p-cool": (0.1, 4.0)}
    seen = world(*ONE_EACH, usage=usage)
    small = [
        replace(n, allocatable=replace(n.allocatable, memory_bytes=8 * GIB))
        for n in seen.cluster.nodes
    ]
    seen = replace(seen, cluster=replace(seen.cluster, nodes=tuple(small)))
    known = classify(UsageBook(seen, policy(), NOW), State()).known["cool"]
    assert known.highest[Resource.MEMORY] == 0.5
