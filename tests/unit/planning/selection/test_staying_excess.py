"""A pod that stays and uses more than it requests drives no neighbour away."""

from typing import Any

import pytest

from desched.model.cluster import Pod
from desched.model.plan import NodeReason, Plan
from desched.planning.eligibility.annotations import OWN_ANNOTATION
from tests.builders import amounts, evicted, load, node, planned, pod, policy, reasons, snapshot

CORES = 4
NEIGHBOURS = 4


def plan_beside(burner: Pod, uses: float, each: float = 0.2, **fields: Any) -> Plan:
    """The plan for a node on which the burner uses so many cores, and each neighbour so many."""
    neighbours = [pod(f"web{i}", on="hot") for i in range(NEIGHBOURS)]
    total = (uses + each * NEIGHBOURS) / CORES
    used = load(
        {"hot": (total, 0.1), "cool": (0.1, 0.1)},
        {"burner": (uses, 0.1)} | {one.name: (each, 0.1) for one in neighbours},
    )
    seen = snapshot([node("hot"), node("cool")], [burner, *neighbours], used)
    return planned(seen, policy(**fields))


def burner(requested: float = 0.1, **fields: Any) -> Pod:
    kept = {"annotations": {OWN_ANNOTATION: "false"}} | fields
    return pod("burner", on="hot", request=amounts(requested, 0.1), **kept)


def test_a_pod_that_opts_out_and_burns_cpu_drives_no_neighbour_away() -> None:
    plan = plan_beside(burner(), 3.0)
    assert evicted(plan) == []
    assert {reasons(plan)[f"web{i}"] for i in range(NEIGHBOURS)} == {"staying_excess"}
    hot = next(each for each in plan.nodes if each.node == "hot")
    assert hot.reason is NodeReason.STAYING_EXCESS
    assert "apps/burner" in hot.detail


def test_what_it_requests_is_load_like_any_other() -> None:
    assert len(evicted(plan_beside(burner(3.0), 3.0))) > 0


def test_the_policy_may_let_neighbours_leave() -> None:
    assert evicted(plan_beside(burner(), 3.0, relieves_staying_excess=True))


def test_only_overload_by_others_is_relieved() -> None:
    """Without the burner's excess of 0.5 cores the node is at 85 %, or at 70 % in the end."""
    (with_it,) = plan_beside(burner(0.2), 0.7, 0.8).evictions
    (without,) = plan_beside(burner(0.2), 0.2, 0.8).evictions
    assert with_it.saved_minutes == pytest.approx(without.saved_minutes)
    assert not evicted(plan_beside(burner(0.2), 0.7, 0.65))
    assert evicted(plan_beside(burner(0.2), 0.7, 0.65, relieves_staying_excess=True)) == ["web0"]


@pytest.mark.parametrize("fields", [{"of": None}, {"priority": 2_000_000_000}])
def test_a_pod_that_stays_for_another_reason_is_load_like_any_other(fields: dict[str, Any]) -> None:
    assert evicted(plan_beside(burner(**fields, annotations={}), 3.0))
