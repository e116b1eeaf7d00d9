"""`gpuCeiling`: pods that request a GPU move only to nodes whose GPUs have time left."""

from typing import Any

from msgspec.structs import replace

from desched.model.load import Measured, Unknown
from desched.model.plan import Plan
from desched.policy.policy import Protections
from tests.builders import (
    amounts,
    evicted,
    load,
    measured,
    node,
    planned,
    pod,
    policy,
    reasons,
    snapshot,
    unknown,
)

GPU = {"nvidia.com/gpu.shared": 1}
OTHER = {"amd.com/gpu": 1}


def plan_of(requests: dict[str, int], ceiling: float | None, **gpus: Measured | Unknown) -> Plan:
    """A pod of one core that has to leave a node whose CPU is hot for one of two cool nodes."""
    size = replace(amounts(10, 40, **GPU, **OTHER), pods=110)
    room: dict[str, Any] = {"capacity": size, "allocatable": size}
    names = ("hot", "te4", "te5")
    one = pod("a", on="hot", request=amounts(1, 1, **requests))
    used = load({name: (0.9 if name == "hot" else 0.1, 0.1) for name in names}, {"a": (1.0, 0.1)})
    seen = snapshot([node(name, **room) for name in names], [one], replace(used, gpus=gpus))
    allowing = policy(
        protections=Protections(gpu_pods=False), gpu_ceiling_ratio=ceiling, max_landing_risk=0.6
    )
    return planned(seen, allowing)


def test_a_pod_moves_to_the_node_whose_gpus_have_time_left() -> None:
    """kube-scheduler does not know their load, so a landing on busy ones is a risk."""
    (move,) = plan_of(GPU, 0.8, te4=measured(0.81), te5=measured(0.8)).evictions
    assert (move.expected_node, move.landing_risk) == ("te5", 0.5)


def test_a_node_whose_gpus_are_busy_or_unknown_takes_no_gpu_pod() -> None:
    """Unknown is not idle; CPU and memory decide on all other pods as before."""
    (refusal,) = plan_of(GPU, 0.8, te4=measured(0.95), te5=unknown()).refusals
    assert refusal.reason == "no_node_under_ceiling"
    assert "2 node(s) have GPUs above gpuCeiling, or of unknown load" in refusal.detail
    assert reasons(plan_of(GPU, 0.8)) == {"a": "no_node_under_ceiling"}
    assert evicted(plan_of({}, 0.8)) == ["a"]


def test_without_a_ceiling_the_load_of_gpus_decides_nothing() -> None:
    assert evicted(plan_of(GPU, None, te4=measured(1.0), te5=unknown())) == ["a"]


def test_gpus_whose_load_nobody_measures_are_not_limited() -> None:
    """DCGM knows those of NVIDIA only."""
    assert evicted(plan_of(OTHER, 0.8)) == ["a"]
