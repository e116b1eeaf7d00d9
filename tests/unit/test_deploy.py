"""What deploy/ installs is what the code needs, and no more."""

import re
import urllib.request
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from desched import __version__
from desched.adapters.kubernetes import connection, events
from desched.adapters.kubernetes.access import REQUIRED_ACCESS
from desched.policy.loading import load_policy
from desched.service.endpoints import ListenAddress, listen_address, served
from desched.service.health import Health
from desched.settings import Settings, load_settings, variable_of

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "base"
EVICT = ROOT / "deploy" / "overlays" / "evict"
POLICY_KEY = "policy.yaml"
EVENTS_PER_EVICTION = 2  # on the pod and on its node


def documents(folder: Path) -> Iterator[dict[str, Any]]:
    for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        yield from yaml.safe_load_all((folder / name).read_text())


def manifest(kind: str) -> dict[str, Any]:
    (found,) = (document for document in documents(BASE) if document["kind"] == kind)
    return found


def pod_spec() -> dict[str, Any]:
    spec: dict[str, Any] = manifest("Deployment")["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    (only,) = pod_spec()["containers"]
    assert isinstance(only, dict)
    return only


def environment(*, patched: bool) -> dict[str, str]:
    """The variables of the pod as the kubelet would set them."""
    variables = list(container()["env"])
    if patched:
        variables += evict_patch()["spec"]["template"]["spec"]["containers"][0]["env"]
    return {each["name"]: each.get("value", "from the pod") for each in variables}


def evict_patch() -> dict[str, Any]:
    patch = yaml.safe_load((EVICT / "evict.yaml").read_text())
    assert isinstance(patch, dict)
    return patch


def settings(monkeypatch: pytest.MonkeyPatch, *, patched: bool) -> Settings:
    monkeypatch.setattr("os.environ", environment(patched=patched))
    return load_settings({})


# What it may do to the cluster


def test_the_cluster_role_grants_exactly_what_the_adapter_declares() -> None:
    granted = [
        access
        for rule in manifest("ClusterRole")["rules"]
        for access in product(rule["verbs"], rule["apiGroups"], rule["resources"])
    ]

    assert sorted(granted) == sorted({(a.verb, a.group, a.resource) for a in REQUIRED_ACCESS})


def test_the_cluster_role_is_bound_to_the_pods_service_account_alone() -> None:
    account, binding = manifest("ServiceAccount"), manifest("ClusterRoleBinding")

    assert binding["roleRef"]["name"] == manifest("ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": account["metadata"]["name"],
            "namespace": account["metadata"]["namespace"],
        }
    ]
    assert pod_spec()["serviceAccountName"] == account["metadata"]["name"]


def test_nothing_else_than_these_kinds_is_installed() -> None:
    assert sorted(document["kind"] for document in documents(BASE)) == [
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
        "Namespace",
        "Service",
        "ServiceAccount",
    ]


def test_everything_is_in_the_one_namespace() -> None:
    namespace = manifest("Namespace")["metadata"]["name"]

    for kind in ("ServiceAccount", "Deployment", "Service"):
        assert manifest(kind)["metadata"]["namespace"] == namespace
    assert generated_configmap()["namespace"] == namespace


# What it starts


def test_every_variable_of_the_pod_is_a_setting() -> None:
    known = {variable_of(name) for name in Settings.model_fields}

    assert set(environment(patched=True)) <= known


def test_the_base_is_a_dry_run_that_keeps_running(monkeypatch: pytest.MonkeyPatch) -> None:
    base = settings(monkeypatch, patched=False)

    assert base.dry_run
    assert base.loops


def test_the_overlay_changes_the_dry_run_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    base = settings(monkeypatch, patched=False).model_dump()
    evict = settings(monkeypatch, patched=True)

    assert evict.loops
    assert {k: v for k, v in evict.model_dump().items() if v != base[k]} == {"dry_run": False}


def test_the_overlay_is_one_patch_of_one_variable_of_the_container() -> None:
    overlay = yaml.safe_load((EVICT / "kustomization.yaml").read_text())
    patched, base = evict_patch(), manifest("Deployment")

    assert overlay.keys() == {"apiVersion", "kind", "resources", "patches"}
    assert overlay["resources"] == ["../../base"]
    assert overlay["patches"] == [{"path": "evict.yaml"}]
    dry_run_off = {"name": "DESCHED_DRY_RUN", "value": "false"}
    spec = {"containers": [{"name": container()["name"], "env": [dry_run_off]}]}
    assert patched == {
        **{key: base[key] for key in ("apiVersion", "kind")},
        "metadata": {key: base["metadata"][key] for key in ("name", "namespace")},
        "spec": {"template": {"spec": spec}},
    }


def test_the_image_has_the_version_of_the_code() -> None:
    assert container()["image"] == f"desched:{__version__}"


def test_two_of_them_never_run_at_once() -> None:
    spec = manifest("Deployment")["spec"]

    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_it_does_not_evict_itself() -> None:
    annotations = manifest("Deployment")["spec"]["template"]["metadata"]["annotations"]

    assert annotations == {"descheduler.alpha.kubernetes.io/evict": "false"}


def test_the_running_eviction_ends_within_the_grace_period() -> None:
    read = evict = connection.DEADLINE_SECONDS
    announce = EVENTS_PER_EVICTION * events._DEADLINE_SECONDS  # noqa: SLF001 (a deadline of its own)

    assert pod_spec()["terminationGracePeriodSeconds"] > read + evict + announce


# Its policy


def generated_configmap() -> dict[str, Any]:
    (generator,) = yaml.safe_load((BASE / "kustomization.yaml").read_text())["configMapGenerator"]
    assert isinstance(generator, dict)
    return generator


def test_the_policy_is_the_published_one_word_for_word() -> None:
    published = yaml.safe_load((ROOT / "policies" / "volcano-published.yaml").read_text())

    assert (BASE / POLICY_KEY).read_text() == published["data"][POLICY_KEY]
    assert load_policy(BASE / POLICY_KEY).policy.metrics.address


def test_edits_of_the_policy_reach_the_running_pod() -> None:
    generator = generated_configmap()
    (volume,) = pod_spec()["volumes"]
    (mount,) = container()["volumeMounts"]
    path = environment(patched=False)["DESCHED_POLICY"]

    assert generator["files"] == [POLICY_KEY]
    assert generator["options"]["disableNameSuffixHash"]
    assert volume == {"name": mount["name"], "configMap": {"name": generator["name"]}}
    assert "subPath" not in mount
    assert path == f"{mount['mountPath']}/{POLICY_KEY}"


# Security


def test_the_namespace_enforces_the_restricted_pod_security_standard() -> None:
    labels = manifest("Namespace")["metadata"]["labels"]

    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_pod_runs_without_any_privilege() -> None:
    assert pod_spec()["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_image_runs_as_the_user_of_the_pod() -> None:
    context = pod_spec()["securityContext"]
    (user,) = re.findall(r"^USER (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)

    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_the_token_is_mounted_into_the_pod_that_needs_it_only() -> None:
    assert manifest("ServiceAccount")["automountServiceAccountToken"] is False
    assert pod_spec()["automountServiceAccountToken"] is True


# Probes and metrics


def test_the_pod_listens_on_the_port_that_probes_and_service_name() -> None:
    (port,) = container()["ports"]
    (service_port,) = manifest("Service")["spec"]["ports"]
    address = listen_address(environment(patched=False)["DESCHED_LISTEN_ADDRESS"])
    annotations = manifest("Service")["metadata"]["annotations"]

    assert address == ("", port["containerPort"])
    assert service_port["targetPort"] == port["name"]
    assert annotations["prometheus.io/port"] == str(service_port["port"]) == str(address.port)
    for probe in ("livenessProbe", "readinessProbe"):
        assert container()[probe]["httpGet"]["port"] == port["name"]


def test_the_service_selects_the_pod() -> None:
    deployment = manifest("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]

    assert manifest("Service")["spec"]["selector"].items() <= labels.items()
    assert deployment["selector"]["matchLabels"].items() <= labels.items()


def test_the_probes_and_the_scraper_ask_for_paths_that_are_answered() -> None:
    health = Health(lambda: 0.0, cycle_deadline_seconds=1.0)
    health.cycle_ended(observed=True)
    asked = [container()[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")]
    asked.append(manifest("Service")["metadata"]["annotations"]["prometheus.io/path"])

    with served(ListenAddress("127.0.0.1", 0), health, lambda: b"") as (host, port):
        for path in asked:
            with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as answer:
                assert answer.status == 200
