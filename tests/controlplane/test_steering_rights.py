"""What deploy/overlays/evict lets desched's account do to nodes, and nothing more."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.taints import KubernetesSteerer
from tests.controlplane.cluster import ControlPlane

OVERLAY = Path(__file__).parents[2] / "deploy" / "overlays" / "evict"
UNTIL = datetime.now(UTC) + timedelta(hours=1)

FORBIDDEN = {
    "another taint": {"spec": {"taints": [{"key": "drain", "effect": "NoSchedule"}]}},
    "its own taint with teeth": {
        "spec": {"taints": [{"key": "desched.io/overloaded", "effect": "NoExecute"}]}
    },
    "a cordon": {"spec": {"unschedulable": True}},
    "a label": {"metadata": {"labels": {"team": "mine"}}},
    "an annotation of others": {"metadata": {"annotations": {"note": "mine"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/mine"]}},
}


@pytest.fixture
def kubeconfig(control_plane: ControlPlane) -> Path:
    """That of desched's account, once the rights and their limits hold."""
    control_plane.add_node("te1")
    control_plane.kubectl("apply", "--server-side", "--kustomize", OVERLAY)
    account = control_plane.kubeconfig_for("desched-system", "desched")
    steerer = KubernetesSteerer(connect(account, None))

    def may_taint() -> bool:
        return steerer.taint("te1", UNTIL).done and steerer.untaint("te1").done

    control_plane.wait_for("the account may patch nodes", may_taint)
    control_plane.wait_for(
        "the admission policy holds",
        lambda: "may not cordon" in refusal(control_plane, account, "a cordon"),
    )
    return account


def refusal(control_plane: ControlPlane, account: Path, what: str) -> str:
    """What the API server says to that account; empty where it is let through."""
    answer = connect(account, None).patch("/api/v1/nodes/te1", FORBIDDEN[what])
    if answer.status != 200:
        return answer.body.decode()
    control_plane.kubectl("uncordon", "te1")
    return ""


def test_of_nodes_only_its_soft_taint_and_its_mark_may_change(
    control_plane: ControlPlane, kubeconfig: Path
) -> None:
    said = {what: refusal(control_plane, kubeconfig, what) for what in FORBIDDEN}
    assert all("ValidatingAdmissionPolicy 'desched-steering'" in why for why in said.values()), said

    steerer = KubernetesSteerer(connect(kubeconfig, None))
    control_plane.kubectl("taint", "nodes", "te1", "others=keep:NoSchedule")
    assert steerer.taint("te1", UNTIL).done
    assert steerer.standing().until == {"te1": UNTIL}
    assert {t["key"] for t in control_plane.get("/api/v1/nodes/te1")["spec"]["taints"]} == {
        "others",
        "desched.io/overloaded",
    }
    assert steerer.untaint("te1").done
    node = control_plane.get("/api/v1/nodes/te1")
    assert [t["key"] for t in node["spec"]["taints"]] == ["others"]
    assert "desched.io/overloaded-until" not in node["metadata"].get("annotations", {})
