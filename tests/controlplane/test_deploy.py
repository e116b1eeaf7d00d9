"""What deploy/ holds is accepted by a real API server, and its pod comes to run there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from desched.adapters.kubernetes.access import REQUIRED_ACCESS
from tests.controlplane.cluster import ControlPlane, UnexpectedAnswerError

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "desched-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:desched"
DRY_RUN = "DESCHED_DRY_RUN"

Object = dict[str, Any]


def rendered(control_plane: ControlPlane, folder: str) -> list[Object]:
    return list(yaml.safe_load_all(control_plane.kubectl("kustomize", DEPLOY / folder)))


def install(control_plane: ControlPlane, folder: str) -> None:
    control_plane.kubectl("apply", "--server-side", "--kustomize", DEPLOY / folder)


def variables(documents: list[Object]) -> Iterator[Object]:
    for document in documents:
        if document["kind"] == "Deployment":
            yield from document["spec"]["template"]["spec"]["containers"][0]["env"]


def is_allowed(control_plane: ControlPlane, verb: str, group: str, resource: str) -> bool:
    kind, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": kind, "subresource": subresource}
    _, answer = control_plane.request(
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
        },
    )
    return bool(answer["status"]["allowed"])


def test_the_base_runs_as_a_dry_run_under_the_restricted_standard(
    control_plane: ControlPlane,
) -> None:
    control_plane.add_node("te1")

    install(control_plane, "base")

    (pod,) = control_plane.wait_for_ready_pods(NAMESPACE, 1)
    (container,) = pod["spec"]["containers"]
    assert {"name": DRY_RUN, "value": "true"} in container["env"]
    policy = control_plane.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/desched-policy")
    assert policy["data"] == {"policy.yaml": (DEPLOY / "base" / "policy.yaml").read_text()}


def test_its_namespace_refuses_an_ordinary_pod(control_plane: ControlPlane) -> None:
    install(control_plane, "base")
    ordinary = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "ordinary", "namespace": NAMESPACE},
        "spec": {
            "serviceAccountName": "desched",
            "containers": [{"name": "main", "image": "image"}],
        },
    }

    with pytest.raises(UnexpectedAnswerError, match='violates PodSecurity "restricted'):
        control_plane.apply(ordinary)


def test_its_account_may_do_what_it_needs_and_no_more(control_plane: ControlPlane) -> None:
    install(control_plane, "base")
    first = REQUIRED_ACCESS[0]
    control_plane.wait_for(
        "RBAC has seen the role",
        lambda: is_allowed(control_plane, first.verb, first.group, first.resource),
    )

    refused = [
        str(a)
        for a in REQUIRED_ACCESS
        if not is_allowed(control_plane, a.verb, a.group, a.resource)
    ]
    too_much = [
        (verb, group, resource)
        for verb, group, resource in (
            ("delete", "", "pods"),
            ("patch", "", "pods"),
            ("patch", "", "nodes"),
            ("get", "", "secrets"),
            ("list", "", "secrets"),
            ("list", "", "configmaps"),
            ("update", "apps", "deployments"),
        )
        if is_allowed(control_plane, verb, group, resource)
    ]

    assert (refused, too_much) == ([], [])


def test_the_overlay_only_switches_the_dry_run_off_and_replaces_the_pod(
    control_plane: ControlPlane,
) -> None:
    control_plane.add_node("te1")
    install(control_plane, "base")
    (before,) = control_plane.wait_for_ready_pods(NAMESPACE, 1)

    base, evict = (rendered(control_plane, folder) for folder in ("base", "overlays/evict"))
    for variable in variables(base):
        if variable["name"] == DRY_RUN:
            variable["value"] = "false"
    assert evict == base

    install(control_plane, "overlays/evict")
    control_plane.wait_for(
        "the pod is another one",
        lambda: uids(control_plane).isdisjoint({before["metadata"]["uid"]}),
    )
    (after,) = control_plane.wait_for_ready_pods(NAMESPACE, 1)
    assert {"name": DRY_RUN, "value": "false"} in after["spec"]["containers"][0]["env"]


def uids(control_plane: ControlPlane) -> set[str]:
    return {pod["metadata"]["uid"] for pod in control_plane.pods(NAMESPACE)}
