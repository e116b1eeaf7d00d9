"""deploy/flow-control.yaml gives desched's requests, and no others, a share of their own."""

from pathlib import Path

import urllib3

from desched.adapters.kubernetes.client.access import GET_LEASE, LIST_PODS
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.test_deploy import DEPLOY, NAMESPACE, install
from tests.controlplane.waiting import PATIENCE_SECONDS

MANIFEST: Path = DEPLOY / "flow-control.yaml"
FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
LEVEL = "X-Kubernetes-Pf-Prioritylevel-Uid"


def uid_of(plane: ControlPlane, level: str) -> str:
    uid: str = plane.get(f"{FLOW_CONTROL}/prioritylevelconfigurations/{level}")["metadata"]["uid"]
    return uid


def level_of(plane: ControlPlane, account: str, path: str) -> str:
    """The priority level of a request of this account."""
    token = plane.token_for(NAMESPACE, account)
    with urllib3.PoolManager(ca_certs=str(plane.ca_file), timeout=PATIENCE_SECONDS) as http:
        headers = {"Authorization": f"Bearer {token}"}
        return http.request("GET", plane.url + path, headers=headers).headers[LEVEL]


def test_lists_of_desched_have_a_share_of_their_own_and_its_lease_does_not_wait_behind_them(
    control_plane: ControlPlane,
) -> None:
    install(control_plane, "base")
    control_plane.kubectl("create", "serviceaccount", "other", "-n", NAMESPACE)

    control_plane.kubectl("apply", "--server-side", "--filename", MANIFEST)

    own, elections, low = (
        uid_of(control_plane, level) for level in ("desched", "leader-election", "workload-low")
    )
    expected = {
        ("desched", LIST_PODS.path()): own,
        ("desched", GET_LEASE.path(NAMESPACE, "desched")): elections,
        ("desched", "/version"): own,
        ("other", LIST_PODS.path()): low,
    }
    control_plane.wait_for(
        "the API server to know it",
        lambda: all(level_of(control_plane, *asked) == uid for asked, uid in expected.items()),
    )
