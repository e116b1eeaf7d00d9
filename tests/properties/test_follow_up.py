"""What must hold for every follow-up, whatever becomes of the evictions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desched.eviction.follow_up import FollowUp
from desched.eviction.recent_moves import PAST_KEPT
from desched.model.cluster import MIGRATING_ANNOTATION, Pod, PodRef, Workload
from desched.model.landing import LandingChance
from desched.model.load import Unknown
from desched.model.selectors import LabelSelector
from desched.model.snapshot import Snapshot
from desched.model.state import (
    LONGEST_MIGRATION,
    SUCCESSES,
    EvictionRecord,
    MoveResult,
    NodeRounds,
    PauseScope,
    State,
)
from desched.planning.clocks import SEEMS_EARLIER
from desched.policy.follow_up import FollowUpRules
from desched.policy.policy import NodePool, Policy
from tests.builders import (
    NOW,
    WINDOW_SECONDS,
    certain,
    followed_up,
    load,
    node,
    pod,
    policy,
    rule,
    snapshot,
    unknown,
)

WORKLOADS = {"web": "apps", "db": "apps", "cache": "apps", "mail": "office", "ads": "shop"}
"""With their namespaces."""

NODES = ("n0", "n1", "n2", "gpu0")
RULES = FollowUpRules(pause_workloads=3)
GPU = NodePool("gpu", LabelSelector(), (rule(),))
POLICY = policy(rule(), follow_up=RULES, pools=(GPU,))
HORIZON = timedelta(seconds=WINDOW_SECONDS)
MINUTE = timedelta(minutes=1)
FIRST, LONGEST = (
    timedelta(seconds=s) for s in (RULES.cool_down_first_seconds, RULES.cool_down_longest_seconds)
)


class Step(NamedTuple):
    """What a cycle sees, and what it evicts once it has followed up what was evicted before."""

    now: datetime
    seen: Snapshot
    evictions: tuple[EvictionRecord, ...]


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Pods that come, go and move at will; those that are there may be evicted.

    The details come from a seed: drawn one by one they would mostly be alike.
    """
    chance = draw(st.randoms(use_true_random=True))
    now = NOW
    steps: list[Step] = []
    born: list[Pod] = []
    for _ in range(draw(st.integers(1, 15))):
        now += chance.choice([0.1, 1, 1, 3, 6, 11, 40]) * MINUTE
        for i in range(chance.randint(0, 3)):
            of = chance.choice([*WORKLOADS])
            name, created_at = f"{of}-{len(steps)}-{i}", now - 0.1 * MINUTE
            born.append(pod(name, of=of, created_at=created_at, namespace=WORKLOADS[of]))
        here = [_as_it_is(one, chance) for one in born[-9:] if chance.random() < 0.9]
        blind = chance.random() < 0.2
        ratios: dict[str, tuple[Unknown | float, float]] = {
            name: (unknown() if blind else chance.choice([0.3, 0.78, 0.95]), 0.0) for name in NODES
        }
        owners = [
            Workload("Deployment", namespace, of, f"uid-{of}", chance.choice([1, 2, 2, 3]))
            for of, namespace in WORKLOADS.items()
            if chance.random() < 0.95
        ]
        seen = snapshot([node(name) for name in NODES], here, load(ratios), owners)
        going = [one for one in here if one.node and not one.deleting and chance.random() < 0.3]
        steps.append(Step(now, seen, tuple(_evicted(one, now, chance) for one in going)))
        gone = {one.uid for one in going if chance.random() < 0.7}
        born = [one for one in born if one.uid not in gone]
    return steps


def _as_it_is(one: Pod, chance: Random) -> Pod:
    return msgspec.structs.replace(
        one,
        node=chance.choice(["", *NODES]),
        ready=chance.random() < 0.5,
        deleting=chance.random() < 0.2,
        phase="Failed" if chance.random() < 0.1 else "Running",
        annotations={MIGRATING_ANNOTATION: ""} if chance.random() < 0.1 else {},
    )


def _evicted(one: Pod, now: datetime, chance: Random) -> EvictionRecord:
    likely = chance.random()
    return EvictionRecord(
        pod=one.ref,
        node=one.node,
        workload_uid=one.owner.uid if one.owner else "",
        workload=f"Deployment {one.namespace}/{one.labels['app']}",
        evicted_at=now,
        cpu_millicores=chance.choice([100.0, 800.0]),
        pool="gpu" if one.node == "gpu0" else "",
        replicas=2,
        landing=(LandingChance("n1", likely), LandingChance("n2", 1 - likely)),
        landing_risk=chance.uniform(0, 0.15),
        judged_by=chance.choice([None, now + 2 * MINUTE, now + 10 * MINUTE]),
        taken_over=chance.random() < 0.2,
        unanswered=chance.random() < 0.2,
        probe=chance.random() < 0.3,
    )


def looked(state: State, step: Step, by: Policy = POLICY) -> FollowUp:
    """What a cycle makes of the stored evictions."""
    observed, stayed = state.observed(step.seen.cluster.pods, step.now, HORIZON)
    return followed_up(observed, step.seen, by, step.now, stayed)


def lived(history: Sequence[Step], by: Policy = POLICY) -> Iterator[tuple[Step, State, FollowUp]]:
    """Each step with the state that was stored before it, and what the follow-up made of it."""
    state = State()
    for step in history:
        after = looked(state, step, by)
        yield step, state, after
        state = after.state
        for record in step.evictions:
            state = state.with_eviction(record)


slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(histories())
def test_each_eviction_has_one_replacement_of_its_own(history: list[Step]) -> None:
    for step, _, after in lived(history):
        records = [(r, r.replacement) for r in after.state.evictions if r.replacement]
        assert len({replacement for _, replacement in records}) == len(records)
        pods = {one.ref: one for one in step.seen.cluster.pods}
        for record, replacement in records:
            if record.in_flight or record in after.settled:
                found = pods[replacement]
                assert found.ref != record.pod
                assert found.owner is not None
                assert found.owner.uid == record.workload_uid
                assert found.created_at >= record.evicted_at - SEEMS_EARLIER


@slow
@given(histories())
def test_what_became_of_an_eviction_is_told_once_and_never_changes(history: list[Step]) -> None:
    told = {}
    for _, before, after in lived(history):
        # The same pod may be evicted again in these histories; it is then another eviction.
        known = {(r.pod, r.evicted_at): r for r in before.evictions if not r.in_flight}
        for record in after.settled:
            assert record.result is not None
            assert (record.pod, record.evicted_at) not in told
            told[record.pod, record.evicted_at] = record
        for record in after.state.evictions:
            key = record.pod, record.evicted_at
            if not record.in_flight:
                as_told = told.get(key) or known[key]
                left_at = as_told.left_at or record.left_at  # of a pod that ended afterwards
                assert record == msgspec.structs.replace(as_told, left_at=left_at)


@slow
@given(histories())
def test_every_eviction_is_judged_in_time(history: list[Step]) -> None:
    patience = timedelta(seconds=RULES.patience_seconds)
    for step, _, after in lived(history):
        for record in after.state.in_flight:
            due = record.judged_by or record.evicted_at + patience
            if record.taken_over:
                due = max(due, (record.left_at or record.evicted_at + LONGEST_MIGRATION) + patience)
            assert step.now < due


@slow
@given(histories())
def test_a_cool_down_follows_every_move_that_did_not_succeed_and_stays_within_its_bounds(
    history: list[Step],
) -> None:
    for step, _, after in lived(history):
        until = {cool_down.workload_uid: cool_down.until for cool_down in after.state.cool_downs}
        for record in after.settled:
            if record.result not in SUCCESSES:
                assert until[record.workload_uid] >= step.now + FIRST
        assert all(end <= step.now + LONGEST for end in until.values())


@slow
@given(histories())
def test_every_move_counts_as_long_as_a_past_has_it_and_its_replacement_rests(
    history: list[Step],
) -> None:
    told: dict[tuple[str, datetime], str] = {}
    for step, _, after in lived(history):
        for record in after.settled:
            if record.result is MoveResult.STAYED and record.pod in staying(step):
                continue  # nothing has moved
            replacement = record.replacement
            told[record.workload_uid, record.evicted_at] = replacement.uid if replacement else ""
        moves = [(move.workload_uid, move.at) for move in after.state.moves]
        assert set(moves) == {key for key in told if step.now - key[1] < PAST_KEPT}
        resting = {move.replacement_uid for move in after.state.moves}
        assert {uid for key, uid in told.items() if step.now - key[1] < PAST_KEPT} <= resting


@slow
@given(histories())
def test_no_pause_begins_that_is_wider_than_the_failures_that_ask_for_it(
    history: list[Step],
) -> None:
    for step, _, after in lived(history):
        for pause in after.state.pauses:
            if pause.since != step.now:
                continue
            failures = [f for f in after.state.failures if pause.covers(f.workload, f.pool)]
            needed = 3 if pause.scope is PauseScope.EVERYTHING else 2
            if pause.scope is PauseScope.NAMESPACE and len(_workloads(after.state)) >= 3:
                needed = 1  # one owner may have spread the failures over several namespaces
            assert len({f.workload for f in failures}) >= needed
            assert all(step.now - f.at < timedelta(hours=1) for f in failures)


def _workloads(state: State) -> set[str]:
    """The workloads with failures."""
    return {failure.workload for failure in state.failures}


@slow
@given(histories())
def test_looking_twice_at_the_same_changes_nothing(history: list[Step]) -> None:
    for step, _, after in lived(history):
        assert followed_up(after.state, step.seen, POLICY, step.now) == FollowUp(after.state, ())
        again = looked(after.state, step)
        kept, nodes = again.state.evictions, again.state.nodes
        assert set(kept) <= set(after.state.evictions)  # dropped is what no window shows any more
        assert set(nodes) <= set(after.state.nodes)
        as_before = msgspec.structs.replace(after.state, evictions=kept, nodes=nodes)
        assert again == FollowUp(as_before, ())


def staying(step: Step) -> set[PodRef]:
    """The pods that exist and are not being deleted."""
    return {one.ref for one in step.seen.cluster.pods if not one.deleting and not one.finished}


@slow
@given(histories())
def test_an_eviction_whose_pod_stayed_ends_with_a_result_unless_it_was_not_requested(
    history: list[Step],
) -> None:
    for step, before, after in lived(history):
        requested = {r.pod for r in before.in_flight if r.taken_over or r.unanswered}
        dropped = requested - {r.pod for r in after.state.evictions}
        ended = {r.pod: r.result for r in after.settled if r.pod in dropped}
        assert ended == dict.fromkeys(dropped, MoveResult.STAYED)
        assert dropped <= staying(step)


@slow
@given(histories(), st.randoms(use_true_random=True))
def test_the_order_of_objects_and_records_changes_nothing(
    history: list[Step], order: Random
) -> None:
    for step, before, after in lived(history):
        cluster = step.seen.cluster
        loaded = msgspec.structs.replace(
            cluster,
            nodes=tuple(order.sample(cluster.nodes, len(cluster.nodes))),
            pods=tuple(order.sample(cluster.pods, len(cluster.pods))),
        )
        seen = msgspec.structs.replace(step.seen, cluster=loaded)
        turned = msgspec.structs.replace(before, evictions=tuple(reversed(before.evictions)))
        found = looked(turned, step._replace(seen=seen))
        records = tuple(reversed(found.state.evictions))
        state = msgspec.structs.replace(found.state, evictions=records)
        assert FollowUp(state, found.settled) == after


def test_the_strategy_makes_every_result_and_every_pause() -> None:
    """The properties above would hold for a follow-up that does nothing."""
    results: set[MoveResult | None] = set()
    scopes: set[PauseScope] = set()
    cooling_nodes: list[NodeRounds] = []

    @settings(max_examples=200, deadline=None, database=None, derandomize=True)
    @given(histories())
    def collect(history: list[Step]) -> None:
        for _, _, after in lived(history):
            results.update(record.result for record in after.settled)
            scopes.update(pause.scope for pause in after.state.pauses)
            cooling_nodes.extend(each for each in after.state.nodes if each.cooling_down_until)

    collect()
    assert results == set(MoveResult) - {MoveResult.REFUSED}  # that is an answer, not a result
    assert scopes == set(PauseScope) - {PauseScope.WORKLOAD}
    assert cooling_nodes


@settings(deadline=None, max_examples=3)
@given(st.lists(st.booleans(), min_size=120, max_size=120))
def test_memory_stays_small_however_many_workloads_and_nodes_are_moved(came: list[bool]) -> None:
    """Every ten minutes another workload leaves another node, for twenty hours."""
    nodes = [node(f"n{i}") for i in range(60)]
    overloaded = load({one.name: (0.9, 0.0) for one in nodes})
    most: Counter[str] = Counter()
    state = State()
    for i, comes in enumerate(came):
        now = NOW + i * 10 * MINUTE
        replaced = pod(f"web-{i - 1}-b", "n1", of=f"w{i - 1}", created_at=now - 9 * MINUTE)
        owners = [Workload("Deployment", "apps", f"w{i - 1}", f"uid-w{i - 1}", 1)]
        seen = snapshot(nodes, [replaced] if comes else [], overloaded, owners)
        state, stayed = state.observed(seen.cluster.pods, now, HORIZON)
        state = followed_up(state, seen, POLICY, now, stayed).state
        for field in (
            "evictions",
            "cool_downs",
            "nodes",
            "pauses",
            "failures",
            "forecasts",
            "moves",
        ):
            most[field] = max(most[field], len(getattr(state, field)))
        leaving = pod(f"web-{i}", f"n{i % 60}", of=f"w{i}")
        record = EvictionRecord(
            pod=leaving.ref,
            node=leaving.node,
            workload_uid=f"uid-w{i}",
            workload=f"Deployment apps/w{i}",
            evicted_at=now,
            landing=certain("n1"),
            replicas=1,
            judged_by=now + 10 * MINUTE,
        )
        state = state.with_eviction(record)
    assert most["evictions"] <= 3
    assert most["cool_downs"] <= 49  # two hours, and six more for their levels
    assert most["nodes"] <= 40
    assert most["pauses"] <= 2
    assert most["failures"] <= 6
    assert most["moves"] <= PAST_KEPT / (10 * MINUTE)
    assert most["forecasts"] <= 120
