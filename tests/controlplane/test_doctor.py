"""`desched doctor` on a real control plane with a real Prometheus: all well, and what is not."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from desched.policy_file.loading import load_policy
from tests.controlplane import forks
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import ALONE, COMMAND
from tests.controlplane.manifests import Object, deployment
from tests.controlplane.process import free_ports
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.sites import SITE, Site, Sites
from tests.controlplane.usage_exporter import EXPORTERS
from tests.controlplane.waiting import wait_for

HOME = "ward"
SLOW_SECONDS = 20
SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "prometheus-server",
        "namespace": HOME,
        "labels": {
            "app.kubernetes.io/name": "prometheus",
            "app.kubernetes.io/component": "server",
        },
    },
    "spec": {
        "selector": {"app": "prometheus"},
        "ports": [{"name": "http", "port": 80, "targetPort": 9090}],
    },
}
BUDGET: Object = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": HOME},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
}
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/desched-evict"


class Ran(NamedTuple):
    """The end of a run of the doctor, and its checks by name."""

    code: int
    checks: Mapping[str, Object]
    stderr: str


class Clinic(Sites):
    """A small cluster that the doctor looks at with the rights of the Deployment."""

    def install_permissions(self, folder: str = "overlays/evict") -> None:
        """Those of the whole overlay."""
        super().install_permissions(folder)

    def doctor(self, *flags: str, **load_aware: Any) -> Ran:
        """One run with the flags of a service that evicts.

        Unlike the published policy, this one does not exclude `default`, which is a warning.
        """
        load_aware.setdefault("evictableNamespaces", {"exclude": ["batch"]})
        arguments = self.arguments("--evict", *flags, "--output", "json", **load_aware)
        ended = forks.run(["doctor", *arguments[len(COMMAND) :]])
        document = json.loads(ended.stdout) if ended.stdout else {"checks": []}
        checks = {check["name"]: check for check in document["checks"]}
        return Ran(ended.returncode, checks, ended.stderr)

    def finds(self, name: str, verdict: str, *flags: str, **load_aware: Any) -> Object:
        """The check once it has this verdict, for controllers and scrapes take their time."""
        seen: dict[str, Object] = {}

        def found() -> Object | None:
            seen.update(self.doctor(*flags, **load_aware).checks)
            return seen[name] if seen[name]["verdict"] == verdict else None

        check = wait_for(f"{name}: {verdict}", found, diagnosis=lambda: str(seen))
        assert check is not None
        return check


def ward() -> Site:
    site = Site(HOME)
    site.node("hot", uses="2600m")
    site.node("cool", "cold")
    site.workload("web", ("hot", "cool"), "400m", cpu_request="400m")
    return site


@pytest.fixture(scope="module")
def slow(running_control_plane: ControlPlane) -> Iterator[PrometheusServer]:
    """It starts first, because it needs two scrapes."""
    with running_control_plane.prometheus(f"{SLOW_SECONDS}s") as server:
        yield server


@pytest.fixture(scope="module")
def clinic(
    running_control_plane: ControlPlane,
    slow: PrometheusServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Clinic]:
    del slow
    directory: Path = tmp_path_factory.mktemp("clinic")
    with running_control_plane.prometheus() as prometheus:
        built = Clinic(running_control_plane, prometheus, directory)
        try:
            built.build(ward())
            yield built
        finally:
            running_control_plane.reset()


@contextmanager
def applied(clinic: Clinic, *manifests: Object) -> Iterator[None]:
    """Meanwhile the cluster has these, too."""
    clinic.plane.apply(*manifests)
    try:
        yield
    finally:
        for manifest in manifests:
            named = (f"{manifest['kind']}/{manifest['metadata']['name']}", "--wait=false")
            clinic.plane.kubectl("delete", "--namespace", HOME, *named)


def healthy(clinic: Clinic, *flags: str, **load_aware: Any) -> Ran:
    """The first run in which no scrape was late."""

    def safe() -> Ran | None:
        ran = clinic.doctor(*flags, **load_aware)
        last.append(ran)
        return ran if ran.code == 0 else None

    last: list[Ran] = []
    ran = wait_for("a cluster that is safe", safe, diagnosis=lambda: str(last[-1]))
    assert ran is not None
    return ran


def test_a_healthy_cluster_is_safe_to_start(clinic: Clinic) -> None:
    checks = healthy(clinic).checks

    assert [c for c in checks.values() if c["verdict"] not in {"ok", "skipped"}] == []
    young = [name for name, c in checks.items() if c["verdict"] == "skipped"]
    assert young == ["history"]  # these nodes have been there for minutes
    assert checks["matchers"]["found"].endswith("Prometheus has 2 of 2 sampled pods.")
    assert "matched by the label node (3)" in checks["node_cpu"]["found"]


def test_the_doctor_changes_nothing(clinic: Clinic) -> None:
    healthy(clinic)
    requests = clinic.plane.audit_events("desched-system", clinic.account["name"])

    asked = {(r["verb"], r["objectRef"].get("resource")) for r in requests if "objectRef" in r}
    assert {verb for verb, _ in asked} <= {"get", "list", "create"}
    created = {resource for verb, resource in asked if verb == "create"}
    assert created <= {"selfsubjectaccessreviews", "selfsubjectreviews"}


def test_without_prometheus_nothing_can_start(clinic: Clinic) -> None:
    (port,) = free_ports(1)
    check = clinic.finds("prometheus", "problem", "--prometheus-url", f"http://127.0.0.1:{port}")
    assert "cannot be reached" in check["found"]
    assert "--prometheus-url" in check["fix"]


def test_prometheus_is_found_by_its_service(clinic: Clinic) -> None:
    metrics = {"type": "prometheus"}
    with applied(clinic, SERVICE):
        check = clinic.finds("prometheus", "problem", metrics=metrics)

    assert f"the right to get services/proxy in namespace {HOME}" in check["found"]
    assert f"`kubectl --namespace {HOME} port-forward service/prometheus-server" in check["fix"]


def test_a_missing_right_is_found_with_what_grants_it(clinic: Clinic) -> None:
    rules = clinic.plane.get(ROLE)["rules"]
    clinic.plane.request("PATCH", ROLE, {"rules": []})
    try:
        check = clinic.finds("rights_evict", "problem")
    finally:
        clinic.plane.request("PATCH", ROLE, {"rules": rules})

    assert "create pods/eviction" in check["found"]
    assert "kubectl create clusterrolebinding my-desched-evict" in check["fix"]
    assert "the role is in deploy/overlays/evict-without-steering" in check["fix"]
    assert clinic.finds("rights_evict", "ok")


@pytest.fixture
def shared(clinic: Clinic) -> Iterator[PrometheusServer]:
    """A Prometheus that has nodes of the same names of another cluster."""
    foreign = [
        {
            "job_name": f"foreign-{exporter}",
            "http_sd_configs": [{"url": clinic.plane.metrics.discovery_url(exporter)}],
            "relabel_configs": [{"target_label": "cluster", "replacement": "us"}],
            "metric_relabel_configs": [{"source_labels": ["pod"], "regex": ".+", "action": "drop"}],
        }
        for exporter in EXPORTERS
    ]
    with clinic.plane.prometheus(more_jobs=foreign) as server:
        server.wait_until_has('count(node_cpu_seconds_total{cluster="us"} offset 12s)')
        yield server


def test_of_two_clusters_in_one_prometheus_this_one_is_told(
    clinic: Clinic, shared: PrometheusServer
) -> None:
    at = ("--prometheus-url", shared.url)

    def by(**matchers: str) -> Object:
        return {"type": "prometheus", "matchers": matchers}

    mixed = clinic.finds("matchers", "problem", *at)
    assert "data of 2 clusters by the label cluster" in mixed["found"]
    assert 'Set `metrics.matchers: {cluster: ""}`' in mixed["fix"]

    wrong = clinic.finds("matchers", "problem", *at, metrics=by(cluster="us"))
    assert "{cluster: us} select none of 2 sampled pods" in wrong["found"]
    assert 'Set `metrics.matchers: {cluster: ""}`' in wrong["fix"]

    healthy(clinic, *at, metrics=by(cluster=""))


def test_a_scrape_interval_that_is_too_long_is_found_with_windows_that_fit(
    clinic: Clinic, slow: PrometheusServer
) -> None:
    slow.wait_until_has("changes(timestamp(node_memory_MemTotal_bytes)[10m:15s]) > 1")
    check = clinic.finds("windows", "problem", "--prometheus-url", slow.url)

    assert "is too short for a scrape interval of" in check["found"]
    assert "Set `windows." in check["fix"]
    assert clinic.doctor("--prometheus-url", slow.url).code == 3


def test_a_budget_that_allows_nothing_is_found(clinic: Clinic) -> None:
    with applied(clinic, BUDGET):
        check = clinic.finds("budgets", "warning")

    assert "1 budget allows no eviction although all their pods are Ready; 2 pods" in check["found"]
    assert f"`kubectl --namespace {HOME} edit poddisruptionbudget web`" in check["fix"]


def test_another_descheduler_is_found(clinic: Clinic) -> None:
    other = deployment("vc-descheduler", 1, "0", HOME, nodeSelector={SITE: HOME})
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "volcanosh/vc-descheduler:1"
    with applied(clinic, other):
        check = clinic.finds("other_deschedulers", "warning")

    assert f"Volcano descheduler in {HOME}" in check["found"]
    assert f"kubectl --namespace {HOME} get deployments,cronjobs" in check["fix"]


def test_the_written_policy_plans_without_warnings(clinic: Clinic) -> None:
    path = clinic.directory / "written.yaml"
    write = ("--write-policy", str(path), "--force")

    ran = healthy(clinic, *write)
    assert f"Wrote {path}" in ran.stderr
    loaded = load_policy(path)
    assert loaded.warnings == ()
    assert loaded.policy.metrics.address == clinic.prometheus.url
    assert "nodes is at 7" in path.read_text()  # the hot node has 75 % of CPU

    plan = ("plan", "--policy", str(path), "--kubeconfig", str(clinic.kubeconfig))

    def planned() -> Object | None:
        ended = forks.run([*plan, "--output", "json"])
        logged.append(ended.stderr)
        return json.loads(ended.stdout) if ended.returncode == 0 else None

    logged: list[str] = []
    report = wait_for("a plan", planned, diagnosis=lambda: str(logged))
    assert report is not None
    assert report["plan"]["hold"] is None
    assert "warning" not in logged[-1]
    assert ALONE not in plan
