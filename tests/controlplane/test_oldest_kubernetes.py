"""Desched as users have it, on the oldest Kubernetes that it supports."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import HERE, OLDEST
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object
from tests.controlplane.replicas import Replicas, check_that_one_acted
from tests.controlplane.sites import Sites, lone, verdict
from tests.controlplane.test_flow_control import MANIFEST
from tests.controlplane.test_steering_rights import FORBIDDEN, refusal

SITE = "old"
HOT = f"{SITE}-hot"
STEERING: Object = {"steering": "WhenNeeded", "steeringMaxNodes": "50%"}
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/desched-steering"
WHAT_IT_ASKS = {
    "create selfsubjectaccessreviews",
    "create leases",
    "patch leases",
    "create configmaps",
    "patch configmaps",
    "list nodes",
    "patch nodes",
    "get pods",
    "create pods/eviction",
    "create events",
}


@pytest.fixture(scope="module")
def plane(oldest_binaries: dict[str, Path]) -> Iterator[ControlPlane]:
    with ControlPlane(oldest_binaries) as started:
        yield started


@pytest.fixture(scope="module")
def sites(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with plane.prometheus() as prometheus:
        built = Sites(plane, prometheus, tmp_path_factory.mktemp("oldest"))
        built.install_permissions("overlays/evict")
        built.build(lone(SITE, terminationGracePeriodSeconds=0))
        yield built


@pytest.fixture
def replicas(sites: Sites) -> Iterator[Replicas]:
    found = Replicas(sites, SITE, **STEERING)
    yield found
    found.stop()


def tainted(plane: ControlPlane) -> set[str]:
    return {
        node["metadata"]["name"]
        for node in plane.items("/api/v1/nodes")
        if any(taint["key"] == "desched.io/overloaded" for taint in node["spec"].get("taints", ()))
    }


def test_it_is_the_version_that_is_pinned_and_that_readers_are_told(plane: ControlPlane) -> None:
    version: str = plane.get("/version")["gitVersion"]
    pinned = (HERE / OLDEST.kubernetes / "go.mod").read_text()
    assert f"k8s.io/kubernetes {version}" in pinned
    oldest, _, _ = version.removeprefix("v").rpartition(".")
    assert f"Kubernetes {oldest} and later" in (HERE.parents[1] / "README.md").read_text()


def test_a_dry_run_plans_the_move_with_its_taints_and_changes_nothing(sites: Sites) -> None:
    report = sites.look(SITE, **STEERING)
    assert verdict(report, HOT)["node_class"] == "overloaded"
    (eviction,) = report["plan"]["evictions"]
    assert (eviction["pod"]["namespace"], eviction["steered"]) == (SITE, [HOT])
    assert (report["outcomes"], tainted(sites.plane)) == ([], set())


def test_a_service_moves_the_pod_for_good_and_leaves_no_taint(
    sites: Sites, replicas: Replicas
) -> None:
    before = sites.where(SITE, "web")
    service = replicas.start()
    service.wait_until("an eviction", lambda: [e for e in replicas.evictions() if e.done])
    (landed,) = sites.landed(SITE, "web", before)
    assert landed != HOT
    service.wait_until("its result", lambda: replicas.state().get("moves"))
    service.wait_until("no taint", lambda: not tainted(sites.plane))

    def asked() -> set[str]:
        """The audit log has a request a moment after its answer."""
        return {request.what for request in replicas.requests() if request.done}

    service.wait_until("its requests in the audit log", lambda: asked() >= WHAT_IT_ASKS)
    requests = replicas.requests()
    refused = {r.what for r in requests if r.code in {401, 403, 404}}
    # It makes the first two itself; the last is of an add-on.
    assert refused <= {"get leases", "get configmaps", "list verticalpodautoscalers"}
    check_that_one_acted(requests)
    (eviction,) = replicas.evictions()
    assert before[eviction.name] == HOT
    stored = sites.plane.get(f"/api/v1/namespaces/{SITE}/configmaps/desched-state")
    (move,) = json.loads(stored["data"]["state.json"])["state"]["moves"]
    assert move["workload"] == f"Deployment {SITE}/web"


def test_its_own_share_of_the_api_server_can_be_set_up(plane: ControlPlane) -> None:
    applied = plane.kubectl("apply", "--server-side", "--dry-run=server", "--filename", MANIFEST)
    assert applied.count("serverside-applied") == 3


def test_the_admission_policy_is_understood_and_forbids_what_it_forbids_elsewhere(
    sites: Sites,
) -> None:
    sites.plane.add_node("te1")
    status = sites.plane.wait_for(
        "the types of its expressions", lambda: sites.plane.get(POLICY).get("status")
    )
    assert status["typeChecking"].get("expressionWarnings", []) == []
    said = {what: refusal(sites.plane, sites.kubeconfig, what) for what in FORBIDDEN}
    assert all("ValidatingAdmissionPolicy 'desched-steering'" in why for why in said.values()), said
