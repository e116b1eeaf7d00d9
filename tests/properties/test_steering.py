"""What must hold for soft taints, whatever the cluster looks like."""

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

import msgspec
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desched.model.cluster import STEERING_TAINT, Effect, Node, Taint, Toleration
from desched.model.plan import Plan
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
from desched.planning.kube_scheduler.scores.total import plugin_scores
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.destination import Destination
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.landing_forecast import forecast
from desched.planning.placement.landing_limits import LandingFeedback
from desched.planning.placement.reservations import room_left
from desched.planning.taints import SoftTaints
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, SteeringRules
from desched.policy.schedulers import SchedulerRules
from desched.policy.share import Share
from tests.builders import (
    GIB,
    NOW,
    amounts,
    free_capacity,
    load,
    no_limits_but,
    node,
    planned,
    pod,
    policy,
    snapshot,
    workload,
)

RISK = 0.15
LATER = NOW + timedelta(minutes=10)
OTHER = Taint("batch", Effect.PREFER_NO_SCHEDULE)

slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def traps(draw: st.DrawFn) -> Snapshot:
    """Hot nodes whose pods request little, and idle ones that look full; some with soft taints."""
    overloaded, cold = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    pods, usage, loads, nodes = [], {}, {}, []
    for i in range(overloaded + cold):
        name = f"n{i}"
        is_hot = i < overloaded
        taints = tuple(draw(st.sets(st.sampled_from([STEERING_TAINT, OTHER]), max_size=1)))
        ours = STEERING_TAINT in taints and draw(st.booleans())
        until = draw(st.sampled_from([LATER, NOW])) if ours else None
        nodes.append(node(name, taints=taints, steered_until=until))
        requested = draw(st.sampled_from([0.1, 1] if is_hot else [1, 2.5, 3]))
        pods.append(pod(f"ballast{i}", on=name, of=None, request=amounts(requested, 4)))
        loads[name] = (draw(st.sampled_from([0.79, 0.85, 0.9] if is_hot else [0.1, 0.5])), 0.1)
        for j in range(draw(st.integers(1, 3)) if is_hot else 0):
            tolerated = (Toleration(operator="Exists"),) if draw(st.integers(0, 9)) == 0 else ()
            of = draw(st.sampled_from(["web", "db"]))
            one = pod(f"p{i}{j}", on=name, of=of, scheduling={"tolerations": tolerated})
            pods.append(one)
            usage[one.name] = (draw(st.sampled_from([0.2, 0.3, 0.6])), 0.1)
    owners = [workload("web", 20), workload("db", 20)]
    return snapshot(nodes, pods, load(loads, usage), owners)


modes = st.sampled_from([SteeringMode.WHEN_NEEDED, SteeringMode.ALWAYS])
shares = st.sampled_from([1, 2, 8, Share(0.3), Share(0.6)])
at_a_time = st.sampled_from([None, 1, 2])


def steering(mode: SteeringMode, most: int | Share) -> Policy:
    return policy(max_landing_risk=RISK, steering=SteeringRules(mode, most))


def with_nodes(seen: Snapshot, nodes: Iterable[Node]) -> Snapshot:
    loaded = msgspec.structs.replace(seen.cluster, nodes=tuple(nodes))
    return msgspec.structs.replace(seen, cluster=loaded)


def busiest(nodes: Iterable[str]) -> int:
    return max(Counter(nodes).values(), default=0)


def carried_out(seen: Snapshot, plan: Plan) -> tuple[set[str], set[str]]:
    """The nodes that have desched's own taint before and after acting on the plan."""
    before = {n.name for n in seen.cluster.nodes if n.avoided and n.steered_until is not None}
    gone = {removal.node for removal in plan.removed_taints}
    return before, (before - gone) | {taint.node for taint in plan.taints}


@slow
@given(traps(), modes, shares)
def test_no_move_is_riskier_than_allowed_and_each_has_the_taints_that_it_needs(
    seen: Snapshot, mode: SteeringMode, most: int | Share
) -> None:
    plan = planned(seen, steering(mode, most))
    for eviction in plan.evictions:
        assert eviction.landing_risk <= RISK
        needed = {t.node for t in plan.taints if t.until_landed_of == eviction.pod}
        assert set(eviction.steered) == needed


@slow
@given(traps(), modes, shares, at_a_time)
def test_no_more_nodes_are_tainted_nor_replacements_expected_on_one_than_allowed(
    seen: Snapshot, mode: SteeringMode, most: int | Share, most_awaited: int | None
) -> None:
    limits = no_limits_but(in_flight_destination=most_awaited)
    by = msgspec.structs.replace(steering(mode, most), limits=limits)
    plan = planned(seen, by)
    assert busiest(eviction.expected_node for eviction in plan.evictions) <= (most_awaited or 100)
    before, after = carried_out(seen, plan)
    allowed = most.of(len(seen.cluster.nodes)) if isinstance(most, Share) else most
    assert len(after) <= max(allowed, len(before))


@slow
@given(traps(), modes, shares)
def test_taints_of_others_are_neither_set_nor_removed(
    seen: Snapshot, mode: SteeringMode, most: int | Share
) -> None:
    theirs = {n.name for n in seen.cluster.nodes if n.avoided and n.steered_until is None}
    plan = planned(seen, steering(mode, most))
    assert theirs.isdisjoint(taint.node for taint in plan.taints)
    for by in (steering(mode, most), steering(SteeringMode.OFF, most)):
        removed = {removal.node for removal in planned(seen, by).removed_taints}
        assert removed.isdisjoint(theirs)
        assert removed <= {n.name for n in seen.cluster.nodes if n.steered_until is not None}


@slow
@given(traps())
def test_with_steering_off_the_plan_is_that_of_a_cluster_without_own_taints(
    seen: Snapshot,
) -> None:
    untouched = with_nodes(
        seen,
        (
            msgspec.structs.replace(
                n, taints=tuple(t for t in n.taints if t != STEERING_TAINT), steered_until=None
            )
            if n.steered_until is not None
            else n
            for n in seen.cluster.nodes
        ),
    )
    off = steering(SteeringMode.OFF, 8)
    plan = planned(seen, off)
    expected = planned(untouched, policy(max_landing_risk=RISK))
    assert msgspec.structs.replace(plan, removed_taints=()) == expected
    assert plan.taints == ()
    assert all(eviction.steered == () for eviction in plan.evictions)


@slow
@given(traps(), shares)
def test_a_forecast_with_planned_taints_is_that_of_a_cluster_that_has_them(
    seen: Snapshot, most: int | Share
) -> None:
    by = steering(SteeringMode.WHEN_NEEDED, most)
    plan = planned(seen, by)
    if not plan.evictions:
        return
    first = plan.evictions[0]
    # Before it there are the removals, and the taints that it needs itself.
    removed = {removal.node for removal in plan.removed_taints}
    by_name = {n.name: n for n in seen.cluster.nodes}
    for name in {*removed, *first.steered}:
        others = tuple(t for t in by_name[name].taints if t != STEERING_TAINT)
        taints = (*others, STEERING_TAINT) if name in first.steered else others
        by_name[name] = msgspec.structs.replace(by_name[name], taints=taints)
    loaded = with_nodes(seen, by_name.values()).cluster
    view = SchedulerView(loaded, SchedulerRules())
    leaving = next(p for p in loaded.pods if p.ref == first.pod)
    landing = forecast(leaving, free_capacity(loaded), view)
    chances = dict(zip(landing.names, landing.probabilities.tolist(), strict=True))
    for chance in first.landing:
        assert abs(chances[chance.node] - chance.probability) < 1e-9


@slow
@given(traps(), st.data())
def test_a_view_with_taints_scores_as_a_cluster_that_has_them(
    seen: Snapshot, data: st.DataObject
) -> None:
    nodes = [n for n in seen.cluster.nodes if not n.avoided or n.steered_until is not None]
    ours = {n.name for n in nodes if data.draw(st.booleans())}

    def as_steered(one: Node) -> Node:
        others = tuple(t for t in one.taints if t != STEERING_TAINT)
        taints = (*others, STEERING_TAINT) if one.name in ours else others
        return msgspec.structs.replace(one, taints=taints)

    loaded = with_nodes(seen, nodes).cluster
    names = {one.name for one in nodes}
    loaded = msgspec.structs.replace(loaded, pods=tuple(p for p in loaded.pods if p.node in names))
    real = msgspec.structs.replace(loaded, nodes=tuple(map(as_steered, nodes)))
    arrays = NodeArrays(loaded.nodes)
    mask = arrays.where(lambda n: n.name in ours)
    everywhere = np.ones(len(nodes), dtype=bool)
    for one in loaded.pods:
        view = SchedulerView(loaded, SchedulerRules()).with_steered(mask)
        leaving = LeavingPod(one, arrays.index[one.node], gone=False)
        found = plugin_scores(leaving, view, everywhere)["TaintToleration"]
        expected = plugin_scores(leaving, SchedulerView(real, SchedulerRules()), everywhere)
        assert found.tolist() == expected["TaintToleration"].tolist()


def places_of(seen: Snapshot, by: Policy, most_awaited: int | None) -> Destinations:
    """As the planner makes them."""
    book = UsageBook(seen, by, NOW)
    context = EligibilityContext.of(book, State())
    pressure = classify(book, State())
    free = room_left(context, pressure)
    view = SchedulerView(seen.cluster, by.scheduler, index=free.index)
    within = SoftTaints.of(context, pressure, by.steering.mode).steerable(free.arrays)
    feedback = LandingFeedback(most_awaited=most_awaited)
    return Destinations(free, view, by.max_landing_risk, within, feedback)


@slow
@given(traps(), shares, at_a_time, st.data())
def test_no_node_awaits_more_replacements_than_allowed(
    seen: Snapshot, most: int | Share, most_awaited: int | None, data: st.DataObject
) -> None:
    destinations = places_of(seen, steering(SteeringMode.WHEN_NEEDED, most), most_awaited)
    taken: list[Destination] = []
    for one in data.draw(st.permutations(seen.cluster.pods)):
        cores = data.draw(st.sampled_from([0.1, 1.0, 2.5]))
        charge = {Resource.CPU: cores * 1000, Resource.MEMORY: 0.1 * GIB}
        destination = destinations.destination_of(one, charge)
        if isinstance(destination, Destination):
            destinations.take(destination, one, charge)
            taken.append(destination)
    assert busiest(destination.expected_node for destination in taken) <= (most_awaited or 100)


@slow
@given(traps(), shares, at_a_time, st.data())
def test_the_taints_that_a_move_names_are_enough_for_it(
    seen: Snapshot, most: int | Share, most_awaited: int | None, data: st.DataObject
) -> None:
    destinations = places_of(seen, steering(SteeringMode.WHEN_NEEDED, most), most_awaited)
    for one in data.draw(st.permutations(seen.cluster.pods)):
        cores = data.draw(st.sampled_from([0.1, 1.0, 2.5]))
        charge = {Resource.CPU: cores * 1000, Resource.MEMORY: 0.1 * GIB}
        destination = destinations.destination_of(one, charge)
        if isinstance(destination, Destination):
            named = np.isin(destination.landing.names, destination.steered)
            with_these = destination.view.with_steered(named)
            bad = destinations.harmed(destinations.free.fit(one, one.node, charge).loads)
            assert destination.landing.seen_by(with_these).risk(bad) <= RISK
            destinations.take(destination, one, charge)
