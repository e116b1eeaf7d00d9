"""Choosing for several hot nodes at once, beside every other way to choose."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desched.model.cluster import Pod
from desched.model.plan import NodeClass
from desched.model.resources import Resource
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.destinations import Destination, Destinations
from desched.planning.placement.reservations import room_left
from desched.planning.selection import all_nodes
from desched.planning.selection.all_nodes import choose_moves
from desched.planning.selection.beam_search import propose
from desched.planning.selection.excess import Candidate
from desched.planning.selection.greedy import Choice, relieve_nodes
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.local_search import improved
from desched.planning.selection.one_node import OverloadedNode, cheap_covers
from desched.planning.selection.prices import Market
from tests.builders import NOW, load, no_limits_but, node, pod, policy, snapshot, workload

ONE_EACH = policy(limits=no_limits_but(workload=1))
TOLERANCE = 1e-6

Arguments = tuple[tuple[OverloadedNode, ...], Destinations, EvictionQuota]


@st.composite
def choices(draw: st.DrawFn, most_risk: float = 1.0) -> Arguments:
    """Two to four hot nodes whose pods belong to few workloads, each of which may lose one."""
    names = [f"hot{i}" for i in range(draw(st.integers(2, 4)))]
    pods, used = [], {}
    for name in names:
        for i in range(draw(st.integers(1, 4))):
            of = f"w{draw(st.integers(0, 3))}"
            priority = draw(st.sampled_from([0, 100, 10_000]))
            pods.append(pod(f"{name}-{i}", on=name, of=of, priority=priority))
            used[pods[-1].name] = (draw(st.sampled_from([0.3, 0.6, 0.7])), 0.1)
    cool = {f"cool{i}": draw(st.sampled_from([0.1, 0.5, 0.6])) for i in range(3)}
    return choice_of(names, pods, used, cool, most_risk)


def choice_of(
    names: list[str],
    pods: list[Pod],
    used: dict[str, tuple[float, float]],
    cool: dict[str, float],
    most_risk: float = 1.0,
) -> Arguments:
    loads = {**dict.fromkeys(names, (0.9, 0.1)), **{name: (c, 0.1) for name, c in cool.items()}}
    owners = [workload(f"w{i}", 20) for i in range(4)]
    seen = snapshot([node(name) for name in loads], pods, load(loads, used), owners)
    book = UsageBook(seen, ONE_EACH, NOW)
    context = EligibilityContext.of(seen, ONE_EACH, State(), NOW, book)
    pressure = classify(seen, ONE_EACH, State(), book)
    free = room_left(context.cluster, ONE_EACH, State(), pressure, book)
    view = SchedulerView(context.cluster, ONE_EACH.scheduler, free.index)
    nodes = tuple(
        OverloadedNode(
            loaded,
            tuple(
                Candidate(
                    one,
                    {r: book.measured(one, r) for r in (Resource.CPU, Resource.MEMORY)},
                    {r: book.demand(one, r) for r in (Resource.CPU, Resource.MEMORY)},
                    1.0 + one.priority / 10_000,
                )
                for one in context.cluster.pods_by_node[loaded.node.name]
            ),
        )
        for loaded in pressure.of_class(NodeClass.OVERLOADED)
    )
    destinations = Destinations(free, view, most_risk)
    return nodes, destinations, EvictionQuota(ONE_EACH.limits, len(loads), context.cluster)


def allowed(candidates: list[Candidate], quota: EvictionQuota) -> bool:
    left = quota.copy()
    for candidate in candidates:
        if left.refuse(candidate.pod) is not None:
            return False
        left.take(candidate.pod)
    return True


def hot_and_cost(covers: list[tuple[Candidate, ...]]) -> tuple[int, float]:
    return sum(not cover for cover in covers), sum(c.cost for cover in covers for c in cover)


@settings(deadline=None)
@given(choices())
def test_no_other_assignment_of_covers_is_better_than_the_proposal(arguments: Arguments) -> None:
    nodes, _, quota = arguments
    proposal = propose(nodes, quota, len(nodes))
    assert proposal is not None
    assert allowed([c for cover in proposal.values() for c in cover], quota)
    each = [[(), *(c for _, c in cheap_covers(node, quota, 100))] for node in nodes]
    overloaded, cost = min(
        hot_and_cost(list(covers))
        for covers in product(*each)
        if allowed([c for cover in covers for c in cover], quota)
    )
    found = hot_and_cost(list(proposal.values()))
    assert found[0] == overloaded
    assert found[1] <= cost + 0.01  # of about the same cost the one that moves less is taken


def without_a_proposal(arguments: Arguments) -> Choice:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_nodes, "MOST_CANDIDATES_JOINTLY", 0)
        return choose_moves(*arguments)


@settings(deadline=None)
@given(choices())
def test_with_a_proposal_no_choice_is_worse_than_without(arguments: Arguments) -> None:
    assert choose_moves(*arguments).demerit <= without_a_proposal(arguments).demerit


def uids(made: Choice) -> list[str]:
    return [move.candidate.pod.uid for _, move in made.moves]


@settings(deadline=None)
@given(choices(), st.integers(0, 300))
def test_improving_makes_no_choice_worse_and_what_it_finds_can_be_made(
    arguments: Arguments, effort: int
) -> None:
    nodes, destinations, quota = arguments
    start = relieve_nodes(nodes, destinations, quota)
    found = improved(start, destinations, quota, Market(nodes, quota), effort)
    assert found.demerit <= start.demerit
    for name, cover in start.covers.items():
        assert found.covers[name].relieved or not cover.relieved
    again = relieve_nodes(found.order, destinations, quota)
    assert uids(again) == uids(found)


@pytest.mark.parametrize("effort", range(10, 120, 10))
def test_a_dearer_choice_is_never_kept(effort: int) -> None:
    """hot1 always falls short, for hot2 needs the cheapest workload; its third pod is dearest."""
    pods = [
        pod("a1", on="hot1", of="w0"),
        pod("b1", on="hot1", of="w1", priority=100),
        pod("c1", on="hot1", of="w2", priority=10_000),
        pod("a2", on="hot2", of="w0"),
    ]
    used = {one.name: (0.7, 0.1) for one in pods}
    nodes, destinations, quota = choice_of(["hot1", "hot2"], pods, used, {"cool": 0.1, "cold": 0.1})
    start = min(
        (relieve_nodes(order, destinations, quota) for order in (nodes, nodes[::-1])),
        key=lambda made: made.demerit,
    )
    assert sorted(uids(start)) == ["uid-a2", "uid-b1"]
    market = Market(nodes, quota)
    assert sorted(uids(improved(start, destinations, quota, market, effort))) == [
        "uid-a2",
        "uid-b1",
    ]


@settings(deadline=None)
@given(choices())
def test_without_effort_nothing_is_tried(arguments: Arguments) -> None:
    nodes, destinations, quota = arguments
    start = relieve_nodes(nodes, destinations, quota)
    before = destinations.steps
    assert improved(start, destinations, quota, Market(nodes, quota), 0) is start
    assert destinations.steps == before


@settings(deadline=None, max_examples=25)
@given(choices(most_risk=-1.0))
def test_where_no_pod_can_move_no_other_choice_is_tried(arguments: Arguments) -> None:
    nodes, destinations, quota = arguments
    begin = destinations.steps
    assert not relieve_nodes(nodes, destinations, quota).moves
    once = destinations.steps - begin
    assert not choose_moves(nodes, destinations, quota).moves
    assert destinations.steps == begin + 2 * once


@settings(deadline=None)
@given(choices())
def test_the_same_choice_is_improved_in_the_same_way(arguments: Arguments) -> None:
    nodes, destinations, quota = arguments
    start = relieve_nodes(nodes, destinations, quota)
    first, second = (
        improved(start, destinations, quota, Market(nodes, quota), 300) for _ in range(2)
    )
    assert uids(first) == uids(second)


@settings(deadline=None, max_examples=10)
@given(choices(most_risk=0.6))
def test_what_was_denied_while_choosing_would_be_denied_again(arguments: Arguments) -> None:
    nodes, destinations, _ = arguments
    afresh = destinations.without_limits()  # there are none, but it does not know what was denied
    candidates = [candidate for each in nodes for candidate in each.candidates]
    for move in [None, *(move for _, move in choose_moves(*arguments).moves)]:
        if move is not None:
            for each in (destinations, afresh):
                each.take(move.destination, move.candidate.pod, move.candidate.charge)
        for candidate in candidates:
            found = destinations.find(candidate.pod, candidate.charge)
            again = afresh.find(candidate.pod, candidate.charge)
            assert again == found if isinstance(found, tuple) else isinstance(again, Destination)


@settings(deadline=None)
@given(choices())
def test_a_proposal_exceeds_no_limit_and_all_its_pods_have_a_place(arguments: Arguments) -> None:
    _, destinations, quota = arguments
    moves = [move for _, move in choose_moves(*arguments).moves]
    assert allowed([move.candidate for move in moves], quota)
    taken = destinations.copy()
    for move in moves:
        candidate = move.candidate
        destination = taken.find(candidate.pod, candidate.charge)
        assert isinstance(destination, Destination)
        assert destination.expected_node == move.destination.expected_node
        taken.take(move.destination, candidate.pod, candidate.charge)
