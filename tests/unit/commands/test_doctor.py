"""The doctor to the last request: what it asks, what it makes of failures, and what it writes."""

import json
from typing import Any

import pytest
import yaml

from desched.adapters.kubernetes.client.access import FEATURES, LIST_PODS, PATCH_NODE
from desched.adapters.prometheus.queries import CPU_MODES
from desched.api_objects.access import Access
from desched.bootstrap import load_source
from desched.commands.doctor import Output, diagnosed
from desched.doctor import questions, replayed_price
from desched.doctor.checks import CheckName
from desched.doctor.node_autoscalers import (
    GET_STATUS,
    STATUS_NAME,
    STATUS_NAMESPACE,
)
from desched.doctor.price import ProposedPrice
from desched.doctor.proposed_policy import STARTING_POLICY
from desched.doctor.questions import feature_rights
from desched.errors import ConfigurationError
from desched.policy_file.loading import load_policy
from desched.settings import load_settings
from tests.repository import ROOT
from tests.unit.adapters.kubernetes.fake_api_server import FakeApiServer, Reply, status
from tests.unit.adapters.prometheus.fake_server import (
    Asked,
    FakePrometheus,
    by_parts,
    refusal,
    vector,
)
from tests.unit.adapters.prometheus.test_reader import kind_of

NOTHING = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
ACCOUNT = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NO_FILE = Output()
OLD = "2020-01-01T00:00:00Z"
NODE: dict[str, Any] = {
    "metadata": {"name": "n-a", "uid": "u", "creationTimestamp": OLD, "labels": {}},
    "spec": {},
    "status": {
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"operatingSystem": "linux"},
    },
}
POD = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "p",
        "creationTimestamp": OLD,
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}],
    },
    "spec": {"nodeName": "n-a", "containers": [{"name": "app"}]},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
CHART: dict[str, Any] = {
    "metadata": {
        "name": "prometheus-server",
        "namespace": "monitoring",
        "labels": {
            "app.kubernetes.io/name": "prometheus",
            "app.kubernetes.io/component": "server",
        },
    },
    "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 9090}]},
}
PROXY = "/api/v1/namespaces/monitoring/services/http:prometheus-server:80/proxy"


class Cluster:
    """A cluster of one node, where everything is allowed and nothing is stored yet."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.denied: set[tuple[str, str]] = set()
        self.refused: set[str] = set()
        self.served: dict[str, Any] = {"kind": "APIGroupList", "groups": []}
        self.config_maps: set[str] = set()  # paths
        self.prometheus = Prometheus()
        server.lists["/api/v1/nodes"] = [NODE]
        server.lists["/api/v1/pods"] = [POD]
        server.answer = self.answer

    def as_alice(self, request):
        if request.path == ACCOUNT:
            return Reply(201, {"status": {"userInfo": {"username": "alice@example.com"}}})
        return self.answer(request)

    def answer(self, request):
        if request.path == REVIEWS:
            asked = request.body["spec"]["resourceAttributes"]
            named = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
            allowed = (asked["verb"], named) not in self.denied
            return Reply(201, {"status": {"allowed": allowed}})
        if request.path in self.refused:
            return status(403, "no")
        if request.path == "/apis":
            return Reply(200, self.served)
        if "/configmaps/" in request.path or request.path.endswith("/status/config"):
            found = request.path in self.config_maps
            return Reply(200, {"kind": "ConfigMap"}) if found else status(404, "not found")
        if request.path.startswith(PROXY) and "query" in request.query:
            asked = Asked(request.path, request.query["query"], request.headers, ("", 0))
            reply = by_parts(asked, self.prometheus)
            return Reply(reply.status, reply.body, reply.headers)
        return None


VALUES = {
    "cpu": 0.5,
    "memory": 0.4,
    "age": 10,
    "memory_age": 10,
    "interval": 30,
    "covered": 10,
    "memory_covered": 10,
    "memory_interval": 30,
    "root_interval": 30,
    "pods": 0.5,
    "pod_memory": 2e9,
}


class Prometheus:
    """One node at half load with one pod, and enough samples."""

    def __call__(self, asked):
        query = asked.query
        if query == "vector(1)":
            return vector(({}, 1.0))
        if asked.path.endswith("query_range"):
            return vector()._replace(body=NOTHING)
        if query.startswith("count by (mode)"):
            return vector(*(({"mode": mode}, 1.0) for mode in CPU_MODES))
        if query.startswith("count by"):
            return vector(({}, 1.0))
        value = VALUES.get(kind_of(query))
        labels = {"node": "n-a", "namespace": "shop", "pod": "web-1"}
        return vector() if value is None else vector((labels, value))


@pytest.fixture
def cluster():
    with FakeApiServer() as server:
        yield Cluster(server)


@pytest.fixture
def prometheus():
    with FakePrometheus() as fake:
        fake.answer = Prometheus()
        yield fake


@pytest.fixture(autouse=True)
def _at_the_time_of_the_fakes(mocker):
    """Both fakes have fixed clocks, which is none of these tests' business."""
    mocker.patch.object(questions, "lead_seconds", autospec=True, return_value=0.0)


@pytest.fixture
def run(cluster, kubeconfig, monkeypatch, capsys):
    """Runs the doctor from a laptop, and returns its document by the names of the checks."""
    for variable in ("DESCHED_PROMETHEUS_URL", "DESCHED_POLICY"):
        monkeypatch.delenv(variable, raising=False)

    def run(output=NO_FILE, **flags):
        flags = {"kubeconfig": kubeconfig(cluster.server.url), "output": "json", **flags}
        diagnosis = diagnosed(load_settings(flags), output)
        printed = capsys.readouterr()
        document = json.loads(printed.out)
        document["diagnosis"], document["stderr"] = diagnosis, printed.err
        return document | {check["name"]: check for check in document["checks"]}

    return run


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(STARTING_POLICY)
    return str(path)


def test_where_all_is_well_it_is_safe_to_start(run, prometheus, policy):
    found = run(prometheus_url=prometheus.url, policy=policy)

    bad = {n: c for n, c in found.items() if n in set(CheckName) and c["verdict"] == "problem"}
    assert bad == {}
    assert found["safe_to_start"]
    assert found["node_cpu"]["found"].startswith("1 of 1 node by node_exporter")


def test_nothing_is_changed_in_the_cluster(run, cluster, prometheus, policy, tmp_path):
    run(Output(tmp_path / "new.yaml"), prometheus_url=prometheus.url, policy=policy)

    written = [r for r in cluster.server.requests if r.method != "GET"]
    assert {(r.method, r.path) for r in written} == {("POST", REVIEWS)}


def test_every_right_is_asked_for_where_it_is_needed(run, cluster, policy):
    run(policy=policy, state_namespace="ops")

    reviews = [r.body for r in cluster.server.requests if r.path == REVIEWS]
    asked = [body["spec"]["resourceAttributes"] for body in reviews]
    of_autoscaler = [each for each in asked if each.get("name") == STATUS_NAME]
    assert len(of_autoscaler) == 1
    assert len(asked) - 1 == sum(len(feature.rights) for feature in FEATURES)
    places = {(a["verb"], a["resource"], a.get("namespace"), a.get("name")) for a in asked}
    assert ("list", "pods", None, None) in places
    assert ("get", "configmaps", "ops", "desched-state") in places
    assert ("create", "configmaps", "ops", None) in places
    assert ("patch", "leases", "ops", "desched") in places
    assert ("get", "pods", "elsewhere", None) in places
    assert {"pods/eviction"}.isdisjoint(a["resource"] for a in asked)


def test_a_missing_right_names_its_feature(run, cluster, policy):
    cluster.denied = {("watch", "pods"), ("patch", "nodes"), ("create", "pods/eviction")}
    found = run(policy=policy)

    assert found["rights_watch"]["verdict"] == "problem"
    assert "may not watch pods" in found["rights_watch"]["found"]
    assert found["rights_evict"]["verdict"] == "skipped"
    assert found["rights_plan"]["verdict"] == "ok"
    assert run(policy=policy, evict="true")["rights_evict"]["verdict"] == "problem"


def test_rights_are_asked_for_the_pod_groups_that_the_cluster_has(run, cluster, policy):
    """X3: the API server says which systems it has; priorityclasses are in a group of PodGroups."""
    groups = {
        "scheduling.volcano.sh": "v1beta1",
        "scheduling.run.ai": "v9",
        "scheduling.k8s.io": "v1",
    }
    cluster.denied = {("watch", "podgroups")}
    cluster.served["groups"] = [
        {"name": g, "versions": [{"version": v}]} for g, v in groups.items()
    ]
    check = run(policy=policy, once="false")["pod_groups"]

    assert check["verdict"] == "warning"
    assert "has Volcano, but the account may not watch podgroups" in check["found"]
    reviews = [r.body for r in cluster.server.requests if r.path == REVIEWS]
    asked = [body["spec"]["resourceAttributes"] for body in reviews]
    of_groups = [(a["verb"], a["group"]) for a in asked if a["resource"] == "podgroups"]
    assert of_groups == [("list", "scheduling.volcano.sh"), ("watch", "scheduling.volcano.sh")]


def test_rights_are_asked_for_the_topologies_and_model_caches_that_the_cluster_has(
    run, cluster, policy
):
    groups = {"kueue.x-k8s.io": "v1beta1", "serving.kserve.io": "v1alpha1"}
    cluster.denied = {("list", "topologies"), ("list", "localmodelcaches")}
    cluster.served["groups"] = [
        {"name": g, "versions": [{"version": v}]} for g, v in groups.items()
    ]
    checks = run(policy=policy)

    assert "has Kueue, but the account may not list topologies" in checks["networks"]["found"]
    assert "has KServe, but the account may not list" in checks["model_caches"]["found"]


DRAINING = """
  - name: GpuFragmentation
    args:
      demand:
        namespaces: [train]
  plugins:
    balance:
      enabled: [LoadAware, GpuFragmentation]
"""


def test_autoscalers_that_run_elsewhere_are_found_at_the_api_server(run, cluster, tmp_path):
    text = (ROOT / "policies" / "cpu-only.yaml").read_text()
    policy = tmp_path / "policy.yaml"
    policy.write_text(text[: text.index("\n  plugins:")] + DRAINING)
    cluster.served["groups"] = [{"name": "karpenter.sh", "versions": [{"version": "v1"}]}]
    cluster.config_maps = {GET_STATUS.path(STATUS_NAMESPACE, STATUS_NAME)}
    found = run(policy=str(policy))["held_nodes"]["found"]

    assert "beside Karpenter (by the API group karpenter.sh), cluster-autoscaler (by" in found
    assert "ConfigMap kube-system/cluster-autoscaler-status)" in found
    cluster.denied = {("get", "configmaps")}
    assert "cluster-autoscaler" not in run(policy=str(policy))["held_nodes"]["found"]


def test_without_the_list_of_api_groups_nothing_is_said_of_pod_groups(run, cluster, policy):
    cluster.refused = {"/apis"}
    check = run(policy=policy)["pod_groups"]

    assert (check["verdict"], check["found"]) == (
        "warning",
        "The API server does not list its API groups.",
    )


@pytest.mark.parametrize("answer", [True, False, None])
def test_the_rights_of_a_feature_are_told_apart(answer):
    feature = FEATURES[0]._replace(rights=(LIST_PODS, PATCH_NODE))
    found = feature_rights(feature, "ops", [True, answer])
    expected = {True: ((), ()), False: (("patch nodes",), ()), None: ((), ("patch nodes",))}
    assert (found.missing, found.unanswered) == expected[answer]
    assert found.namespace == "ops"


def test_no_two_features_share_a_right():
    rights = [(feature.where, access) for feature in FEATURES for access in feature.rights]
    assert len(rights) == len(set(rights))
    assert all(isinstance(access, Access) for _, access in rights)


def test_prometheus_is_discovered_and_read_through_the_api_server(run, cluster, mocker):
    mocker.patch.object(load_source, "_resolves", autospec=True, return_value=False)
    cluster.server.lists["/api/v1/services"] = [CHART]
    found = run()

    assert found["prometheus"]["verdict"] == "ok"
    assert "http://prometheus-server.monitoring.svc:80" in found["prometheus"]["found"]
    assert "Service monitoring/prometheus-server" in found["prometheus"]["found"]
    assert "port-forward service/prometheus-server 9090:80" in found["prometheus"]["fix"]
    assert found["node_memory"]["found"].startswith("1 of 1 node by node_exporter")
    assert found["policy"]["verdict"] == "warning"
    assert found["safe_to_start"]


def test_a_discovered_prometheus_never_gets_credentials(run, cluster, mocker, monkeypatch):
    mocker.patch.object(load_source, "_resolves", autospec=True, return_value=False)
    monkeypatch.setenv("DESCHED_PROMETHEUS_BEARER_TOKEN", "t0ken")
    cluster.server.lists["/api/v1/services"] = [CHART]
    found = run()

    assert found["prometheus"]["verdict"] == "problem"
    assert "credentials are not sent to what is found" in found["prometheus"]["found"]
    assert "--prometheus-url http://prometheus-server" in found["prometheus"]["fix"]
    assert not [path for path in cluster.server.paths() if path.startswith(PROXY)]
    assert not any("t0ken" in str(r.headers) for r in cluster.server.requests)


def test_of_several_the_first_with_data_of_the_nodes_is_read(run, cluster, mocker):
    mocker.patch.object(load_source, "_resolves", autospec=True, return_value=False)
    empty = {**CHART, "metadata": {**CHART["metadata"], "namespace": "a-first"}}
    cluster.server.lists["/api/v1/services"] = [empty, CHART]
    found = run()

    assert "monitoring/prometheus-server" in found["prometheus"]["found"]
    assert found["prometheus"]["verdict"] == "warning"
    assert any("a-first" in line for line in found["prometheus"]["details"])


def test_without_any_prometheus_that_is_the_problem_and_no_other(run):
    found = run()

    verdicts = {c["name"]: c["verdict"] for c in found["checks"]}
    assert [name for name, verdict in verdicts.items() if verdict == "problem"] == ["prometheus"]
    assert verdicts["rights_plan"] == verdicts["budgets"] == "ok"
    assert verdicts["node_cpu"] == "skipped"


def test_without_an_api_server_prometheus_is_asked_none_the_less(run, cluster, prometheus, policy):
    cluster.server.answer = lambda _: Reply(500, b"down")
    found = run(prometheus_url=prometheus.url, policy=policy, api_server_timeout="1s")

    assert found["api_server"]["verdict"] == "problem"
    assert found["prometheus"]["verdict"] == "ok"
    assert found["policy"]["verdict"] == "ok"
    assert found["rights_plan"]["verdict"] == found["clocks"]["verdict"] == "skipped"


def test_a_list_that_is_refused_leaves_the_other_answers(run, cluster, prometheus, policy):
    cluster.refused = {"/api/v1/persistentvolumes"}
    found = run(prometheus_url=prometheus.url, policy=policy)

    assert found["cluster"]["verdict"] == "unknown"
    assert "may not list persistentvolumes" in found["cluster"]["found"]
    assert found["prometheus"]["verdict"] == found["state"]["verdict"] == "ok"
    assert found["node_cpu"] == found["node_cpu"] | {
        "verdict": "skipped",
        "found": "The cluster could not be read.",
    }


def test_a_query_that_fails_leaves_the_other_measures(run, prometheus, policy):
    good = Prometheus()
    prometheus.answer = lambda asked: (
        refusal(422, error="too many") if "container_memory" in asked.query else good(asked)
    )
    found = run(prometheus_url=prometheus.url, policy=policy)

    assert found["node_cpu"]["verdict"] == "ok"
    assert "too many" in found["pod_memory"]["found"]
    assert found["nodes"]["verdict"] == "problem"
    assert "too many" in found["nodes"]["found"]


def test_a_state_that_cannot_be_read_is_unknown_to_a_run_that_evicts(
    run, cluster, prometheus, policy
):
    cluster.refused = {"/api/v1/namespaces/desched-system/configmaps/desched-state"}
    flags = {"prometheus_url": prometheus.url, "policy": policy}

    assert run(**flags)["state"]["verdict"] == "warning"
    assert run(**flags, evict="true")["state"]["verdict"] == "unknown"


def test_an_invalid_policy_is_a_problem_that_hides_no_other(run, prometheus, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(STARTING_POLICY.replace("thresholds:", "tresholds:"))
    found = run(prometheus_url=prometheus.url, policy=str(path))

    assert found["diagnosis"].is_invalid
    assert "tresholds" in found["policy"]["found"]
    assert found["node_cpu"]["verdict"] == "ok"
    assert found["thresholds"]["verdict"] == "skipped"


def by_metrics_server(cluster, tmp_path):
    """A policy for metrics-server, which knows the node; its file."""
    usage = {"metadata": {"name": "n-a"}, "timestamp": OLD, "window": "10s"}
    cluster.server.lists["/apis/metrics.k8s.io/v1beta1/nodes"] = [
        usage | {"usage": {"cpu": "2", "memory": "4Gi"}}
    ]
    cluster.server.lists["/apis/metrics.k8s.io/v1beta1/pods"] = []
    path = tmp_path / "policy.yaml"
    path.write_text(STARTING_POLICY.replace("{type: prometheus}", "{type: metrics-server}"))
    return str(path)


def test_an_address_of_prometheus_beside_a_policy_for_metrics_server_is_a_problem_in_the_table(
    run, cluster, prometheus, tmp_path
):
    policy = by_metrics_server(cluster, tmp_path)
    assert "metrics-server, which answers" in run(policy=policy)["prometheus"]["found"]
    found = run(policy=policy, prometheus_url=prometheus.url)
    assert found["diagnosis"].is_invalid
    assert "(DESCHED_PROMETHEUS_URL) is set but not used" in found["prometheus"]["found"]
    assert "Remove the setting" in found["prometheus"]["fix"]
    assert found["policy"]["verdict"] == "ok"
    assert not prometheus.asked
    assert any("metrics.k8s.io" in each.path for each in cluster.server.requests)


def test_contradictory_credentials_are_invalid_configuration(run, policy, monkeypatch):
    monkeypatch.setenv("DESCHED_PROMETHEUS_BEARER_TOKEN", "t0ken")
    url = "https://127.0.0.1:1/x"
    found = run(prometheus_url=url, prometheus_username="me", policy=policy)

    assert found["diagnosis"].is_invalid
    assert "Several credentials" in found["prometheus"]["found"]


def test_no_credentials_are_printed(run, policy, monkeypatch):
    monkeypatch.setenv("DESCHED_PROMETHEUS_BEARER_TOKEN", "t0ken")
    found = run(prometheus_url="http://user@127.0.0.1:1", policy=policy)
    text = json.dumps([found["checks"], found["stderr"]])
    assert "t0ken" not in text
    assert "s3cr3t" not in text
    assert "user@" not in text


def test_clusters_in_one_prometheus_lead_to_matchers_and_a_second_look(run, prometheus, tmp_path):
    def answer(asked):
        if asked.query.startswith("count by") and "(mode)" not in asked.query:
            return vector(({"cluster": "eu"}, 1.0))
        of_cpu = "node_cpu_seconds_total" in asked.query
        selected = 'cluster="eu"' in asked.query or asked.path.endswith("query_range")
        if not of_cpu or selected:
            return Prometheus()(asked)
        value = VALUES.get(kind_of(asked.query))
        if value is None:
            return vector()
        return vector(*(({"node": "n-a", "cluster": c}, value) for c in ("eu", "us")))

    prometheus.answer = answer
    path = tmp_path / "new.yaml"
    found = run(Output(path), prometheus_url=prometheus.url)

    assert load_policy(path).policy.metrics.matchers == {"cluster": "eu"}
    assert found["matchers"]["verdict"] == "ok"
    assert found["safe_to_start"]


def test_the_written_policy_is_the_one_that_was_checked(run, prometheus, tmp_path):
    path = tmp_path / "new.yaml"
    found = run(Output(path), prometheus_url=prometheus.url)

    loaded = load_policy(path)
    assert loaded.warnings == ()
    assert loaded.policy.metrics.address == prometheus.url
    assert "5m for cpu" in found["windows"]["found"]
    assert found["stderr"].startswith(f"desched: Wrote {path}. Try it with `desched plan --policy")
    assert "The fullest of 1 nodes is at 50 % today." in path.read_text()


def test_a_price_by_the_past_is_written_with_its_reason_and_is_the_one_that_was_checked(
    run, prometheus, tmp_path, mocker
):
    shown = ProposedPrice(10.0, ("10m is the highest that avoids enough.",))
    asked = mocker.patch.object(replayed_price, "replayed_price", autospec=True, return_value=shown)
    path = tmp_path / "new.yaml"
    found = run(Output(path), prometheus_url=prometheus.url)

    assert load_policy(path).policy.eviction_price_minutes == 10.0
    assert f"      # {shown.why[0]}\n      evictionPrice: 10m\n" in path.read_text()
    assert found["stderr"].endswith(f"desched: evictionPrice: {shown.why[0]}\n")
    (call,) = asked.call_args_list
    assert call.args[0].prometheus_url == prometheus.url
    assert call.args[2] == 1

    run(prometheus_url=prometheus.url)  # nothing is written
    own = tmp_path / "own.yaml"
    own.write_text(path.read_text().replace("evictionPrice: 10m", "evictionPrice: 7m"))
    run(Output(path, force=True), prometheus_url=prometheus.url, policy=str(own))
    assert load_policy(path).policy.eviction_price_minutes == 7.0
    assert asked.call_count == 1


def test_a_discovered_prometheus_is_the_one_whose_past_is_replayed(run, cluster, tmp_path, mocker):
    cluster.server.lists["/api/v1/services"] = [CHART]
    asked = mocker.patch.object(
        replayed_price, "replayed_price", autospec=True, return_value=ProposedPrice(10.0, ())
    )
    run(Output(tmp_path / "new.yaml"))
    (call,) = asked.call_args_list
    assert call.args[1].metrics.address == "http://prometheus-server.monitoring.svc:80"


def test_without_a_past_the_default_price_is_written_and_said(run, prometheus, tmp_path):
    path = tmp_path / "new.yaml"
    found = run(Output(path), prometheus_url=prometheus.url)

    why = "The default: the last day cannot be replayed ("
    assert f"desched: evictionPrice: {why}" in found["stderr"]
    assert f"# {why}" in path.read_text()
    assert load_policy(path).policy.eviction_price_minutes == 5.0


def test_without_the_lab_the_default_price_is_written(run, prometheus, tmp_path, mocker):
    mocker.patch.object(questions, "has_annex", autospec=True, return_value=False)
    replayed = mocker.patch.object(replayed_price, "replayed_price", autospec=True)
    path = tmp_path / "new.yaml"
    found = run(Output(path), prometheus_url=prometheus.url)

    why = "The default: this installation leaves out desched.lab, which replays the past."
    assert f"desched: evictionPrice: {why}" in found["stderr"]
    assert load_policy(path).policy.eviction_price_minutes == 5.0
    assert not replayed.called


def test_an_existing_file_is_replaced_only_by_force(run, cluster, prometheus, tmp_path):
    path = tmp_path / "new.yaml"
    path.write_text("mine")
    with pytest.raises(ConfigurationError, match="--force"):
        run(Output(path), prometheus_url=prometheus.url)
    assert path.read_text() == "mine"
    assert not cluster.server.requests

    run(Output(path, force=True), prometheus_url=prometheus.url)
    assert load_policy(path)


def test_without_a_prometheus_no_policy_is_written(run, tmp_path):
    with pytest.raises(ConfigurationError, match="no Prometheus was found"):
        run(Output(tmp_path / "new.yaml"))
    assert not (tmp_path / "new.yaml").exists()


def test_a_file_that_cannot_be_written_is_an_error(run, prometheus, tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be written"):
        run(Output(tmp_path / "missing" / "new.yaml"), prometheus_url=prometheus.url)


def test_the_account_and_the_mode_are_those_of_the_run(run, policy):
    assert run(policy=policy)["mode"] == "dry_run"
    assert run(policy=policy, evict="true")["mode"] == "evict"
    assert run(policy=policy)["target"].startswith('context "lab"')


FORGED = {**CHART, "metadata": {**CHART["metadata"], "namespace": "tenant"}}


@pytest.fixture
def by_stack(mocker, tmp_path):
    """A policy that names the stack in place of the address."""
    mocker.patch.object(load_source, "_resolves", autospec=True, return_value=False)
    document = yaml.safe_load(STARTING_POLICY)
    args = document["profiles"][0]["pluginConfig"][0]["args"]
    args["metrics"] = {
        "type": "prometheus",
        "stack": "prometheus-chart",
        "namespace": "monitoring",
    }
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_the_stack_of_the_policy_is_read_and_stays_in_the_proposal(
    run, cluster, by_stack, tmp_path
):
    cluster.server.lists["/api/v1/services"] = [CHART, FORGED]
    found = run(Output(tmp_path / "new.yaml"), policy=by_stack)

    assert found["prometheus"]["verdict"] == "ok"
    assert "http://prometheus-server.monitoring.svc:80" in found["prometheus"]["found"]
    assert "from metrics.stack, prometheus chart" in found["prometheus"]["found"]
    proposed = load_policy(tmp_path / "new.yaml").policy.metrics
    assert (proposed.address, proposed.stack, proposed.namespace) == (
        "",
        "prometheus-chart",
        "monitoring",
    )


def test_a_tenants_service_is_not_read_in_place_of_the_stack(run, cluster, by_stack):
    cluster.server.lists["/api/v1/services"] = [FORGED]
    found = run(policy=by_stack)

    assert found["prometheus"]["verdict"] == "problem"
    assert (
        "No Service of the stack prometheus chart is in namespace monitoring"
        in (found["prometheus"]["found"])
    )
    assert "metrics.namespace" in found["prometheus"]["fix"]
    assert not [path for path in cluster.server.paths() if "/proxy" in path]


def test_an_account_that_may_read_nothing_is_named_in_the_bindings_that_let_it(
    run, cluster, policy
):
    cluster.server.answer = cluster.as_alice
    cluster.denied = {(access.verb, access.resource) for f in FEATURES for access in f.rights}
    cluster.refused = {access.path() for f in FEATURES for access in f.rights}
    found = run(policy=policy)

    assert (
        "`kubectl create clusterrolebinding my-desched --clusterrole=desched "
        "--user=alice@example.com` (the role is in deploy/base/rbac.yaml)."
    ) in found["rights_plan"]["fix"]
    assert (
        "`kubectl create rolebinding my-desched-state --namespace desched-system "
        "--role=desched-state --user=alice@example.com`"
    ) in found["rights_state"]["fix"]
    advice = "\n".join(found[name]["fix"] for name in CheckName)
    assert "apply -k" not in advice
    assert advice.count("--user=alice@example.com") == advice.count("the role is in")


def test_while_a_policy_is_written_nobody_is_told_to_write_one(run, prometheus, tmp_path):
    path = tmp_path / "new.yaml"
    found = run(Output(path), prometheus_url=prometheus.url)

    assert found["policy"]["verdict"] == "ok"
    assert f"the policy that {path} gets" in found["policy"]["found"]
    assert "--write-policy" not in "".join(found[name]["fix"] for name in CheckName)
    assert load_policy(path).policy.rules
