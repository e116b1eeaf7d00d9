"""What a replacement requests that a VerticalPodAutoscaler sizes, and when that is not known."""

from typing import Any

import msgspec
import pytest

from desched.adapters.kubernetes.client.api_types import autoscalers
from desched.adapters.kubernetes.objects.vertical_autoscalers import (
    LARGEST_BYTES,
    sizing_by_target,
    sizing_of_target,
)
from desched.adapters.kubernetes.objects.workloads import (
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Controllers,
    workloads_by_controller,
)
from desched.model.cluster import Workload
from desched.model.resources import Amounts
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.manifests import Object, recommended, vertical_autoscaler

MIB = 2**20


def container(name: str = "app", limits: Object | None = None, **requests: str) -> Object:
    resources = {"requests": requests} | ({"limits": limits} if limits is not None else {})
    return {"name": name, "image": "app", "resources": resources}


SMALL = container(cpu="100m", memory="64Mi")


def read(document: Object) -> autoscalers.VerticalPodAutoscaler:
    return msgspec.json.decode(
        msgspec.json.encode(document), type=autoscalers.VerticalPodAutoscaler
    )


def with_template(document: Object, *containers: Object, **spec: Any) -> Object:
    document["spec"]["template"] = {"spec": {"containers": list(containers), **spec}}
    return document


def web(containers: tuple[Object, ...], *documents: Object, **spec: Any) -> Workload:
    """The stateful set `web` under these VerticalPodAutoscalers."""
    document = with_template(manifests.stateful_set("web"), *containers, **spec)
    return only("stateful_sets", document, *documents)


def only(field: str, document: Object, *documents: Object) -> Workload:
    kind: Any = {"stateful_sets": STATEFUL_SETS, "jobs": JOBS, "deployments": DEPLOYMENTS}[field]
    controllers = Controllers(**{field: manifests.built(kind, [document])})
    if field == "deployments":
        owned = manifests.replica_set(owned_by=manifests.owner("Deployment", "web"))
        controllers = controllers._replace(replica_sets=manifests.built(REPLICA_SETS, [owned]))
    sizing = sizing_by_target(map(sizing_of_target, map(read, documents)))
    (found,) = workloads_by_controller(controllers, {}, sizing).values()
    return found


def sized(*recommendations: Object, **spec: Any) -> Object:
    return vertical_autoscaler(*recommendations, kind="StatefulSet", **spec)


def policy(**fields: Any) -> Object:
    return {"containerPolicies": [{"containerName": "app", **fields}]}


def requests(cpu: int, mebibytes: int) -> Amounts:
    return Amounts(cpu_millicores=cpu, memory_bytes=mebibytes * MIB, pods=1)


@pytest.mark.parametrize(
    ("resource_policy", "expected"),
    [
        (None, requests(700, 300)),
        (policy(), requests(700, 300)),
        (policy(mode="Auto", minAllowed={"cpu": "1"}), requests(1000, 300)),
        (policy(minAllowed={"cpu": 2, "memory": "1Gi"}), requests(2000, 1024)),
        (policy(minAllowed={"cpu": 0}, maxAllowed={"cpu": "0", "memory": ""}), None),
        (policy(minAllowed={"cpu": 0}, maxAllowed={"cpu": "0"}), requests(700, 300)),
        (policy(maxAllowed={"cpu": "250m"}), requests(250, 300)),
        (policy(minAllowed={"cpu": "3"}, maxAllowed={"cpu": "2"}), requests(2000, 300)),
        (policy(mode="Off"), requests(100, 64)),
        (policy(controlledResources=["memory"]), requests(100, 300)),
        (policy(controlledResources=[]), requests(100, 64)),
        (policy(controlledValues="RequestsAndLimits"), requests(700, 300)),
        ({"containerPolicies": [{"containerName": "*", "mode": "Off"}]}, requests(100, 64)),
        (
            {
                "containerPolicies": [
                    {"containerName": "*", "mode": "Off"},
                    {"containerName": "app", "maxAllowed": {"cpu": "600m"}},
                ]
            },
            requests(600, 300),
        ),
        ({"containerPolicies": [{"containerName": "other", "mode": "Off"}]}, requests(700, 300)),
    ],
)
def test_a_recommendation_is_kept_within_the_policy_of_its_container(
    resource_policy: Object | None, expected: Amounts | None
) -> None:
    target = recommended(cpu="700m", memory="300Mi")

    found = web((SMALL,), sized(target, resourcePolicy=resource_policy))

    assert found.template_requests == expected
    assert bool(found.requests_unknown) is (expected is None)


@pytest.mark.parametrize(
    ("values", "limits", "cpu"),
    [
        ("RequestsOnly", {"cpu": "500m"}, 500),
        ("RequestsOnly", {"cpu": "900m"}, 700),
        ("RequestsOnly", {"memory": "1Gi"}, 700),
        ("RequestsOnly", None, 700),
        ("RequestsAndLimits", {"cpu": "500m"}, 700),  # the limit becomes larger, too
    ],
)
def test_only_limits_that_stay_bound_a_recommendation(
    values: str, limits: Object | None, cpu: int
) -> None:
    target = recommended(cpu="700m", memory="300Mi")
    app = container(limits=limits, cpu="100m", memory="64Mi")

    found = web((app,), sized(target, resourcePolicy=policy(controlledValues=values)))

    assert found.template_requests == requests(cpu, 300)


def test_only_containers_with_a_recommendation_change() -> None:
    containers = (SMALL, container("proxy", cpu="50m", memory="32Mi"))
    sidecar = container("log", cpu="20m", memory="16Mi") | {"restartPolicy": "Always"}
    targets = [recommended(cpu="700m"), recommended("log", cpu="9"), recommended("gone", cpu="9")]

    found = web(containers, sized(*targets), initContainers=[sidecar])

    assert found.template_requests == requests(700 + 50 + 20, 64 + 32 + 16)


def test_a_resource_without_a_request_gets_one() -> None:
    bare = {"name": "app", "image": "app"}

    found = web((bare,), sized(recommended(cpu="1", memory="1Gi", **{"": "7"})))

    assert found.template_requests == requests(1000, 1024)


def test_a_resource_with_nothing_but_a_limit_requests_its_limit() -> None:
    app = container(limits={"cpu": "2", "memory": "128Mi"})

    assert web((app,)).template_requests == requests(2000, 128)
    assert web((app,), sized(recommended(cpu="1"))).template_requests == requests(1000, 128)


@pytest.mark.parametrize("mode", [None, "Auto", "Recreate", "Initial", "InPlaceOrRecreate", ""])
def test_every_mode_but_off_sizes_new_pods(mode: str | None) -> None:
    update = None if mode is None else {"updateMode": mode, "minReplicas": 1}

    found = web((SMALL,), sized(recommended(cpu="700m"), updatePolicy=update))

    assert found.template_requests == requests(700, 64)


def test_without_a_recommendation_the_template_counts() -> None:
    waiting = sized()
    waiting["status"] = None

    off = sized(recommended(cpu="700m"), updatePolicy={"updateMode": "Off"})
    other = vertical_autoscaler(recommended(cpu="9"), kind="Deployment")

    for found in (web((SMALL,), waiting), web((SMALL,), sized(), off, other)):
        assert (found.template_requests, found.requests_unknown) == (requests(100, 64), "")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"updatePolicy": {"updateMode": "Sometimes"}}, "updateMode Sometimes"),
        ({"updatePolicy": {"updateMode": 7}}, "Expected `str | null`"),
        ({"updatePolicy": {"when": "night"}}, "unknown field `when`"),
        ({"startupBoost": {"cpu": {"type": "Factor", "factor": 3}}}, "startupBoost"),
        ({"podPolicy": {}}, "unknown field `podPolicy`"),
        ({"resourcePolicy": {"podPolicies": {}}}, "unknown field `podPolicies`"),
        ({"resourcePolicy": policy(mode="Half")}, "mode Half"),
        ({"resourcePolicy": policy(controlledValues="Both")}, "controlledValues Both"),
        ({"resourcePolicy": policy(startupBoost={})}, "startupBoost"),
        ({"resourcePolicy": policy(maxAllowed={"cpu": "much"})}, "not a quantity"),
        ({"resourcePolicy": policy(notes="x" * LARGEST_BYTES)}, "64 KiB, more than 64"),
    ],
)
def test_what_is_not_understood_is_a_problem_of_its_target_alone(spec: Object, why: str) -> None:
    found = web((SMALL,), sized(recommended(cpu="700m"), **spec))

    assert found.template_requests is None
    assert found.requests_unknown.startswith("VerticalPodAutoscaler web: ")
    assert why in found.requests_unknown


@pytest.mark.parametrize(
    "recommendation",
    [
        {"podRecommendations": {}},
        {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "much"}}]},
        {"containerRecommendations": [{"containerName": "app", "target": {"cpu": 0.5}}]},
        7,
    ],
)
def test_so_is_a_recommendation(recommendation: object) -> None:
    document = sized()
    document["status"]["recommendation"] = recommendation

    assert web((SMALL,), document).requests_unknown


@pytest.mark.parametrize("spec", [None, 7, {}, {"targetRef": None}, {"targetRef": {"kind": "x"}}])
def test_without_a_target_nothing_is_sized(spec: object) -> None:
    assert sizing_of_target(read({"metadata": manifests.metadata("web"), "spec": spec})) is None


def test_of_several_the_largest_amounts_count() -> None:
    one, other = sized(recommended(cpu="700m")), sized(recommended(cpu="50m", memory="1Gi"))

    assert web((SMALL,), one, other).template_requests == requests(700, 1024)
    unclear = sized(updatePolicy={"updateMode": "Sometimes"})
    assert web((SMALL,), one, unclear).requests_unknown


def test_the_owner_of_a_workload_may_be_the_target() -> None:
    document = with_template(manifests.job(owned_by=manifests.owner("CronJob", "nightly")), SMALL)
    target = vertical_autoscaler(recommended(cpu="700m"), kind="CronJob", target="nightly")

    assert only("jobs", document, target).template_requests == requests(700, 64)


def test_the_deployment_of_a_replica_set_is_the_target() -> None:
    document = with_template(manifests.deployment(), SMALL)

    found = only("deployments", document, vertical_autoscaler(recommended(cpu="700m")))

    assert (found.kind, found.template_requests) == ("Deployment", requests(700, 64))


def test_how_pods_are_sized_without_a_template_or_with_a_huge_one_is_not_known() -> None:
    vpa = sized(recommended(cpu="700m"))
    huge = SMALL | {"args": ["x" * LARGEST_BYTES]}

    for found in (only("stateful_sets", manifests.stateful_set("web"), vpa), web((huge,), vpa)):
        why = "VerticalPodAutoscaler web: no template of at most 64 KiB"
        assert (found.template_requests, found.requests_unknown) == (None, why)
    assert web((huge,)).template_requests == requests(100, 64)


def test_a_namespace_is_not_sized_by_another() -> None:
    document = sized(recommended(cpu="700m"))
    document["metadata"]["namespace"] = "strangers"

    assert web((SMALL,), document).template_requests == requests(100, 64)
