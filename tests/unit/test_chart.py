"""The chart in deploy/chart/ renders what kustomize installs, and what its values say."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from desched import __version__
from desched.cli.command_table import COMMANDS
from desched.policy.policy import MetricsType
from desched.policy_file.loading import load_policy
from desched.policy_file.sections.metrics import METRICS_SERVER_SPELLINGS
from desched.settings import Settings, load_settings, variable_of
from tests.chart_reference import PAGE, documented_values, with_table
from tests.controlplane.chart_rendering import (
    CHART,
    DASHBOARD,
    DEPLOY,
    EVERYTHING,
    Key,
    Object,
    Values,
    manifests,
    objects,
    renderer,
    run,
    template,
)
from tests.repository import ROOT

OVERLAYS: dict[str, Values] = {
    "base": {},
    "overlays/evict-without-steering": {"mode": "evict", "steering": False},
    "overlays/evict": {"mode": "evict"},
}
"""Folders for kustomize, with the values for the same."""
DEPLOYMENT = "Deployment"
CLEARING = "desched-clear-soft-taints"
OWNER_KINDS = "desched-owner-kinds"

CREDENTIALS: Values = {
    "url": "https://prometheus.example.com",
    "username": "desched",
    "password": {"secret": "basic"},
    "bearerToken": {"secret": "bearer"},
    "headers": {"secret": "tenant"},
    "clientCertificate": {"secret": "tls"},
    "certificateAuthority": {"configMap": "authorities"},
}


@pytest.fixture(scope="session")
def helm() -> Path:
    return renderer("helm")


@pytest.fixture(scope="session")
def kustomize() -> Path:
    return renderer("kustomize")


def rendered(helm: Path, values: Values, namespace: str = "desched-system") -> dict[Key, Object]:
    return objects(template(helm, values, namespace=namespace))


def the(kind: str, found: dict[Key, Object], name: str = "desched") -> Object:
    (one,) = (each for key, each in found.items() if (key[0], key[2]) == (kind, name))
    return one


def container(found: dict[Key, Object]) -> Object:
    (only,) = the(DEPLOYMENT, found)["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def environment(found: dict[Key, Object]) -> dict[str, str]:
    """The variables of the pod as the kubelet would set them."""
    variables = container(found)["env"]
    names = [each["name"] for each in variables]
    assert len(set(names)) == len(names)
    return {each["name"]: each.get("value", "from the pod") for each in variables}


def settings(found: dict[Key, Object], monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr("os.environ", environment(found))
    return load_settings({})


def refusal(helm: Path, values: Values) -> str:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        template(helm, values)
    return str(refused.value.stderr)


# One truth


def test_the_manifests_for_kustomize_are_those_of_the_chart(helm: Path) -> None:
    assert {file: (DEPLOY / file).read_text() for file in manifests(helm)} == manifests(helm), (
        "run `make generated`"
    )


@pytest.mark.parametrize("folder", OVERLAYS)
def test_helm_and_kustomize_install_the_same(folder: str, helm: Path, kustomize: Path) -> None:
    """But for the namespace, which is the user's with Helm, and the hooks, which Helm alone has."""
    built = objects(run(kustomize, "build", DEPLOY / folder))
    chart = objects(template(helm, OVERLAYS[folder], "--no-hooks"))

    assert built.pop(("Namespace", "", "desched-system"))
    assert built == chart


def test_the_chart_has_the_version_of_the_code() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


# Its values


def test_every_value_is_documented() -> None:
    assert [value.path for value in documented_values() if not value.meaning] == []


def test_the_page_has_the_table_of_the_values_as_they_are() -> None:
    assert with_table(PAGE.read_text()) == PAGE.read_text(), "run `make generated`"


def schema() -> Object:
    found: Object = json.loads((CHART / "values.schema.json").read_text())
    Draft7Validator.check_schema(found)
    return found


def test_the_schema_has_exactly_the_values_that_are_documented() -> None:
    def paths(node: Any, prefix: str = "") -> Iterator[str]:
        for name, below in node.get("properties", {}).items():
            yield from (
                paths(below, f"{prefix}{name}.") if "properties" in below else (prefix + name,)
            )

    def leaves(value: Any, prefix: str = "") -> Iterator[str]:
        for name, below in value.items():
            open_ended = not isinstance(below, dict) or prefix + name not in closed
            yield from (prefix + name,) if open_ended else leaves(below, f"{prefix}{name}.")

    closed = {path.rpartition(".")[0] for path in paths(schema())}
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert sorted({*leaves(values), "global"}) == sorted(paths(schema()))  # Helm sets `global`


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"mode": "evictions"}, "/mode"),
        ({"steeering": True}, "'steeering' not allowed"),
        ({"image": {"repo": "x"}}, "/image"),
        ({"policy": {"kind": "DeschedulerPolicy"}}, "/policy"),
        ({"settings": {"LOG_LEVEL": "debug"}}, "LOG_LEVEL"),
        ({"prometheus": {"url": "prometheus:9090"}}, "/prometheus/url"),
        ({"schedule": {"interval": "often"}}, "/schedule/interval"),
        ({"prometheusRule": {"runbookBaseUrl": "runbooks"}}, "/prometheusRule/runbookBaseUrl"),
    ],
)
def test_a_wrong_value_is_refused_where_it_is(helm: Path, values: Values, where: str) -> None:
    assert where in refusal(helm, values)


def test_settings_are_refused_that_have_a_value_of_their_own_or_are_secret(helm: Path) -> None:
    """A variable that is there twice is not what either says, and everyone may read a manifest."""
    set_here = environment(rendered(helm, {"prometheus": CREDENTIALS}))
    cron = environment(rendered(helm, {"schedule": {"cron": "@hourly"}}))
    refused = schema()["properties"]["settings"]["propertyNames"]["not"]["enum"]
    known = {variable_of(name) for name in Settings.model_fields}

    assert {*set_here, *cron} <= set(refused) <= known
    for name in ("PASSWORD", "BEARER_TOKEN", "HEADERS"):
        assert f"DESCHED_PROMETHEUS_{name}" in refused


# What it starts


def test_by_default_it_is_a_dry_run_without_a_right_to_change_anything_but_its_own(
    helm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = objects(template(helm, {}, "--no-hooks"))
    verbs = {
        (verb, resource)
        for (kind, _, _), each in found.items()
        if kind in {"ClusterRole", "Role"}
        for rule in each["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }

    assert settings(found, monkeypatch).dry_run
    assert {pair for pair in verbs if pair[0] not in {"get", "list", "watch"}} == {
        ("create", "leases"),
        ("patch", "leases"),
        ("create", "events"),
        ("patch", "configmaps"),  # of its logbook alone
    }
    (logbook,) = the("Role", found, "desched-logbook")["rules"]
    assert logbook["resourceNames"] == ["desched-logbook"]


def test_values_become_the_settings_of_the_service(
    helm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "mode": "evict",
        "schedule": {"cron": "*/10 * * * *", "timezone": "Europe/Berlin"},
        "settings": {
            "DESCHED_LOG_LEVEL": "debug",
            "DESCHED_WATCH": False,
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        },
        "prometheus": {"url": "http://prometheus:9090/"},
    }
    found = settings(rendered(helm, values), monkeypatch)

    assert not found.dry_run
    assert (found.cron, found.timezone) == ("*/10 * * * *", "Europe/Berlin")
    assert (found.log_level, found.watch) == ("debug", False)
    assert found.prometheus_url == "http://prometheus:9090/"


def test_each_credential_is_a_file_that_the_pod_mounts(
    helm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rendered(helm, {"prometheus": CREDENTIALS})
    mounts = {each["name"]: each["mountPath"] for each in container(found)["volumeMounts"]}
    volumes = the(DEPLOYMENT, found)["spec"]["template"]["spec"]["volumes"]
    (sources,) = (v["projected"]["sources"] for v in volumes if v["name"] == "prometheus")
    projections = [projection for source in sources for projection in source.values()]
    files = [f"{mounts['prometheus']}/{item['path']}" for p in projections for item in p["items"]]
    set_up = settings(found, monkeypatch)
    read = [path for path in set_up.model_dump().values() if isinstance(path, Path)]

    assert {p["name"] for p in projections} == {"basic", "bearer", "tenant", "tls", "authorities"}
    assert sorted(files) == sorted(map(str, {*read} - {Path("/etc/desched/policy.yaml")}))
    assert set_up.prometheus_username == "desched"


def test_credentials_are_refused_where_the_policy_alone_says_where_they_go(helm: Path) -> None:
    with_secret = {"bearerToken": {"secret": "bearer"}}

    assert "prometheus.url is required" in refusal(helm, {"prometheus": with_secret})


@pytest.mark.parametrize(
    ("spelling", "form"),
    [
        ("metrics-server", "{{type: {}}}"),
        ("metrics_server", '{{"type" : "{}"}}'),
        ("KubernetesMetrics", "\n          type: {}"),
        ("prometheus_adaptor", "{{averagedOver: 0s, type: {}}}"),
    ],
)
def test_a_prometheus_is_refused_beside_a_policy_that_reads_none(
    helm: Path, spelling: str, form: str
) -> None:
    def policy(source: str) -> str:
        return (
            "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
            f"profiles:\n- pluginConfig:\n  - name: LoadAware\n    args:\n      metrics: {source}\n"
        )

    by_url: Values = {"prometheus": {"url": "http://prometheus.example.com"}}
    without = {"policy": policy(form.format(spelling))}
    assert "but the policy does not read load from Prometheus" in refusal(
        helm, {**without, **by_url}
    )
    assert rendered(helm, without)
    commented = policy(form.format("prometheus") + f" # not type: {spelling}")
    assert rendered(helm, {"policy": commented, **by_url})


def test_the_chart_knows_every_other_source_of_load_in_each_spelling() -> None:
    template = (CHART / "templates" / "_prometheus.tpl").read_text()

    for spelling in METRICS_SERVER_SPELLINGS | {*MetricsType} - {MetricsType.PROMETHEUS}:
        assert re.search(rf'"type":"\([^)]*\b{spelling}\b', template)


def test_a_policy_comes_word_for_word(helm: Path, tmp_path: Path) -> None:
    text = (ROOT / "policies" / "cautious.yaml").read_text()
    data = the("ConfigMap", rendered(helm, {"policy": text}), "desched-policy")["data"]
    file = tmp_path / "policy.yaml"
    file.write_text(data["policy.yaml"])

    assert data == {"policy.yaml": text}
    assert load_policy(file).policy


def test_everything_is_in_the_namespace_of_the_release(helm: Path) -> None:
    elsewhere = template(helm, EVERYTHING, namespace="platform")

    assert "desched-system" not in elsewhere
    assert {namespace for _, namespace, _ in objects(elsewhere)} == {"", "platform"}


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        ({"podDisruptionBudget": {"enabled": False}}, {"PodDisruptionBudget"}),
        ({"networkPolicy": {"enabled": False}}, {"NetworkPolicy"}),
    ],
)
def test_a_part_can_be_left_out(helm: Path, values: Values, gone: set[str]) -> None:
    missing = rendered(helm, {}).keys() - rendered(helm, values).keys()

    assert {kind for kind, _, _ in missing} == gone


def test_an_optional_right_can_be_left_out_with_its_binding(helm: Path) -> None:
    without = rendered(helm, {"rights": {"verticalPodAutoscalers": False}})

    assert rendered(helm, {}).keys() - without.keys() == {
        (kind, "", "desched-vertical-autoscalers") for kind in ("ClusterRole", "ClusterRoleBinding")
    }


def test_pods_run_where_and_how_the_values_say(helm: Path) -> None:
    toleration = {"key": "dedicated", "operator": "Exists"}
    values = {
        "image": {"repository": "r/desched", "tag": "1@sha256:0", "pullSecrets": ["registry"]},
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"pool": "system"},
        "tolerations": [toleration],
        "podAnnotations": {"team": "platform"},
    }
    found = rendered(helm, values)
    for each in (the(DEPLOYMENT, found), the("Job", found, CLEARING)):
        pod = each["spec"]["template"]
        assert pod["spec"]["containers"][0]["image"] == "r/desched:1@sha256:0"
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
        assert pod["spec"]["nodeSelector"]["pool"] == "system"
        assert pod["spec"]["tolerations"] == [toleration]
        assert pod["metadata"]["annotations"]["team"] == "platform"


def test_grafana_gets_the_dashboard_unchanged(helm: Path) -> None:
    data = the("ConfigMap", rendered(helm, EVERYTHING), "desched-dashboard")["data"]

    assert data == {"desched.json": DASHBOARD.read_text()}


# Hooks


@pytest.mark.parametrize(
    ("values", "events"),
    [
        ({"mode": "evict"}, {"post-delete"}),
        ({"mode": "dryRun"}, {"post-upgrade", "post-rollback"}),
        ({"mode": "evict", "steering": False}, set()),
        ({"mode": "dryRun", "steering": False}, set()),
    ],
)
def test_soft_taints_are_cleared_when_the_right_to_set_them_has_gone(
    helm: Path, values: Values, events: set[str]
) -> None:
    hooks = [each for (_, _, name), each in rendered(helm, values).items() if name == CLEARING]
    annotations = [hook["metadata"]["annotations"] for hook in hooks]

    assert {event for each in annotations for event in each["helm.sh/hook"].split(",")} == events
    for each in annotations:
        assert "hook-succeeded" in each["helm.sh/hook-delete-policy"]


def test_the_pod_of_the_hook_belongs_to_nothing_of_the_service(helm: Path) -> None:
    """Neither its Service nor its budget selects it."""
    found = rendered(helm, {})
    labels = the("Job", found, CLEARING)["spec"]["template"]["metadata"]["labels"]

    assert labels.items().isdisjoint(
        the(DEPLOYMENT, found)["spec"]["selector"]["matchLabels"].items()
    )


def test_helm_finds_nothing_to_complain_about(helm: Path) -> None:
    assert not re.search(r"\[(WARNING|ERROR)\]", run(helm, "lint", "--strict", CHART))


# Its alerts


def test_each_alert_leads_to_its_section_of_the_page_that_the_values_name(helm: Path) -> None:
    page = "https://runbooks.example.com/operations-reference"
    rule: Values = {"enabled": True}

    def alerts(values: Values) -> list[Object]:
        found = the("PrometheusRule", rendered(helm, {"prometheusRule": values}))
        rules: list[Object] = found["spec"]["groups"][0]["rules"]
        return rules

    without = alerts(rule)
    assert len(without) > 20
    assert not any("runbook_url" in alert["annotations"] for alert in without)
    for alert in (linked := alerts({**rule, "runbookBaseUrl": page})):
        url = alert["annotations"].pop("runbook_url")
        assert url == f"{page}#{alert['alert'].lower()}"
    assert linked == without


def test_the_objects_of_declared_kinds_are_listed_only_where_their_kinds_are_named(
    helm: Path,
) -> None:
    kinds = ["rollouts.argoproj.io", "replicationcontrollers"]
    role = the("ClusterRole", rendered(helm, {"rights": {"ownerKinds": kinds}}), OWNER_KINDS)
    assert role["rules"] == [
        {"apiGroups": ["argoproj.io"], "resources": ["rollouts"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["replicationcontrollers"], "verbs": ["list"]},
    ]
    assert not any(name == OWNER_KINDS for _, _, name in rendered(helm, {}))


def test_the_notes_after_an_installation_name_commands_that_exist() -> None:
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    commands = {command for names in COMMANDS.values() for command in names}
    named = set(re.findall(r"-- desched (\w+)", notes))

    assert named
    assert named <= commands
