"""Whatever the cluster looks like, a plan sends pods only where the scheduler lets them in.

Which nodes that are says the scheduler of the simulation, which shares no code with planning.
"""

from collections.abc import Iterator, Mapping

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from desched.lab.scheduler.choice import score_nodes
from desched.lab.scheduler.view import ClusterView
from desched.model.cluster import ClusterState, Effect, HostPort, Node, Taint, Toleration
from desched.model.load import ClusterLoad
from desched.model.plan import Plan
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.policy.policy import Policy
from tests.builders import amounts, load, node, planned, pod, policy, snapshot, workload
from tests.properties.test_feasibility import APPS, HOST, constraints, terms

CAREFUL = policy(max_landing_risk=0.15)
ANY_RISK = policy()
DEDICATED = Taint("dedicated", Effect.NO_SCHEDULE)
SSD = NodeSelectorTerm((Requirement("disk", Operator.IN, ("ssd",)),))

slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """One or two hot nodes, cooler ones, and pods of which some ask for particular places."""
    names = [f"n{i}" for i in range(draw(st.integers(3, 6)))]
    overloaded = names[: draw(st.integers(1, 2))]
    nodes = [draw(_nodes(name)) for name in names]
    pods, usage = [], {}
    for i in range(draw(st.integers(2, 10))):
        on = draw(st.sampled_from(overloaded) | st.sampled_from(names))
        pods.append(
            pod(
                f"p{i}",
                on=on,
                of=draw(st.sampled_from(APPS)),
                request=amounts(draw(st.sampled_from((0.1, 1, 2))), 0.1),
                scheduling=draw(demands),
            )
        )
        usage[f"p{i}"] = (draw(st.sampled_from((0.3, 0.5, 0.7))), 0.1)
    cool = st.sampled_from((0.1, 0.4, 0.6))
    loads = {n: (0.85 if n in overloaded else draw(cool), 0.1) for n in names}
    return snapshot(nodes, pods, load(loads, usage), [workload(app, 20) for app in APPS])


@st.composite
def _nodes(draw: st.DrawFn, name: str) -> Node:
    labels = {HOST: name}
    if zone := draw(st.sampled_from(("a", "b", ""))):
        labels["zone"] = zone
    if draw(st.booleans()):
        labels["disk"] = "ssd"
    taints = draw(st.sampled_from(((), (), (DEDICATED,))))
    cordoned = draw(st.integers(0, 9)) == 0
    return node(name, labels=labels, taints=taints, unschedulable=cordoned)


demands = st.fixed_dictionaries(
    {},
    optional={
        "pod_affinity": st.tuples(terms),
        "pod_anti_affinity": st.tuples(terms),
        "spread": st.tuples(constraints),
        "host_ports": st.just((HostPort(80),)),
        "node_selector": st.just((("disk", "ssd"),)),
        "required_node_affinity": st.just((SSD,)),
        "tolerations": st.just((Toleration(operator="Exists"),)),
    },
)


def in_turn(seen: Snapshot, plan: Plan) -> Iterator[tuple[str, set[str]]]:
    """The node expected of each move, and those that its replacement may go to by then."""
    pods = {one.uid: one for one in seen.cluster.pods}
    for eviction in plan.evictions:
        new = msgspec.structs.replace(pods.pop(eviction.pod.uid), node="", uid="")
        others = msgspec.structs.replace(seen.cluster, pods=tuple(pods.values()))
        yield eviction.expected_node, set(score_nodes(new, ClusterView(others)))
        landed = msgspec.structs.replace(new, node=eviction.expected_node)
        pods[f"new {eviction.pod.uid}"] = landed


@slow
@given(clusters(), st.sampled_from([CAREFUL, ANY_RISK]))
def test_no_destination_is_one_that_the_filters_exclude(seen: Snapshot, by: Policy) -> None:
    for expected, feasible in in_turn(seen, planned(seen, by)):
        assert expected in feasible


def renamed(seen: Snapshot, nodes: Mapping[str, str], pods: Mapping[str, str]) -> Snapshot:
    """The same cluster under other names."""
    loaded = ClusterState(
        tuple(
            msgspec.structs.replace(
                one, name=nodes[one.name], labels={**one.labels, HOST: nodes[one.name]}
            )
            for one in seen.cluster.nodes
        ),
        tuple(
            msgspec.structs.replace(one, name=pods[one.name], node=nodes[one.node])
            for one in seen.cluster.pods
        ),
        seen.cluster.workloads,
    )
    measured = ClusterLoad(
        {nodes[name]: found for name, found in seen.load.nodes.items()},
        {(space, pods[name]): used for (space, name), used in seen.load.pods.items()},
    )
    return Snapshot(loaded, measured, seen.taken_at)


@slow
@given(clusters(), st.data())
def test_names_mean_nothing_but_an_order_among_equals(seen: Snapshot, data: st.DataObject) -> None:
    fresh = st.text("abcdefgh0123456789", min_size=1, max_size=6)

    def others(names: list[str]) -> dict[str, str]:
        """Names in the same order as those."""
        drawn = st.lists(fresh, min_size=len(names), max_size=len(names), unique=True)
        return dict(zip(sorted(names), sorted(data.draw(drawn)), strict=True))

    nodes = others([one.name for one in seen.cluster.nodes])
    pods = others([one.name for one in seen.cluster.pods])
    moves = [
        (pods[e.pod.name], nodes[e.node], nodes[e.expected_node], e.landing_risk, e.cost)
        for e in planned(seen, CAREFUL).evictions
    ]
    again = planned(renamed(seen, nodes, pods), CAREFUL)
    assert moves == [
        (e.pod.name, e.node, e.expected_node, e.landing_risk, e.cost) for e in again.evictions
    ]


class FoundError(Exception):
    """What was looked for is among the examples."""


def test_the_strategy_makes_plans_of_several_moves_that_exclude_nodes() -> None:
    """The properties above would hold for a planner that does nothing."""

    @settings(slow, max_examples=300, database=None, phases=[Phase.generate])
    @given(clusters())
    def look(seen: Snapshot) -> None:
        found = list(in_turn(seen, planned(seen, ANY_RISK)))
        if len(found) > 1 and any(len(feasible) < 3 for _, feasible in found):
            raise FoundError

    with pytest.raises(FoundError):
        look()
