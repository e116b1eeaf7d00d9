"""The threshold `gpu`: pods that share busy GPUs leave them for GPUs with time left."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from desched.model.load import DeviceUsage, Measured, Unknown
from desched.model.plan import NodeClass, Plan
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, State
from desched.plugins.gpus.keys import GpuPods
from desched.plugins.gpus.load import GpuLoad
from desched.plugins.gpus.plugin import Gpus
from desched.policy.policy import Policy
from tests.builders import (
    NOW,
    amounts,
    certain,
    evicted,
    house,
    load,
    measured,
    node,
    planned,
    pod,
    policy,
    reasons,
    rule,
    snapshot,
    unknown,
    workload,
)

SHARE = {"nvidia.com/gpu.shared": 1}
ROOM = replace(amounts(10, 40, **{"nvidia.com/gpu.shared": 8}), pods=110)
Loads = Mapping[str, float | Unknown]
Uses = Mapping[str, tuple[float, float]]


def watching(*resources: Resource, **fields: Any) -> Policy:
    """Target 80, ceiling 70."""
    rules = (rule(each) for each in (resources or (Resource.CPU, Resource.GPU)))
    return policy(*rules, plugins=house(Gpus(gpu_pods=GpuPods.ALLOW)), **fields)


def seen(gpus: Loads, pods: Mapping[str, str], uses: Uses, cpu: float = 0.1) -> Snapshot:
    """Nodes with two GPUs of this load, pods by name with their node, and their usage of GPUs.

    The usage is that of shared GPUs, and of GPUs that the pod has alone. A pod without any requests
    no GPU. All pods use half a core; `cpu` is the load of the node `hot`.
    """
    known = {
        name: replace(measured(ratio), devices=2) if isinstance(ratio, float) else ratio
        for name, ratio in gpus.items()
    }
    cpus = {name: (cpu if name == "hot" else 0.1, 0.1) for name in gpus}
    of_load = load(cpus, dict.fromkeys(pods, (0.5, 0.1)))
    judged = {
        name: {**loads, Resource.GPU: known[name]} if isinstance(known[name], Measured) else loads
        for name, loads in of_load.nodes.items()
    }
    used = {name: DeviceUsage((shared,), (alone,)) for name, (shared, alone) in uses.items()}
    return snapshot(
        [node(name, capacity=ROOM, allocatable=ROOM) for name in gpus],
        [
            pod(
                name,
                on=on,
                of=f"w-{name}",
                request=amounts(0.1, 0.1, **(SHARE if name in GPU_PODS else {})),
            )
            for name, on in pods.items()
        ],
        replace(of_load, nodes=judged, extras=GpuLoad(known, {"apps": used}).extras),
        [workload(f"w-{name}") for name in pods],
    )


GPU_PODS = frozenset({"chat", "code", "draw"})


USES = {"chat": 0.5, "code": 0.4, "draw": 0.9, "web": 0.0}
PLACES = dict.fromkeys(USES, "hot")


def sharing(places: Mapping[str, str]) -> Snapshot:
    """Two nodes, whose GPUs the pods at these places share; those of `cool` do something else."""
    gpus: dict[str, float | Unknown] = {
        name: besides + sum(USES[each] for each, at in places.items() if at == name) / 2
        for name, besides in (("hot", 0.0), ("cool", 0.2))
    }
    return seen(gpus, places, {name: (USES[name], 0.0) for name in GPU_PODS})


def test_a_node_with_busy_gpus_is_relieved_by_a_pod_that_shares_them() -> None:
    """The one that uses most leaves most room; a pod without a GPU is of no use."""
    (move,) = planned(sharing(PLACES), watching()).evictions
    assert (move.pod.name, move.expected_node, move.devices) == ("draw", "cool", 0.9)
    assert move.reason == "node hot gpu 90.0% > 80.0%"
    (relief,) = move.relief
    assert relief.resource is Resource.GPU
    assert relief.ratio == pytest.approx(0.45)


def test_the_cycle_after_the_move_does_nothing() -> None:
    """The load is what the first one expected, so that no pod goes back."""
    first = planned(sharing(PLACES), watching())
    moved = {each.pod.name: each.expected_node for each in first.evictions}
    second = planned(sharing({**PLACES, **moved}), watching())
    assert evicted(second) == []
    assert {verdict.node_class for verdict in second.nodes} == {NodeClass.BALANCED}
    expected, found = (
        [
            p.after_ratio if after else p.lowest_ratio
            for v in plan.nodes
            for p in v.pressures
            if p.resource is Resource.GPU
        ]
        for plan, after in ((first, True), (second, False))
    )
    assert found == pytest.approx(expected)


def test_a_policy_without_the_threshold_looks_at_no_gpu() -> None:
    of_cpu = sharing(PLACES).load
    without = {name: {Resource.CPU: each[Resource.CPU]} for name, each in of_cpu.nodes.items()}
    unaware = replace(sharing(PLACES), load=replace(of_cpu, nodes=without, extras={}))
    assert planned(sharing(PLACES), watching(Resource.CPU)) == planned(
        unaware, watching(Resource.CPU)
    )
    assert evicted(planned(sharing(PLACES), watching(Resource.CPU))) == []


def test_pods_that_have_their_gpus_alone_bring_no_relief() -> None:
    """Nothing would be gained: no other pod waits for their time."""
    uses = {"chat": (0.0, 0.9), "code": (0.0, 0.9)}
    plan = planned(
        seen({"hot": 0.9, "cool": 0.1}, {"chat": "hot", "code": "hot"}, uses), watching()
    )
    assert evicted(plan) == []
    assert set(reasons(plan).values()) == {"no_relief"}


def test_a_pod_of_unknown_usage_stays() -> None:
    uses = {"chat": (0.5, 0.0), "draw": (0.5, 0.0)}
    plan = planned(
        seen({"hot": 0.9, "cool": 0.1}, {"chat": "hot", "code": "hot", "draw": "hot"}, uses),
        watching(),
    )
    assert reasons(plan)["code"] == "usage_unknown"
    assert len(evicted(plan)) == 1


def two_hot(cool: float) -> Snapshot:
    gpus = {"hot": 0.85, "warm": 0.85, "cool": cool}
    uses = {"chat": (0.4, 0.0), "code": (0.4, 0.0)}
    return seen(gpus, {"chat": "hot", "code": "warm"}, uses)


@pytest.mark.parametrize(("cool", "moves"), [(0.3, 2), (0.49, 1), (0.51, 0)])
def test_no_destination_rises_above_its_ceiling_by_the_moves_of_a_plan(
    cool: float, moves: int
) -> None:
    """Each pod takes 20 points with it; the ceiling is 70 %."""
    plan = planned(two_hot(cool), watching())
    assert len(plan.evictions) == moves
    landings = (chance for each in plan.evictions for chance in each.landing)
    brought = 0.2 * sum(each.probability for each in landings if each.node == "cool")
    after = {verdict.node: verdict for verdict in plan.nodes}["cool"].pressures
    ratios = [each.after_ratio for each in after if each.resource is Resource.GPU]
    assert ratios == [pytest.approx(cool + brought) if moves else None]


def test_pods_that_are_still_on_their_way_count_at_their_destination() -> None:
    record = EvictionRecord(
        replace(two_hot(0.4).cluster.pods[0].ref, uid="gone"),
        "elsewhere",
        "uid-w-chat",
        NOW,
        certain("cool"),
        devices=0.4,
    )
    assert len(planned(two_hot(0.49), watching()).evictions) == 1
    assert evicted(planned(two_hot(0.49), watching(), State(evictions=(record,)))) == []


def test_what_a_pod_uses_alone_counts_at_its_destination() -> None:
    """The pod leaves for the CPU of its node."""
    plans = [
        planned(
            seen({"hot": 0.5, "cool": cool}, {"chat": "hot"}, {"chat": (0.0, 0.8)}, cpu=0.84),
            watching(),
        )
        for cool in (0.3, 0.31)
    ]
    assert [evicted(plan) for plan in plans] == [["chat"], []]
    assert reasons(plans[1]) == {"chat": "no_node_under_ceiling"}


def test_a_node_with_gpus_of_unknown_load_takes_pods_without_a_gpu_only() -> None:
    """Unknown is not idle; CPU decides on the others as before, and on the node itself."""

    def plan_of(name: str, by: Policy) -> Plan:
        gpus: Loads = {"hot": 0.5, "cool": unknown()}
        return planned(seen(gpus, {name: "hot"}, {"chat": (0.1, 0.0)}, cpu=0.84), by)

    (refusal,) = plan_of("chat", watching()).refusals
    assert refusal.reason == "no_node_under_ceiling"
    assert "1 node has GPUs of unknown load" in refusal.detail
    assert evicted(plan_of("web", watching())) == ["web"]
    assert evicted(plan_of("chat", watching(Resource.CPU))) == ["chat"]


def test_a_pod_that_the_windows_do_not_show_counts_as_one_gpu() -> None:
    """Its siblings would tell more; it has none."""
    found = seen({"hot": 0.9, "cool": 0.3}, {"chat": "hot", "draw": ""}, {"chat": (0.4, 0.0)})
    assert evicted(planned(found, watching())) == []
    without = replace(found, cluster=replace(found.cluster, pods=found.cluster.pods[:1]))
    assert evicted(planned(without, watching())) == ["chat"]


def test_busy_gpus_in_the_whole_pool_need_more_gpus() -> None:
    """Nodes whose GPUs nobody shares do not count."""
    found = seen({"hot": 0.95, "warm": 0.9}, {"chat": "hot"}, {"chat": (0.4, 0.0)})
    nodes = (*found.cluster.nodes, node("plain"))
    of_load = replace(
        found.load, nodes={**found.load.nodes, "plain": {Resource.CPU: measured(0.1)}}
    )
    plan = planned(
        replace(found, cluster=replace(found.cluster, nodes=nodes), load=of_load), watching()
    )
    assert plan.hold_detail == (
        "gpu 92.5% on average, above the stop line of 75.0%; 1 more node would end that"
    )
