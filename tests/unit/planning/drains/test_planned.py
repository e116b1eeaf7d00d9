"""The moves that drains plan, as part of a whole plan."""

from tests.builders import evicted, planned
from tests.unit.planning.drains.gpu_cluster import drains, gpu_node, runs, seen, waits

SPREAD = [runs(f"p{i}", f"g{i}") for i in range(8)]
NODES = [gpu_node(f"g{i}") for i in range(8)]


def test_one_node_is_drained_for_a_pod_with_eight_gpus() -> None:
    plan = planned(seen(NODES, [*SPREAD, waits("big")]), drains())
    assert len(plan.evictions) == 1
    [eviction] = plan.evictions
    assert eviction.drain is not None
    assert eviction.drain.nodes == (eviction.node,)
    assert eviction.node in eviction.steered
    assert eviction.node not in eviction.likely_nodes
    assert "pod train/big, which waits for 8 GPUs" in eviction.reason


def test_nothing_moves_without_the_plugin() -> None:
    assert not evicted(planned(seen(NODES, [*SPREAD, waits("big")]), drains(None)))
