from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from desched.adapters.kubernetes.client.api_types import autoscalers as wire
from desched.adapters.kubernetes.objects.autoscalers import scaling_by_target, scaling_of_target
from desched.adapters.kubernetes.objects.workloads import (
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Controllers,
    owners_by_controller,
    selectors_by_controller,
    workloads_by_controller,
)
from desched.model.cluster import Autoscaler, Owner, Workload
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, Operator, Requirement
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.manifests import Object


def found(
    *,
    deployments: tuple[Object, ...] = (),
    replica_sets: tuple[Object, ...] = (),
    stateful_sets: tuple[Object, ...] = (),
    jobs: tuple[Object, ...] = (),
    autoscalers: tuple[Object, ...] = (),
) -> Mapping[tuple[str, str], Workload]:
    scaling = msgspec.convert(autoscalers, list[wire.HorizontalPodAutoscaler])
    return workloads_by_controller(
        controllers(deployments, replica_sets, stateful_sets, jobs),
        scaling_by_target(map(scaling_of_target, scaling)),
        {},
    )


def controllers(
    deployments: tuple[Object, ...] = (),
    replica_sets: tuple[Object, ...] = (),
    stateful_sets: tuple[Object, ...] = (),
    jobs: tuple[Object, ...] = (),
) -> Controllers:
    kinds = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS)
    lists = (deployments, replica_sets, stateful_sets, jobs)
    return Controllers(*(manifests.built(*each) for each in zip(kinds, lists, strict=True)))


def web(deployment: Object | None = None, *autoscalers: Object) -> Workload:
    return found(
        deployments=(deployment or manifests.deployment(),),
        replica_sets=(manifests.replica_set(owned_by=manifests.owner("Deployment", "web")),),
        autoscalers=autoscalers,
    )["shop", "uid-web-5d4"]


def db(strategy: Object | None = None, **status: int | str) -> Workload:
    return found(stateful_sets=(manifests.stateful_set("db", strategy, **status),))[
        "shop", "uid-db"
    ]


def test_a_replica_set_leads_to_its_deployment() -> None:
    assert web() == Workload(
        kind="Deployment",
        namespace="shop",
        name="web",
        uid="uid-web",
        desired_replicas=3,
        annotations={"volcano.sh/preemptable": "true"},
        ready_replicas=3,
    )


def test_a_replica_set_of_its_own_is_the_workload() -> None:
    workload = found(replica_sets=(manifests.replica_set(),))["shop", "uid-web-5d4"]

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
        {"updatedReplicas": 2, "availableReplicas": 2},
    ],
)
def test_a_deployment_rolls_out_while_kubectl_would_wait(status: dict[str, Any]) -> None:
    assert web(manifests.deployment(**status)).rolling_out


def test_a_replica_that_fails_long_after_a_rollout_is_not_ready_and_no_rollout() -> None:
    of_deployment = web(manifests.deployment(readyReplicas=2, availableReplicas=2))
    of_stateful_set = db(readyReplicas=2)

    for workload in (of_deployment, of_stateful_set):
        assert (workload.rolling_out, workload.ready_replicas) == (False, 2)


def test_a_replica_that_has_been_ready_for_too_short_a_time_does_not_count() -> None:
    assert web(manifests.deployment(availableReplicas=2)).ready_replicas == 2


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"observedGeneration": 1}, True),
        ({"updateRevision": "db-2", "updatedReplicas": 1}, True),
    ],
)
def test_a_stateful_set_rolls_out_while_kubectl_would_wait(
    status: dict[str, Any], *, expected: bool
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
    assert workload.rolled_by_hand == "its strategy is OnDelete"


@pytest.mark.parametrize(("paused", "expected"), [(True, "it is paused"), (False, ""), (None, "")])
def test_only_a_person_ends_the_rollout_of_a_paused_deployment(
    *, paused: bool | None, expected: str
) -> None:
    document = manifests.deployment()
    document["spec"]["paused"] = paused
    owned = manifests.replica_set(owned_by=manifests.owner("Deployment", "web"))
    built = manifests.built(DEPLOYMENTS, [document]), manifests.built(REPLICA_SETS, [owned])
    (found,) = workloads_by_controller(Controllers(*built), {}, {}).values()
    assert found.rolled_by_hand == expected


def test_a_stateful_set_goes_on_to_its_partition() -> None:
    workload = db({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}, updatedReplicas=0)
    assert workload.rolling_out
    assert workload.rolled_by_hand == ""


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


def test_the_autoscaler_of_a_workload_is_kept() -> None:
    workload = web(None, manifests.autoscaler(3, 3))

    assert workload.autoscaler == Autoscaler(3, 3, 9)
    assert web().autoscaler is None


def test_without_a_ready_replica_the_count_is_zero() -> None:
    unready = manifests.deployment()
    del unready["status"]["readyReplicas"]

    assert web(unready).ready_replicas == 0
    assert db(readyReplicas=2).ready_replicas == 2
    assert found(replica_sets=(manifests.replica_set(),))["shop", "uid-web-5d4"].ready_replicas == 3


IGNORES_EVICTION = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
}


def test_a_job_runs_as_many_pods_as_its_parallelism_says() -> None:
    cron = manifests.owner("CronJob", "nightly")
    jobs = (manifests.job(), manifests.job("tonight", cron, podFailurePolicy=IGNORES_EVICTION))
    by_uid = found(jobs=jobs)

    assert by_uid["shop", "uid-sums"] == Workload(
        "Job", "shop", "sums", "uid-sums", 4, ready_replicas=3, survives_disruption=False
    )
    assert by_uid["shop", "uid-tonight"].survives_disruption


def test_a_job_of_an_owner_that_is_not_understood_is_left_out() -> None:
    assert found(jobs=(manifests.job("rank-0", manifests.owner("JobSet", "train")),)) == {}


def test_controllers_are_known_by_their_own_selectors() -> None:
    unknown_owner = manifests.replica_set("roll-1", manifests.owner("Rollout", "roll"))
    kept_for_rollback = manifests.replica_set("web-old")
    kept_for_rollback["spec"]["replicas"] = kept_for_rollback["status"]["replicas"] = 0
    of_revision = LabelSelector((Requirement("pod-template-hash", Operator.IN, ("5d4",)),))
    of_db = LabelSelector((Requirement("app", Operator.IN, ("db",)),))

    selectors = selectors_by_controller(
        controllers(
            replica_sets=(manifests.replica_set(), unknown_owner, kept_for_rollback),
            stateful_sets=(manifests.stateful_set(),),
        )
    )

    assert selectors == {
        ("shop", "uid-web-5d4"): of_revision,
        ("shop", "uid-roll-1"): of_revision,
        ("shop", "uid-db"): of_db,
    }


def test_an_owner_that_is_not_understood_is_named_for_what_it_owns() -> None:
    rollout = {**manifests.owner("Rollout", "web"), "apiVersion": "argoproj.io/v1alpha1"}
    job_set = {**manifests.owner("JobSet", "sums"), "apiVersion": "jobset.x-k8s.io/v1alpha2"}
    understood = controllers(
        replica_sets=(manifests.replica_set(owned_by=manifests.owner("Deployment", "web")),),
        jobs=(manifests.job(owned_by=manifests.owner("CronJob", "nightly")),),
    )
    foreign = controllers(
        replica_sets=(manifests.replica_set(owned_by=rollout), manifests.replica_set("own")),
        jobs=(manifests.job(owned_by=job_set),),
    )

    assert owners_by_controller(understood) == {}
    assert owners_by_controller(foreign) == {
        ("shop", "uid-web-5d4"): Owner("Rollout", "web", "uid-web", "argoproj.io/v1alpha1"),
        ("shop", "uid-sums"): Owner("JobSet", "sums", "uid-sums", "jobset.x-k8s.io/v1alpha2"),
    }


def test_a_workload_has_the_requests_and_the_node_of_its_template() -> None:
    document = manifests.deployment()
    container = {"name": "web", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}
    document["spec"]["template"] = {"spec": {"nodeName": "n1", "containers": [container]}}
    (seen,) = manifests.built(DEPLOYMENTS, [document])
    owned = manifests.replica_set(owned_by=manifests.owner("Deployment", "web"))
    of = Controllers((seen,), manifests.built(REPLICA_SETS, [owned]))
    (found,) = workloads_by_controller(of, {}, {}).values()
    assert found.template_requests == Amounts(cpu_millicores=1500, memory_bytes=2**30, pods=1)
    assert found.pinned_to == "n1"
    assert bytes(seen.spec.template) == b""
