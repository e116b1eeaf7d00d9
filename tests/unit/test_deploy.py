"""What deploy/ installs is what the code needs, and no more."""

import re
import urllib.request
from collections.abc import Iterable
from functools import cache
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from desched.adapters.kubernetes import events, logbook_store, state_store
from desched.adapters.kubernetes.client import connection
from desched.adapters.kubernetes.client.access import (
    CUSTOM_METRICS_ACCESS,
    DEVICE_ACCESS,
    EVENT_ACCESS,
    EVICTING_ACCESS,
    FEATURES,
    GET_VOLCANO_CONFIGURATION,
    LEASE_ACCESS,
    LOGBOOK_ACCESS,
    METRICS_ACCESS,
    OBSERVING_ACCESS,
    OWN_EVENT_ACCESS,
    SIZING_ACCESS,
    STATE_READING_ACCESS,
    STATE_WRITING_ACCESS,
    STEERING_ACCESS,
    WATCHING_ACCESS,
    Where,
)
from desched.adapters.kubernetes.lease import KubernetesLease
from desched.api_objects.access import Access
from desched.bootstrap.listeners import listeners_of
from desched.bootstrap.side_tasks import REQUEST_SECONDS, contends
from desched.eviction.requests import MOST_UNANNOUNCED
from desched.model.report import Mode
from desched.plugins.kinds import PLUGIN_KINDS
from desched.policy_file.difference import policy_differences
from desched.policy_file.loading import load_policy
from desched.service.process.health import Health
from desched.service.process.http_endpoints import (
    ListenAddress,
    listen_address,
    probe_answers,
    serve,
)
from desched.service.steering.janitor import STOPPING_SECONDS
from desched.settings import Settings, load_settings, variable_of
from desched.wording.reasons import GRANT_STEERING
from tests.repository import ROOT

BASE = ROOT / "deploy" / "base"
EVICT = ROOT / "deploy" / "overlays" / "evict-without-steering"
STEERING = ROOT / "deploy" / "overlays" / "evict"
CUSTOM_METRICS = ROOT / "deploy" / "custom-metrics"
POLICY_KEY = "policy.yaml"
LOGBOOK_VERBS = ["get", "patch"]
EVENTS_PER_EVICTION = 2  # on the pod and on its node

ROLES: dict[tuple[Path, str, str], tuple[Access, ...]] = {
    (BASE, "ClusterRole", "desched"): (*OBSERVING_ACCESS, *WATCHING_ACCESS),
    (BASE, "ClusterRole", "desched-vertical-autoscalers"): SIZING_ACCESS,
    (BASE, "ClusterRole", "desched-devices"): DEVICE_ACCESS,
    (BASE, "ClusterRole", "desched-metrics-server"): METRICS_ACCESS,
    (CUSTOM_METRICS, "ClusterRole", "desched-custom-metrics"): CUSTOM_METRICS_ACCESS,
    (BASE, "Role", "desched"): LEASE_ACCESS,
    (BASE, "Role", "desched-state"): STATE_READING_ACCESS,
    (BASE, "Role", "desched-logbook"): LOGBOOK_ACCESS,
    (BASE, "Role", "desched-events"): OWN_EVENT_ACCESS,
    (EVICT, "ClusterRole", "desched-evict"): EVICTING_ACCESS,
    (EVICT, "Role", "desched-evict"): STATE_WRITING_ACCESS,
    (EVICT, "ClusterRole", "desched-events"): EVENT_ACCESS,
    (STEERING, "ClusterRole", "desched-steering"): STEERING_ACCESS,
}
"""What can be left out on its own is a role of its own."""


@cache
def documents(folder: Path) -> tuple[dict[str, Any], ...]:
    """What a folder adds itself."""
    resources = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    files = filter(Path.is_file, (folder / name for name in resources))
    return tuple(document for file in files for document in yaml.safe_load_all(file.read_text()))


def named(folder: Path, kind: str, name: str) -> dict[str, Any]:
    (found,) = (
        document
        for document in documents(folder)
        if (document["kind"], document["metadata"]["name"]) == (kind, name)
    )
    return found


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

Right = tuple[str, str, str]


def granted_by(role: dict[str, Any]) -> list[Right]:
    return sorted(
        each
        for rule in role["rules"]
        for each in product(rule["verbs"], rule["apiGroups"], rule["resources"])
    )


def needed_for(accesses: Iterable[Access]) -> list[Right]:
    return sorted((access.verb, access.group, access.resource) for access in accesses)


def binds_the_account_to(role: dict[str, Any], binding: dict[str, Any]) -> None:
    account = manifest("ServiceAccount")["metadata"]
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": role["kind"],
        "name": role["metadata"]["name"],
    }
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]


@pytest.mark.parametrize(("folder", "kind", "name"), ROLES)
def test_a_role_grants_exactly_what_the_adapter_declares(
    folder: Path, kind: str, name: str
) -> None:
    assert granted_by(named(folder, kind, name)) == needed_for(ROLES[folder, kind, name])


@pytest.mark.parametrize("folder", [BASE, EVICT, STEERING, CUSTOM_METRICS])
def test_the_doctor_asks_for_exactly_the_rights_that_are_granted(folder: Path) -> None:
    """Each in the folder that it advises to apply, and where the kind of Role grants it."""
    granted = [
        (kind, role, access)
        for (where, kind, role), accesses in ROLES.items()
        for access in accesses
        if where == folder
    ]
    asked = [
        ("ClusterRole" if feature.where is Where.EVERYWHERE else "Role", feature.role, access)
        for feature in FEATURES
        for access in feature.rights
        if ROOT / feature.folder == folder
    ]
    assert sorted(asked) == sorted(granted)


def test_no_other_roles_are_shipped() -> None:
    assert {
        (folder, document["kind"], document["metadata"]["name"])
        for folder in (BASE, EVICT, STEERING, CUSTOM_METRICS)
        for document in documents(folder)
        if document["kind"] in {"ClusterRole", "Role"}
    } == ROLES.keys()


OPTIONAL = [
    (kinds.rights.name, system, rights)
    for kinds in PLUGIN_KINDS
    for system, rights in kinds.rights.granted.items()
]


@pytest.mark.parametrize(("folder", "system", "rights"), OPTIONAL)
def test_the_right_to_read_the_objects_of_a_system_is_added_on_its_own(
    folder: str, system: str, rights: tuple[Access, ...]
) -> None:
    """X3: read-only rights, one ClusterRole for each system."""
    file = ROOT / "deploy" / folder / f"{system}.yaml"
    role, binding = yaml.safe_load_all(file.read_text())

    assert (role["kind"], role["metadata"]["name"]) == (
        "ClusterRole",
        f"desched-{folder}-{system}",
    )
    assert granted_by(role) == needed_for(rights)
    binds_the_account_to(role, binding)


def test_the_configuration_of_volcano_is_one_config_map_that_may_be_read() -> None:
    """X3: by its name, in its namespace, and not with any other right."""
    file = ROOT / "deploy" / "volcano-configuration.yaml"
    role, binding = yaml.safe_load_all(file.read_text())
    (rule,) = role["rules"]

    assert (role["kind"], binding["kind"]) == ("Role", "RoleBinding")
    assert {role["metadata"]["namespace"], binding["metadata"]["namespace"]} == {"volcano-system"}
    assert granted_by(role) == needed_for([GET_VOLCANO_CONFIGURATION])
    assert rule["resourceNames"] == ["volcano-scheduler-configmap"]
    binds_the_account_to(role, binding)


def test_of_configmaps_and_leases_its_own_alone_may_be_read_and_changed() -> None:
    """RBAC cannot restrict `create` to a name."""
    lease_name = signature(KubernetesLease).parameters["name"].default
    names = {"configmaps": [state_store.CONFIG_MAP], "leases": [lease_name]}
    rules = [
        rule
        for folder, kind, name in ROLES
        for rule in named(folder, kind, name)["rules"]
        if names.keys() & set(rule["resources"])
    ]

    assert len(rules) == 6
    for rule in rules:
        (resource,) = rule["resources"]
        expected = None if rule["verbs"] == ["create"] else names[resource]
        if (resource, rule["verbs"]) == ("configmaps", LOGBOOK_VERBS):
            expected = [logbook_store.CONFIG_MAP]
        assert rule.get("resourceNames") == expected


def test_the_logbook_exists_for_desched_may_not_create_it() -> None:
    """A further apply leaves what is in it, because the manifest has no data."""
    (book,) = (d for d in documents(BASE) if d["kind"] == "ConfigMap")

    assert book["metadata"]["name"] == logbook_store.CONFIG_MAP
    assert book.keys() == {"apiVersion", "kind", "metadata"}
    assert named(BASE, "Role", "desched-logbook")["rules"][0]["verbs"] == LOGBOOK_VERBS


@pytest.mark.parametrize(("folder", "kind", "name"), ROLES)
def test_a_role_is_bound_to_the_pods_service_account_alone(
    folder: Path, kind: str, name: str
) -> None:
    binds_the_account_to(named(folder, kind, name), named(folder, f"{kind}Binding", name))
    assert pod_spec()["serviceAccountName"] == manifest("ServiceAccount")["metadata"]["name"]


def test_everything_is_in_the_one_namespace() -> None:
    namespace = manifest("Namespace")["metadata"]["name"]
    cluster_wide = {"ClusterRole", "ClusterRoleBinding", "Namespace"}

    for folder in (BASE, EVICT):
        for document in documents(folder):
            if document["kind"] not in cluster_wide:
                assert document["metadata"]["namespace"] == namespace
    assert generated_configmap()["namespace"] == namespace


# What it starts


def test_every_variable_of_the_pod_is_a_setting() -> None:
    known = {variable_of(name) for name in Settings.model_fields}

    assert set(environment(patched=True)) <= known


def test_the_base_is_a_dry_run_that_keeps_running(monkeypatch: pytest.MonkeyPatch) -> None:
    base = settings(monkeypatch, patched=False)

    assert base.dry_run
    assert base.loops


def test_of_the_settings_the_overlay_changes_the_dry_run_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = settings(monkeypatch, patched=False).model_dump()
    evict = settings(monkeypatch, patched=True)

    assert evict.loops
    assert {k: v for k, v in evict.model_dump().items() if v != base[k]} == {"dry_run": False}


def test_what_reports_advise_to_apply_grants_steering() -> None:
    assert f"kubectl apply -k {STEERING.relative_to(ROOT)}" == GRANT_STEERING


def test_one_of_two_replicas_is_there_while_others_come_and_go() -> None:
    spec = manifest("Deployment")["spec"]
    budget = manifest("PodDisruptionBudget")["spec"]

    assert spec["replicas"] == 2
    assert spec["strategy"]["type"] == "RollingUpdate"
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == spec["selector"]


def test_replicas_would_rather_be_apart_but_run_on_one_node_too() -> None:
    affinity = pod_spec()["affinity"]
    ((kind, terms),) = affinity["podAntiAffinity"].items()
    terms = [term["podAffinityTerm"] for term in terms]
    selector = manifest("Deployment")["spec"]["selector"]

    assert affinity.keys() == {"podAntiAffinity"}
    assert kind == "preferredDuringSchedulingIgnoredDuringExecution"
    assert "kubernetes.io/hostname" in {term["topologyKey"] for term in terms}
    assert all(term["labelSelector"] == selector for term in terms)


def test_replicas_contend_for_the_lease_of_their_own_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evict = settings(monkeypatch, patched=True)

    assert contends(evict, Mode.EVICT, in_cluster=True)
    assert {"DESCHED_POD_NAME", "DESCHED_POD_NAMESPACE"} <= environment(patched=True).keys()
    assert evict.state_namespace is None  # hence that of the pod, where the Role is


def test_other_deschedulers_are_told_to_leave_it_alone() -> None:
    annotations = manifest("Deployment")["spec"]["template"]["metadata"]["annotations"]

    assert annotations == {"descheduler.alpha.kubernetes.io/evict": "false"}


def test_the_running_eviction_ends_within_the_grace_period() -> None:
    read = evict = connection.DEADLINE_SECONDS
    remember = 2 * state_store.DEADLINE_SECONDS  # before it, and at the cycle's end
    announce = events._DEADLINE_SECONDS  # noqa: SLF001 (a deadline of its own)
    assert events.MOST_AT_ONCE >= EVENTS_PER_EVICTION * MOST_UNANNOUNCED

    release = Settings().renew_deadline.total_seconds()

    # The last requests of the clearing may begin just before its time is over.
    clear = STOPPING_SECONDS + 2 * REQUEST_SECONDS
    look = STOPPING_SECONDS

    assert pod_spec()["terminationGracePeriodSeconds"] > (
        read + remember + evict + announce + clear + release + look
    )


# Its policy


def generated_configmap() -> dict[str, Any]:
    (generator,) = yaml.safe_load((BASE / "kustomization.yaml").read_text())["configMapGenerator"]
    assert isinstance(generator, dict)
    return generator


def test_the_policy_is_the_published_one_but_that_it_excludes_no_namespace() -> None:
    shipped = load_policy(BASE / POLICY_KEY).policy
    published = load_policy(ROOT / "policies" / "volcano-published.yaml").policy

    (difference,) = policy_differences(published, shipped)
    assert difference.line == "evictableNamespaces.exclude: default → none"
    assert "kube-system\n" not in (BASE / POLICY_KEY).read_text()
    assert shipped.metrics.address


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


def test_the_network_lets_in_those_who_ask_its_port_alone() -> None:
    policy, labels = manifest("NetworkPolicy")["spec"], manifest("Deployment")["spec"]["selector"]
    (port,) = container()["ports"]

    assert policy["podSelector"] == labels
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": port["name"]}]}]


def test_the_network_lets_it_ask_dns_the_api_server_and_prometheus_alone() -> None:
    policy = manifest("NetworkPolicy")["spec"]
    dns, api_server, prometheus = policy["egress"]

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert {(p["protocol"], p["port"]) for p in dns["ports"]} == set(
        product(("UDP", "TCP"), (53, 5353))
    )
    assert {(p["protocol"], p["port"]) for p in api_server["ports"]} == {
        ("TCP", 443),
        ("TCP", 6443),
    }
    assert prometheus == {
        "to": [{"namespaceSelector": {}}],
        "ports": [{"protocol": "TCP", "port": 9090}],
    }


# Probes and metrics


def test_the_pod_listens_on_the_port_that_probes_and_service_name() -> None:
    (port,) = container()["ports"]
    (service_port,) = manifest("Service")["spec"]["ports"]
    address = listen_address(environment(patched=False)["DESCHED_LISTEN_ADDRESS"])
    annotations = manifest("Service")["metadata"]["annotations"]

    assert (address.host, address.port) == ("", port["containerPort"])
    assert service_port["targetPort"] == port["name"]
    assert annotations["prometheus.io/port"] == str(service_port["port"]) == str(address.port)
    for probe in ("livenessProbe", "readinessProbe"):
        assert container()[probe]["httpGet"]["port"] == port["name"]


def test_the_pages_are_on_loopback_alone_and_documents_forward_their_port() -> None:
    set_there = set(environment(patched=False))
    assert variable_of("pages_address") not in set_there
    given = Settings(listen_address=environment(patched=False)["DESCHED_LISTEN_ADDRESS"])
    pages = listeners_of(given, in_cluster=True).pages

    assert pages.is_loopback
    assert pages.port not in {port["containerPort"] for port in container()["ports"]}
    notes = "deploy/chart/templates/NOTES.txt"
    for name in ("README.md", "docs/operations.md", "docs/commands.md", notes):
        forwarded = re.findall(r"port-forward deploy/desched (\d+)", (ROOT / name).read_text())
        assert set(forwarded) == {str(pages.port)}


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

    with serve(ListenAddress("127.0.0.1", 0), probe_answers(health, bytes, lambda: 0.0)) as (
        host,
        port,
    ):
        for path in asked:
            with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=120) as answer:
                assert answer.status == 200
