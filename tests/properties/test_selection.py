"""Choosing for several overloaded nodes that compete for evictions and places."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from desched.model.cluster import Pod
from desched.model.plan import NodeClass
from desched.model.resources import Resource
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.reservations import room_left
from desched.planning.selection.all_nodes import Selection, select_moves
from desched.planning.selection.candidates import Candidate, OverloadedNode
from desched.planning.selection.limits import EvictionQuota
from tests.builders import NOW, load, no_limits_but, node, pod, policy, snapshot, workload

ONE_EACH = policy(limits=no_limits_but(workload=1))
PRICE = ONE_EACH.eviction_price_minutes

Arguments = tuple[tuple[OverloadedNode, ...], Destinations, EvictionQuota]


@st.composite
def choices(draw: st.DrawFn) -> Arguments:
    """Two to four overloaded nodes; their pods belong to few workloads that may lose one each."""
    names = [f"hot{i}" for i in range(draw(st.integers(2, 4)))]
    pods: list[Pod] = []
    used = {}
    for name in names:
        for i in range(draw(st.integers(1, 4))):
            of = f"w{draw(st.integers(0, 3))}"
            priority = draw(st.sampled_from([0, 100, 10_000]))
            pods.append(pod(f"{name}-{i}", on=name, of=of, priority=priority))
            used[pods[-1].name] = (draw(st.sampled_from([0.3, 0.6, 0.7])), 0.1)
    cool = {f"cool{i}": (draw(st.sampled_from([0.1, 0.5, 0.6])), 0.1) for i in range(3)}
    loads = {**dict.fromkeys(names, (0.9, 0.1)), **cool}
    owners = [workload(f"w{i}", 20) for i in range(4)]
    seen = snapshot([node(name) for name in loads], pods, load(loads, used), owners)
    book = UsageBook(seen, ONE_EACH, NOW)
    context = EligibilityContext.of(book, State())
    pressure = classify(book, State())
    free = room_left(context, pressure)
    view = SchedulerView(context.cluster, ONE_EACH.scheduler, index=free.index)
    resources = (Resource.CPU, Resource.MEMORY)
    nodes = tuple(
        OverloadedNode(
            loaded,
            tuple(
                Candidate(
                    one,
                    {r: book.measured(one, r) for r in resources},
                    {r: book.demand(one, r) for r in resources},
                    pressure.outlook.pasts.of_pod(one),
                    1.0 + one.priority / 10_000,
                )
                for one in context.cluster.pods_by_node[loaded.node.name]
            ),
        )
        for loaded in pressure.of_class(NodeClass.OVERLOADED)
    )
    destinations = Destinations(free, view, draw(st.sampled_from([0.3, 1.0])))
    return nodes, destinations, EvictionQuota(Eligibility(context))


def uids(made: Selection) -> list[str]:
    return [move.candidate.pod.uid for _, move in made.moves]


@settings(deadline=None)
@given(choices())
def test_a_selection_exceeds_no_limit_and_each_move_saves_more_than_it_costs(
    arguments: Arguments,
) -> None:
    left = arguments[2].copy()
    for source, move in select_moves(*arguments, price=PRICE).moves:
        assert left.why_refused(move.candidate.pod) is None
        left.take(move.candidate.pod)
        assert move.destination.expected_node != source.node.name
        assert move.saved_minutes > move.destination.cost_minutes


@settings(deadline=None)
@given(choices())
def test_each_candidate_moves_or_has_a_reason_to_stay(arguments: Arguments) -> None:
    made = select_moves(*arguments, price=PRICE)
    moved = set(uids(made))
    for each in made.nodes:
        assert {*each.pods} - moved == made.by_node[each.name].refusals.keys()


@settings(deadline=None)
@given(choices())
def test_choosing_changes_neither_the_destinations_nor_the_quota(arguments: Arguments) -> None:
    assert uids(select_moves(*arguments, price=PRICE)) == uids(
        select_moves(*arguments, price=PRICE)
    )


@settings(deadline=None)
@given(choices(), st.data())
def test_what_a_cooler_node_may_move_does_not_change_what_hotter_ones_do(
    arguments: Arguments, data: st.DataObject
) -> None:
    nodes, destinations, quota = arguments
    position = data.draw(st.integers(1, len(nodes) - 1))
    without = [*nodes[:position], msgspec.structs.replace(nodes[position], candidates=())]
    all_of_them = select_moves(nodes, destinations, quota, price=PRICE)
    first = select_moves(without, destinations, quota, price=PRICE)
    for each in nodes[:position]:
        found, expected = (
            [move.candidate.pod.uid for _, move in made.by_node[each.name].moves]
            for made in (first, all_of_them)
        )
        assert found == expected
