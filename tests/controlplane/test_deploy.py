"""What deploy/ holds is accepted by a real API server, and its pod comes to run there."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from desched.adapters.kubernetes.client.access import (
    DEVICE_ACCESS,
    LEASE_ACCESS,
    LOGBOOK_ACCESS,
    METRICS_ACCESS,
    OBSERVING_ACCESS,
    OWN_EVENT_ACCESS,
    OWN_NAMESPACE_ACCESS,
    PATCH_LOGBOOK,
    PATCH_NODE,
    REQUIRED_ACCESS,
    SIZING_ACCESS,
    STATE_READING_ACCESS,
    WATCHING_ACCESS,
)
from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.logbook_store import CONFIG_MAP, KubernetesLogbookStore
from desched.adapters.kubernetes.permission import has_right, reviewed
from desched.api_objects.access import Access
from desched.errors import ObservationError
from desched.history.logbook import Logbook, LoggedLoad, LoggedStep
from desched.history.stored import StoredLogbook, encode_logbook
from desched.model.resources import Resource
from tests.controlplane.cluster import ControlPlane, UnexpectedAnswerError

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "desched-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:desched"
DRY_RUN = "DESCHED_DRY_RUN"
LEASES = "coordination.k8s.io"
REPLICAS = 2
NAMES = {"configmaps": "desched-state", "leases": "desched"}
PLANNING_ALONE = (*LEASE_ACCESS, *STATE_READING_ACCESS, *LOGBOOK_ACCESS, *OWN_EVENT_ACCESS)
"""What the base grants in its own namespace."""

Object = dict[str, Any]


def rendered(control_plane: ControlPlane, folder: str) -> list[Object]:
    return list(yaml.safe_load_all(control_plane.kubectl("kustomize", DEPLOY / folder)))


def install(control_plane: ControlPlane, folder: str) -> None:
    control_plane.kubectl("apply", "--server-side", "--kustomize", DEPLOY / folder)


def variables(documents: list[Object]) -> Iterator[Object]:
    for document in documents:
        if document["kind"] == "Deployment":
            yield from document["spec"]["template"]["spec"]["containers"][0]["env"]


def is_allowed(
    control_plane: ControlPlane, verb: str, group: str, resource: str, **where: str
) -> bool:
    """`where` is the namespace and the name, if it is about one object."""
    kind, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": kind, "subresource": subresource}
    _, answer = control_plane.request(
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": ACCOUNT, "resourceAttributes": attributes | where},
        },
    )
    return bool(answer["status"]["allowed"])


def may(control_plane: ControlPlane, access: Access) -> bool:
    """Whether it has this access where it needs it, and on the one object that it needs."""
    where = {}
    if access in (*OWN_NAMESPACE_ACCESS, *OWN_EVENT_ACCESS):
        where["namespace"] = NAMESPACE
        if access.verb != "create" and access.resource in NAMES:
            where["name"] = NAMES[access.resource]
        if access in LOGBOOK_ACCESS:
            where["name"] = "desched-logbook"
    return is_allowed(control_plane, access.verb, access.group, access.resource, **where)


def test_the_base_runs_as_a_dry_run_under_the_restricted_standard(
    control_plane: ControlPlane,
) -> None:
    control_plane.add_node("te1")

    install(control_plane, "base")

    for pod in control_plane.wait_for_ready_pods(NAMESPACE, REPLICAS):
        (container,) = pod["spec"]["containers"]
        assert {"name": DRY_RUN, "value": "true"} in container["env"]
    policy = control_plane.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/desched-policy")
    assert policy["data"] == {"policy.yaml": (DEPLOY / "base" / "policy.yaml").read_text()}


def test_replicas_are_on_different_nodes_where_there_are_some(control_plane: ControlPlane) -> None:
    control_plane.add_node("te1", "te2")

    install(control_plane, "base")

    pods = control_plane.wait_for_ready_pods(NAMESPACE, REPLICAS)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"te1", "te2"}


def test_of_two_replicas_one_is_drained_at_a_time(control_plane: ControlPlane) -> None:
    control_plane.add_node("te1")
    install(control_plane, "base")
    pods = control_plane.wait_for_ready_pods(NAMESPACE, REPLICAS)
    budget = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/desched"
    control_plane.wait_for(
        "the budget allows one disruption",
        lambda: control_plane.get(budget).get("status", {}).get("disruptionsAllowed") == 1,
    )
    control_plane.kubectl("cordon", "te1")  # so that no replacement becomes Ready
    control_plane.wait_for_scheduler()

    assert [evict(control_plane, pod["metadata"]["name"]) for pod in pods] == [201, 429]


def evict(control_plane: ControlPlane, pod: str) -> int:
    """The answer to what a drain asks."""
    status, _ = control_plane.request(
        "POST",
        f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction",
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": NAMESPACE},
        },
    )
    return status


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


def wait_for_rights(control_plane: ControlPlane, *some: Access) -> None:
    """Until RBAC has seen the Roles, of which each of these is from another."""
    for access in some:
        control_plane.wait_for(f"the right to {access}", partial(may, control_plane, access))


def test_its_account_may_do_what_it_needs_and_no_more(control_plane: ControlPlane) -> None:
    install(control_plane, "base")
    wait_for_rights(
        control_plane,
        OBSERVING_ACCESS[0],
        *SIZING_ACCESS,
        *DEVICE_ACCESS,
        *METRICS_ACCESS,
        *PLANNING_ALONE,
    )
    everything = (*REQUIRED_ACCESS, *OWN_NAMESPACE_ACCESS, *OWN_EVENT_ACCESS)
    granted = [access for access in everything if may(control_plane, access)]
    of_base = (
        *OBSERVING_ACCESS,
        *WATCHING_ACCESS,
        *SIZING_ACCESS,
        *DEVICE_ACCESS,
        *METRICS_ACCESS,
        *PLANNING_ALONE,
    )
    assert granted == [access for access in everything if access in of_base]

    install(control_plane, "overlays/evict-without-steering")
    wait_for_rights(control_plane, *everything)
    too_much = [
        (verb, group, resource, *where.values())
        for verb, group, resource, where in (
            ("delete", "", "pods", {}),
            ("patch", "", "pods", {}),
            ("patch", "", "nodes", {}),
            ("get", "", "secrets", {}),
            ("list", "", "secrets", {}),
            ("list", "", "configmaps", {}),
            ("update", "apps", "deployments", {}),
            ("get", "", "configmaps", {"namespace": "default", "name": "desched-state"}),
            ("create", "", "configmaps", {"namespace": "default"}),
            ("patch", "", "configmaps", {"namespace": NAMESPACE, "name": "desched-policy"}),
            ("delete", "", "configmaps", {"namespace": NAMESPACE, "name": "desched-state"}),
            ("list", "", "configmaps", {"namespace": NAMESPACE}),
            ("get", "", "secrets", {"namespace": NAMESPACE}),
            ("patch", LEASES, "leases", {"namespace": NAMESPACE, "name": "other"}),
            ("patch", LEASES, "leases", {"namespace": "kube-node-lease", "name": "desched"}),
        )
        if is_allowed(control_plane, verb, group, resource, **where)
    ]
    assert too_much == []
    assert not has_right_itself(control_plane)

    install(control_plane, "overlays/evict")
    wait_for_rights(control_plane, PATCH_NODE)
    for verb in ("create", "update", "delete"):
        assert not is_allowed(control_plane, verb, "", "nodes")
    assert not is_allowed(control_plane, "patch", "", "nodes/status")
    assert has_right_itself(control_plane)


def has_right_itself(control_plane: ControlPlane) -> bool:
    """Whether desched finds that it may patch nodes, with the rights that are shipped."""
    account = control_plane.kubeconfig_for(NAMESPACE, "desched")
    return has_right(connect(account, None), PATCH_NODE)


def test_the_overlay_only_adds_rights_and_switches_the_dry_run_off_and_replaces_the_pods(
    control_plane: ControlPlane,
) -> None:
    control_plane.add_node("te1")
    install(control_plane, "base")
    before = uids(control_plane.wait_for_ready_pods(NAMESPACE, REPLICAS))

    base, evict = (rendered(control_plane, folder) for folder in ("base", "overlays/evict"))
    for variable in variables(base):
        if variable["name"] == DRY_RUN:
            variable["value"] = "false"
    added = [document for document in evict if document not in base]
    assert [document for document in evict if document in base] == base
    assert {document["kind"] for document in added} == {
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }

    install(control_plane, "overlays/evict")
    control_plane.wait_for(
        "the pods are others",
        lambda: uids(control_plane.pods(NAMESPACE)).isdisjoint(before),
    )
    for pod in control_plane.wait_for_ready_pods(NAMESPACE, REPLICAS):
        assert {"name": DRY_RUN, "value": "false"} in pod["spec"]["containers"][0]["env"]


def uids(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def large_logbook() -> Logbook:
    """Almost as large as it may be, because noise does not compress."""
    nodes = tuple(f"node-{number}" for number in range(800))
    cells = len(nodes) * 600
    noise = np.random.default_rng(1).bytes(cells)
    return Logbook(
        target="in-cluster",
        instance="desched-1",
        newest_at=datetime(2026, 3, 4, 12, tzinfo=UTC),
        step_seconds=300,
        first_step=0,
        nodes=nodes,
        loads=(LoggedLoad(Resource.CPU, (None,) * len(nodes), noise),),
        overloaded=bytes(cells),
        steps=(LoggedStep(cycles=1),) * 600,
    )


def test_the_logbook_is_written_by_its_own_right_and_another_apply_leaves_it(
    control_plane: ControlPlane,
) -> None:
    install(control_plane, "base")
    account = connect(control_plane.kubeconfig_for(NAMESPACE, "desched"), None)
    store, other = (KubernetesLogbookStore(account, NAMESPACE) for _ in range(2))
    control_plane.wait_for(
        "the right to write the logbook",
        lambda: reviewed(account, PATCH_LOGBOOK, NAMESPACE, CONFIG_MAP),
    )
    assert store.load() == other.load() == StoredLogbook()
    packed, book = encode_logbook(large_logbook())

    store.save(packed)

    with pytest.raises(ObservationError, match="somebody else changed it"):
        other.save(packed)
    install(control_plane, "base")
    assert other.load() == StoredLogbook(book)
    assert len(packed) > 400_000
