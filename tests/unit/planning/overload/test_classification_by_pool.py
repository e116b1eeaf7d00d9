"""Nodes are held to the lines of their pool, and compared with its nodes only."""

from desched.model.plan import NodeClass, Plan
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.policy.policy import NodePool
from tests.builders import (
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    rule,
    selector,
    snapshot,
)

CPU_RULE = rule(Resource.CPU)
BATCH = NodePool("batch", selector(pool="batch"), (rule(Resource.CPU, target_ratio=0.95),))
SHADOWED = NodePool("late", selector(pool="batch"), (rule(Resource.CPU, target_ratio=0.1),))
POOLED = policy(CPU_RULE, pools=(BATCH, SHADOWED))


def cluster(batch: dict[str, float], others: dict[str, float], **pods: str) -> Snapshot:
    """Nodes of 4 cores at so much CPU; pods of 0.8 cores as name → node."""
    cpu = batch | others
    return snapshot(
        [node(n, labels={"pool": "batch"} if n in batch else {}) for n in cpu],
        [pod(name, on=where) for name, where in pods.items()],
        load({n: (ratio, 0.1) for n, ratio in cpu.items()}, dict.fromkeys(pods, (0.8, 0.1))),
    )


def classes(plan: Plan) -> dict[str, NodeClass]:
    return {v.node: v.node_class for v in plan.nodes}


def test_a_destination_is_filled_up_to_the_ceiling_of_its_own_pool() -> None:
    # 64 % and 20 points are 84 %: under the ceiling of the pool (85 %), not under the default's.
    full = cluster({"b1": 0.64}, {"n1": 0.9, "n2": 0.64, "n3": 0.6}, a="n1")
    assert [e.expected_node for e in planned(full, POOLED).evictions] == ["b1"]
    without = cluster({}, {"n1": 0.9, "n2": 0.64, "n3": 0.6}, a="n1")
    assert reasons(planned(without, POOLED)) == {"a": "no_node_under_ceiling"}


def test_with_deviation_thresholds_the_mean_is_that_of_the_pool() -> None:
    near = rule(Resource.CPU, low_ratio=0.1, target_ratio=0.1)
    pooled = policy(
        near, deviation=True, pools=(NodePool("batch", selector(pool="batch"), (near,)),)
    )
    seen = cluster({"b1": 0.8, "b2": 0.8}, {"n1": 0.3, "n2": 0.2}, x="b1")
    assert NodeClass.OVERLOADED not in classes(planned(seen, pooled)).values()
    one_group = policy(near, deviation=True)
    assert classes(planned(seen, one_group))["b1"] is NodeClass.OVERLOADED
