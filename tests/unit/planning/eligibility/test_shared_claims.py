"""A volume for one node stays attached as long as another pod there uses it."""

from typing import Any

import pytest

from desched.model.cluster import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodVolume,
    VolumeKind,
)
from desched.model.plan import Plan
from tests.builders import evicted, load, node, planned, pod, reasons, snapshot

DATA = (PodVolume(VolumeKind.CLAIM, "data"),)


def plan_of(*others: Pod, one_node: bool = True, volumes: Any = DATA) -> Plan:
    claim = PersistentVolumeClaim("apps", "data", "nfs", "pv", for_one_node=one_node)
    pods = (pod("a", on="hot", volumes=volumes), *others)
    used = load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)}, {"a": (1.0, 0.1)})
    nodes = [node("hot"), node("cool")]
    where: dict[str, Any] = {
        "claims": {("apps", "data"): claim},
        "volumes": {"pv": PersistentVolume("pv")},
    }
    return planned(snapshot(nodes, pods, used, **where))


def other(on: str = "hot", kind: VolumeKind = VolumeKind.CLAIM, **fields: Any) -> Pod:
    return pod("b", on=on, of=None, volumes=(PodVolume(kind, "data"),), **fields)


@pytest.mark.parametrize(
    "user", [other(), other(kind=VolumeKind.EPHEMERAL_CLAIM), other(deleting=True)]
)
def test_a_pod_that_shares_a_claim_for_one_node_stays(user: Pod) -> None:
    plan = plan_of(user)
    (refusal,) = (r for r in plan.refusals if r.pod.name == "a")
    assert (refusal.reason.value, refusal.detail) == (
        "shared_claim",
        "claim data: apps/b uses it, too",
    )


@pytest.mark.parametrize(
    "user",
    [other(on="cool"), other(phase="Failed"), other(namespace="else"), pod("b", on="hot", of=None)],
)
def test_a_pod_whose_claim_nobody_else_on_its_node_uses_may_move(user: Pod) -> None:
    assert evicted(plan_of(user)) == ["a"]


def test_a_claim_for_several_nodes_may_be_shared() -> None:
    assert evicted(plan_of(other(), one_node=False)) == ["a"]


def test_a_pods_own_ephemeral_claim_is_replaced_with_it() -> None:
    own = (PodVolume(VolumeKind.EPHEMERAL_CLAIM, "data"),)
    assert "shared_claim" not in reasons(plan_of(other(), volumes=own)).values()
