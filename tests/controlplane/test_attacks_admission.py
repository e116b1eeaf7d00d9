"""The admission policy holds in any namespace, and for the content of fields of nodes."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.objects.nodes import STEERED_UNTIL
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.ports import SteeringAnswer
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.test_steering_rights import UNTIL

(POLICY,) = (Path(__file__).parents[2] / "deploy" / "overlays").glob("*/admission-policy.yaml")
NAMESPACE = "elsewhere"
NODE = "/api/v1/nodes/te1"
OWN = "desched.io/overloaded"


@pytest.fixture
def owner(control_plane: ControlPlane) -> dict[str, Any]:
    """A reference to something that exists, so that no garbage collector takes the node."""
    uid = control_plane.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "uid": uid}


@pytest.fixture
def account(control_plane: ControlPlane, owner: dict[str, Any], tmp_path: Path) -> Iterator[Path]:
    """That of desched, installed by an overlay that names another namespace."""
    control_plane.add_node("te1")
    control_plane.request(
        "PATCH",
        NODE,
        {
            "metadata": {
                "ownerReferences": [owner],
                "finalizers": ["example.com/mine"],
                "labels": {"team": "mine"},
                "annotations": {"note": "mine"},
            }
        },
    )
    base = os.path.relpath(POLICY.parent, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(f"namespace: {NAMESPACE}\nresources:\n- {base}\n")
    try:
        control_plane.kubectl("apply", "--server-side", "--kustomize", tmp_path)
        found = control_plane.kubeconfig_for(NAMESPACE, "desched")
        steerer = KubernetesSteerer(connect(found, None))
        control_plane.wait_for(
            "the account may patch nodes",
            lambda: steerer.taint("te1", UNTIL).done and steerer.untaint("te1").done,
        )
        tries = count()  # before the policy holds, each of them changes the label
        control_plane.wait_for(
            "the admission policy holds",
            lambda: refusal(found, {"metadata": {"labels": {"try": str(next(tries))}}}),
        )
        yield found
    finally:
        control_plane.request("PATCH", NODE, {"metadata": {"finalizers": None}})


def refusal(account: Path, change: dict[str, Any]) -> str:
    """What the API server says to that account; empty where it is let through."""
    answer = connect(account, None).patch(NODE, change)
    return "" if answer.status == 200 else answer.body.decode()


def test_in_another_namespace_it_forbids_changes_of_content(
    account: Path, owner: dict[str, Any]
) -> None:
    changes: dict[str, dict[str, Any]] = {
        "content of an owner": {"metadata": {"ownerReferences": [{**owner, "controller": True}]}},
        "no owner": {"metadata": {"ownerReferences": None}},
        "another finalizer": {"metadata": {"finalizers": ["example.com/other"]}},
        "no finalizer": {"metadata": {"finalizers": None}},
        "value of a label": {"metadata": {"labels": {"team": "other"}}},
        "no label": {"metadata": {"labels": {"team": None}}},
        "value of an annotation": {"metadata": {"annotations": {"note": "other"}}},
        "no annotation": {"metadata": {"annotations": {"note": None}}},
        "a cordon": {"spec": {"unschedulable": True}},
        "a provider": {"spec": {"providerID": "mine://te1"}},
    }
    said = {what: refusal(account, change) for what, change in changes.items()}
    by = "ValidatingAdmissionPolicy 'desched-steering'"
    assert {what: why for what, why in said.items() if by not in why} == {}

    steerer = KubernetesSteerer(connect(account, None))
    assert steerer.taint("te1", UNTIL).done
    assert steerer.untaint("te1").done


def odd_node() -> dict[str, Any]:
    """As large as nodes get, with desched's own taint in all forms, and fields without a value."""
    taints = [{"key": f"t{i}", "value": "v" * 63, "effect": "NoSchedule"} for i in range(200)]
    ours = [{"key": OWN, "value": "mine", "effect": each} for each in ("NoSchedule", "NoExecute")]
    return {
        "metadata": {
            "labels": {f"label-{i:04}.{'x' * 40}": "v" * 63 for i in range(2000)},
            "annotations": {f"note-{i:04}": "v" * 1000 for i in range(200)} | {"empty": ""},
            "finalizers": None,
        },
        "spec": {"taints": taints + ours, "unschedulable": None, "providerID": ""},
    }


def test_of_an_odd_node_nothing_else_changes_either(
    control_plane: ControlPlane, account: Path
) -> None:
    """What desched may do takes no more than the policy may cost."""
    odd = odd_node()
    assert control_plane.request("PATCH", NODE, odd)[0] == 200
    steerer = KubernetesSteerer(connect(account, None))
    assert steerer.taint("te1", UNTIL) == SteeringAnswer(done=True)
    assert steerer.untaint("te1") == SteeringAnswer(done=True)

    taints = control_plane.get(NODE)["spec"]["taints"]
    assert taints == odd["spec"]["taints"]
    first, *others = taints
    changes: dict[str, list[dict[str, Any]]] = {
        "one taint less": others,
        "another order": [*others, first],
        "another value": [{**first, "value": "w"}, *others],
        "another value of its own with teeth": [*taints[:-1], {**taints[-1], "value": "w"}],
        "a time": [{**first, "timeAdded": "2026-01-01T00:00:00Z"}, *others],
    }
    said = {
        what: refusal(account, {"spec": {"taints": changed}}) for what, changed in changes.items()
    }
    said["a long text"] = refusal(account, {"metadata": {"annotations": {STEERED_UNTIL: "x" * 65}}})
    by = "ValidatingAdmissionPolicy 'desched-steering'"
    assert {what: why for what, why in said.items() if by not in why} == {}
