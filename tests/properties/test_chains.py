"""What must hold for every chain of two moves, in clusters that are nearly full of requests."""

from datetime import timedelta

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desched.model.chain import ChainUnderWay
from desched.model.cluster import Pod
from desched.model.load import ClusterLoad, Measured
from desched.model.plan import NodeClass, Plan, PlannedEviction
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, MoveResult, State
from tests.builders import (
    NOW,
    amounts,
    certain,
    evicted,
    load,
    node,
    planned,
    pod,
    policy,
    snapshot,
    workload,
)

CORES = 8.0
CEILING, TARGET = 0.7, 0.8
CAREFUL = policy(max_landing_risk=0.15)


@st.composite
def full_clusters(draw: st.DrawFn) -> Snapshot:
    """One or two hot nodes with pods of three cores, or sometimes less; no other has three free."""
    hot = draw(st.integers(1, 2))
    count = hot + draw(st.integers(2, 4))
    pods: list[Pod] = []
    usage: dict[str, tuple[float, float]] = {}
    loads: dict[str, tuple[float, float]] = {}
    for number in range(count):
        name, free, busy = f"n{number}", CORES, 0.0
        is_hot = number < hot
        left = draw(st.sampled_from([2.0, 2.0, 0.0] if is_hot else [0.5, 1.0, 2.0, 2.5]))
        sizes = [3.0] if is_hot else [1.0, 1.5, 2.0, 2.5]
        while free > left:
            requested = min(free - left, draw(st.sampled_from(sizes)))
            share = draw(st.floats(0.8, 1.1) if is_hot else st.floats(0.0, 0.3))
            of = f"w{len(pods)}"
            pods.append(pod(f"p{len(pods)}", name, of, request=amounts(requested, 0.1)))
            usage[pods[-1].name] = (requested * share, 0.1)
            free, busy = free - requested, busy + requested * share
        loads[name] = (min(1.0, busy / CORES + (0.15 if is_hot else 0.0)), 0.1)
    owners = [workload(f"w{i}", 2) for i in range(len(pods))]
    nodes = [node(f"n{i}", cpu=CORES) for i in range(count)]
    return snapshot(nodes, pods, load(loads, usage), owners)


def openings(plan: Plan) -> list[PlannedEviction]:
    return [e for e in plan.evictions if e.chain is not None and e.chain.first == e.pod]


def after_landing(seen: Snapshot, moves: list[PlannedEviction]) -> tuple[Snapshot, State]:
    """These moves have landed where they were expected, and all windows have seen it."""
    target = {e.pod.name: e.expected_node for e in moves}
    cpu = {name: by[Resource.CPU] for name, by in seen.load.nodes.items()}
    ratios = {n: value.levels[0].ratio for n, value in cpu.items() if isinstance(value, Measured)}
    pods = []
    for each in seen.cluster.pods:
        if each.name in target:
            used = seen.load.pods["apps", each.name].cpu_millicores[0] / (CORES * 1000)
            ratios[each.node] -= used
            ratios[target[each.name]] += used
            each = msgspec.structs.replace(  # noqa: PLW2901  (its replacement)
                each, node=target[each.name], uid=f"{each.uid}-new", name=f"{each.name}-new"
            )
        pods.append(each)
    usage = {("apps", p.name): seen.load.pods["apps", p.name.removesuffix("-new")] for p in pods}
    loads = ClusterLoad(load({n: (r, 0.1) for n, r in ratios.items()}).nodes, usage)
    cluster = msgspec.structs.replace(seen.cluster, pods=tuple(pods))
    chains = tuple(
        ChainUnderWay(e.chain, NOW + timedelta(hours=1)) for e in moves if e.chain is not None
    )
    records = tuple(
        EvictionRecord(
            e.pod,
            e.node,
            e.workload_uid,
            NOW - timedelta(minutes=20),
            certain(e.expected_node),
            left_at=NOW - timedelta(minutes=19),
            result=MoveResult.LANDED_AS_FORECAST,
        )
        for e in moves
    )
    return Snapshot(cluster, loads, NOW), State(evictions=records, chains=chains)


slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(full_clusters())
def test_a_chain_begins_on_a_cool_node_for_a_node_that_single_moves_do_not_relieve(
    seen: Snapshot,
) -> None:
    plan = planned(seen, CAREFUL)
    found = openings(plan)
    classes = {v.node: v.node_class for v in plan.nodes}
    alone = planned(seen, msgspec.structs.replace(CAREFUL, chains=False))
    relieved = {eviction.node for eviction in alone.evictions}
    for eviction in found:
        chain = eviction.chain
        assert chain is not None
        assert eviction.node == chain.room_on
        assert classes[chain.room_on] is not NodeClass.OVERLOADED
        assert classes[chain.source] is NodeClass.OVERLOADED
        assert chain.source not in relieved
        assert eviction.expected_node not in {chain.room_on, chain.source}
    if not found:
        assert evicted(plan) == evicted(alone)


@slow
@given(full_clusters())
def test_each_prefix_of_a_plan_leaves_no_node_above_its_target_that_was_below(
    seen: Snapshot,
) -> None:
    plan = planned(seen, CAREFUL)
    hot = {v.node for v in plan.nodes if v.node_class is NodeClass.OVERLOADED}
    for count in range(1, len(plan.evictions) + 1):
        after, _ = after_landing(seen, list(plan.evictions[:count]))
        for name, by_resource in after.load.nodes.items():
            cpu = by_resource[Resource.CPU]
            assert isinstance(cpu, Measured)
            assert name in hot or cpu.levels[0].ratio <= TARGET
        for each in after.cluster.nodes:
            requested = sum(
                p.scheduling.requests.cpu_millicores
                for p in after.cluster.pods
                if p.node == each.name
            )
            assert requested <= each.allocatable.cpu_millicores


@slow
@given(full_clusters())
def test_the_second_moves_go_to_the_rooms_of_the_first_ones(seen: Snapshot) -> None:
    first = planned(seen, CAREFUL)
    if not openings(first):
        return
    after, state = after_landing(seen, list(first.evictions))
    second = planned(after, CAREFUL, state)
    chains = [each.chain for each in state.chains]
    taken = []
    for chain in chains:
        (eviction,) = [e for e in second.evictions if e.node == chain.source][:1]
        taken.append(eviction.expected_node)
        if eviction.pod == chain.second:
            assert eviction.chain == chain
    # Two rooms may be equal to two pods.
    assert sorted(taken) == sorted(chain.room_on for chain in chains)
