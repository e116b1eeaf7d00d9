"""Overloaded nodes with GPUs: which pods leave them, and which nodes can take a pod."""

import json

import msgspec
import pytest

from desched.model.cluster import Node
from desched.model.networks import INTERFACES, NETWORK_RESOURCES
from desched.model.plan import Plan
from desched.plugins.gpus.keys import GpuPods
from desched.plugins.gpus.plugin import Gpus
from tests.builders import (
    amounts,
    evicted,
    house,
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    snapshot,
    workload,
)

GPU = "nvidia.com/gpu"
RAILS = {f"{NETWORK_RESOURCES}vpc{i}": 1 for i in range(1, 9)}
FAST = {"vpc.amazonaws.com/efa": 32, "rdma/hca": 1, "hugepages-2Mi": 2**30}


def gpu_node(name: str, **devices: int) -> Node:
    size = msgspec.structs.replace(amounts(4, 16, **devices), pods=110)
    return node(name, capacity=size, allocatable=size)


def plan_of(
    wanted: dict[str, int], free: dict[str, int], annotations: dict[str, str] | None = None
) -> Plan:
    """A pod of one core on a hot node that has all; the cool node has only what is free."""
    hot = gpu_node("hot", **{**RAILS, **FAST, GPU: 8})
    one = pod("a", on="hot", request=amounts(1, 1, **wanted), annotations=annotations or {})
    used = load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)}, {"a": (1.0, 0.1)})
    allowing = policy(plugins=house(Gpus(gpu_pods=GpuPods.ALLOW)))
    return planned(snapshot([hot, gpu_node("cool", **free)], [one], used), allowing)


def test_pods_without_a_gpu_relieve_a_node_and_those_with_one_stay() -> None:
    """S3.6: a GPU node whose host CPU is hot."""
    nodes = [gpu_node("hot", **{GPU: 8}), gpu_node("cool", **{GPU: 8})]
    pods = [
        pod("server", on="hot", request=amounts(2, 1, **{GPU: 8})),
        pod("loader", on="hot", of="loader", request=amounts(1, 1)),
    ]
    used = load(
        {"hot": (0.9, 0.1), "cool": (0.1, 0.1)}, {"server": (2.0, 0.1), "loader": (1.0, 0.1)}
    )
    plan = planned(snapshot(nodes, pods, used, [workload("web"), workload("loader")]))
    assert (evicted(plan), reasons(plan)) == (["loader"], {"server": "gpu_pod"})


@pytest.mark.parametrize(
    "resources", [RAILS, {**RAILS, GPU: 8}, FAST, {f"{r}.IP": 1 for r in RAILS}]
)
def test_a_pod_fits_only_where_each_extended_resource_is_free(resources: dict[str, int]) -> None:
    """R3.1: 8 rails do not fit on a node with 7; so for EFA, RDMA, huge pages and addresses."""
    assert evicted(plan_of(resources, resources)) == ["a"]
    for name, count in resources.items():
        fewer = {key: amount for key, amount in resources.items() if key != name}
        assert reasons(plan_of(resources, fewer))["a"] == "no_node_fits"
        assert reasons(plan_of(resources, {**fewer, name: count - 1}))["a"] == "no_node_fits"


def test_a_pod_fits_only_where_each_network_of_its_annotation_is() -> None:
    """R3.2: also if a webhook adds the resources of the networks only to new pods."""
    listed = [{"interfaceName": f"eth{i}", "network": f"vpc{i}"} for i in range(1, 9)]
    networks = {INTERFACES: json.dumps([{"interfaceName": "eth0", "network": "default"}, *listed])}
    assert evicted(plan_of({}, RAILS, networks)) == ["a"]
    (refusal,) = plan_of({}, {**RAILS, f"{NETWORK_RESOURCES}vpc8": 0}, networks).refusals
    assert refusal.reason == "no_node_fits"
    assert f"1 Insufficient {NETWORK_RESOURCES}vpc8" in refusal.detail


def test_two_pods_cannot_claim_the_same_network() -> None:
    """X1: the second is judged on the cluster that already has the move of the first."""
    rail = {f"{NETWORK_RESOURCES}vpc1": 1}
    nodes = [gpu_node(name, **rail) for name in ("hot-1", "hot-2", "cool")]
    pods = [pod(n, on=f"hot-{n}", of=f"w{n}", request=amounts(1, 1, **rail)) for n in "12"]
    used = load(
        {"hot-1": (0.9, 0.1), "hot-2": (0.9, 0.1), "cool": (0.1, 0.1)},
        {"1": (1.0, 0.1), "2": (1.0, 0.1)},
    )
    plan = planned(snapshot(nodes, pods, used, [workload("w1"), workload("w2")]))
    assert evicted(plan) == ["1"]
    (refusal,) = plan.refusals
    # The network that the first one leaves is free, on a node that it leaves above its ceiling.
    assert (refusal.pod.name, refusal.reason) == ("2", "no_node_under_ceiling")
    assert f"Insufficient {NETWORK_RESOURCES}vpc1" in refusal.detail
