"""Thresholds around the mean: what is balanced or idle is left alone, and plans converge."""

from collections import Counter, defaultdict
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desched.model.plan import NodeClass, Plan, ResourcePressure
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.policy.policy import Policy
from tests.builders import STEERED, load, measured, node, planned, pod, policy, rule, snapshot


def around_mean(distance: float, floor: float = 0.0, **margins: Any) -> Policy:
    near = rule(Resource.CPU, low_ratio=distance, target_ratio=distance, **margins)
    return policy(near, deviation=True, deviation_floor_ratio=floor, **STEERED)


def cluster(usage: dict[str, list[float]], cores: float = 4) -> Snapshot:
    """Nodes with pods of so many cores; the load is what the pods use."""
    pods = {f"{n}-{i}": (n, used) for n, several in usage.items() for i, used in enumerate(several)}
    return snapshot(
        [node(n, cpu=cores) for n in usage],
        [pod(name, on=where) for name, (where, _) in pods.items()],
        load(
            {n: (min(1.0, sum(several) / cores), 0.1) for n, several in usage.items()},
            {name: (used, 0.01) for name, (_, used) in pods.items()},
        ),
    )


def pressure(plan: Plan, name: str) -> ResourcePressure:
    return next(v for v in plan.nodes if v.node == name).pressures[0]


def test_below_the_floor_nothing_is_evicted_however_idle_the_others_are() -> None:
    seen = cluster({"n1": [0.2] * 8, "n2": [0.1], "n3": [0.1]})
    assert planned(seen, around_mean(0.1)).evictions
    plan = planned(seen, around_mean(0.1, floor=0.5))
    assert pressure(plan, "n1").target_ratio == 0.5
    assert not plan.evictions


def test_above_the_floor_the_mean_counts() -> None:
    seen = cluster({"n1": [0.5] * 6, "n2": [0.1], "n3": [0.1]})
    plan = planned(seen, around_mean(0.3, floor=0.5))
    assert pressure(plan, "n1").target_ratio == pytest.approx(3.2 / 12 + 0.3)
    assert plan.evictions


def test_a_node_near_the_mean_is_within_the_dead_band_whatever_the_thresholds_say() -> None:
    seen = cluster({"n1": [0.5, 0.5, 0.5, 0.54], "n2": [0.5, 0.5, 0.5, 0.4]})
    plan = planned(seen, around_mean(0.01))
    assert pressure(plan, "n1").target_ratio == pytest.approx(3.94 / 8 + 0.05)
    assert not plan.evictions


def test_the_mean_does_not_change_when_load_moves_to_a_larger_node() -> None:
    def target(small: float, large: float) -> float:
        nodes = [node("small", cpu=2), node("large", cpu=8)]
        seen = snapshot(nodes, [], load({"small": (small, 0.1), "large": (large, 0.1)}))
        return pressure(planned(seen, around_mean(0.1)), "small").target_ratio

    assert target(0.9, 0.3) == pytest.approx(target(0.5, 0.4))


@st.composite
def tilted(draw: st.DrawFn) -> Snapshot:
    """Two to five nodes with up to ten pods each, of 0.1 to 0.9 cores; none is over full."""
    names = [f"n{i}" for i in range(draw(st.integers(2, 5)))]
    pods = st.lists(st.integers(1, 9).map(lambda tenths: tenths / 10), max_size=10)
    usage = {name: draw(pods) for name in names}
    return cluster({name: used if sum(used) <= 4 else used[:4] for name, used in usage.items()})


def applied(seen: Snapshot, plan: Plan) -> Snapshot:
    """The pods where they were expected, and every window has seen it."""
    target = {e.pod.name: e.expected_node for e in plan.evictions}
    pods = tuple(
        msgspec.structs.replace(p, node=target.get(p.name, p.node)) for p in seen.cluster.pods
    )
    used: defaultdict[str, float] = defaultdict(float)
    for one in pods:
        used[one.node] += seen.load.pods["apps", one.name].cpu_millicores[0]
    loads = {
        n.name: {
            Resource.CPU: measured(min(1.0, used[n.name] / n.capacity.cpu_millicores)),
            Resource.MEMORY: measured(0.1),
        }
        for n in seen.cluster.nodes
    }
    loaded = msgspec.structs.replace(seen.cluster, pods=pods)
    return Snapshot(loaded, msgspec.structs.replace(seen.load, nodes=loads), seen.taken_at)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tilted(), st.sampled_from([0.01, 0.1, 0.2]), st.sampled_from([0.0, 0.5]))
def test_plan_after_plan_ends_with_no_eviction_and_moves_no_pod_twice(
    seen: Snapshot, distance: float, floor: float
) -> None:
    by = around_mean(distance, floor)
    moved: Counter[str] = Counter()
    for _ in range(len(seen.cluster.pods) + 1):
        plan = planned(seen, by)
        moved.update(e.pod.name for e in plan.evictions)
        if not plan.evictions:
            break
        seen = applied(seen, plan)
    else:
        pytest.fail("every plan of the series evicts")
    assert max(moved.values(), default=0) <= 1


def test_the_series_of_plans_begins_with_evictions() -> None:
    """The property above would hold for a planner that does nothing."""
    seen = cluster({"n0": [0.2] * 16, "n1": [0.3] * 2, "n2": [0.2]})
    for least in (2, 1):
        plan = planned(seen, around_mean(0.1))
        assert len(plan.evictions) >= least
        seen = applied(seen, plan)
    after = planned(seen, around_mean(0.1))
    assert NodeClass.OVERLOADED not in {v.node_class for v in after.nodes}
