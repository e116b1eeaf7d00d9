from collections.abc import Mapping

import msgspec
import pytest

from desched.adapters.kubernetes import wire
from desched.adapters.kubernetes.workloads import scaling_targets, workloads_by_controller
from desched.model.cluster import Workload
from tests.unit.kubernetes import manifests
from tests.unit.kubernetes.manifests import Object


def found(
    *,
    deployments: tuple[Object, ...] = (),
    replica_sets: tuple[Object, ...] = (),
    stateful_sets: tuple[Object, ...] = (),
    autoscalers: tuple[Object, ...] = (),
) -> Mapping[str, Workload]:
    return workloads_by_controller(
        msgspec.convert(deployments, list[wire.Deployment]),
        msgspec.convert(replica_sets, list[wire.ReplicaSet]),
        msgspec.convert(stateful_sets, list[wire.StatefulSet]),
        scaling_targets(msgspec.convert(autoscalers, list[wire.HorizontalPodAutoscaler])),
    )


def web(deployment: Object | None = None, *autoscalers: Object) -> Workload:
    return found(
        deployments=(deployment or manifests.deployment(),),
        replica_sets=(manifests.replica_set(owned_by=manifests.owner("Deployment", "web")),),
        autoscalers=autoscalers,
    )["uid-web-5d4"]


def db(strategy: Object | None = None, **status: int | str) -> Workload:
    return found(stateful_sets=(manifests.stateful_set("db", strategy, **status),))["uid-db"]


def test_a_replica_set_leads_to_its_deployment() -> None:
    assert web() == Workload(
        kind="Deployment",
        namespace="shop",
        name="web",
        uid="uid-web",
        desired_replicas=3,
        annotations={"volcano.sh/preemptable": "true"},
    )


def test_a_replica_set_of_its_own_is_the_workload() -> None:
    workload = found(replica_sets=(manifests.replica_set(),))["uid-web-5d4"]

    assert (workload.kind, workload.name, workload.desired_replicas) == ("ReplicaSet", "web-5d4", 3)
    assert not workload.rolling_out


@pytest.mark.parametrize("kind", ["Rollout", "CloneSet", "Deployment"])
def test_a_replica_set_of_an_owner_that_is_not_understood_or_not_there_is_left_out(
    kind: str,
) -> None:
    orphan = manifests.replica_set(owned_by=manifests.owner(kind, "missing"))

    assert found(deployments=(manifests.deployment(),), replica_sets=(orphan,)) == {}


def test_replicas_that_are_not_set_are_one() -> None:
    document = manifests.deployment(replicas=1, updatedReplicas=1, availableReplicas=1)
    document["spec"] = {}

    assert (web(document).desired_replicas, web(document).rolling_out) == (1, False)


@pytest.mark.parametrize(
    "status",
    [
        {"observedGeneration": 2},  # the controller has not seen the last edit
        {"updatedReplicas": 2},
        {"replicas": 4},  # an old pod is still there
        {"availableReplicas": 2},
    ],
)
def test_a_deployment_rolls_out_while_kubectl_would_wait(status: dict[str, int]) -> None:
    assert web(manifests.deployment(**status)).rolling_out


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"observedGeneration": 1}, True),
        ({"readyReplicas": 2}, True),
        ({"updateRevision": "db-2", "updatedReplicas": 1}, True),
    ],
)
def test_a_stateful_set_rolls_out_while_kubectl_would_wait(
    status: dict[str, int | str], *, expected: bool
) -> None:
    assert db(**status).rolling_out is expected


@pytest.mark.parametrize(("updated", "expected"), [(0, True), (1, False), (3, False)])
def test_a_partitioned_update_is_over_when_its_part_is_updated(
    updated: int, *, expected: bool
) -> None:
    partitioned = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}

    workload = db(partitioned, updateRevision="db-2", updatedReplicas=updated)

    assert workload.rolling_out is expected


@pytest.mark.parametrize(("updated", "expected"), [(2, True), (3, False)])
def test_on_delete_waits_while_an_eviction_would_change_the_revision(
    updated: int, *, expected: bool
) -> None:
    workload = db({"type": "OnDelete"}, updateRevision="db-2", updatedReplicas=updated)

    assert workload.rolling_out is expected


@pytest.mark.parametrize(
    ("current", "desired", "expected"),
    [
        (3, 3, False),
        (3, 5, True),
        (5, 3, True),
        (None, 2, True),
        (None, None, False),
        (3, 0, False),  # it has not measured yet
    ],
)
def test_a_workload_scales_while_its_autoscaler_wants_another_number(
    current: int | None, desired: int | None, *, expected: bool
) -> None:
    assert web(None, manifests.autoscaler(current, desired)).scaling is expected


def test_an_autoscaler_that_may_go_to_zero_means_it() -> None:
    assert web(None, manifests.autoscaler(3, 0, minReplicas=0)).scaling


def test_an_autoscaler_of_another_namespace_does_not_count() -> None:
    elsewhere = manifests.autoscaler(3, 5)
    elsewhere["metadata"]["namespace"] = "elsewhere"

    assert not web(None, elsewhere).scaling
