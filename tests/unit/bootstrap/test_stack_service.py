"""A policy names a stack in place of an address, and its Service is read."""

from typing import Any

import msgspec
import pytest

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.bootstrap import stack_service
from desched.bootstrap.load_source import LoadSource
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.lab.clock import VirtualClock
from desched.lab.demo import demo_policy
from desched.model.cluster import ClusterState
from desched.policy.policy import MetricsSource, Policy, PrometheusStack
from desched.settings import load_settings
from tests.unit.adapters.kubernetes.fake_api_server import FakeApiServer, account, status

SERVICES = "/api/v1/services"
CLUSTER = ClusterState((), ())
APP = "app.kubernetes.io/"
OPENSHIFT = "https://thanos-querier.openshift-monitoring.svc:9091"


def service(namespace: str, of: str, port: int, **labels: str) -> dict[str, Any]:
    named = {APP + key.replace("_", "-"): value for key, value in labels.items()}
    metadata = {"name": of, "namespace": namespace, "labels": named}
    return {"metadata": metadata, "spec": {"ports": [{"name": "web", "port": port}]}}


CHART = service("mon", "prometheus", 80, name="prometheus", component="server")
MIMIR = service("mon", "mimir", 80, name="mimir", component="gateway")
QUERIER = service(
    "openshift-monitoring",
    "thanos-querier",
    9091,
    name="thanos-query",
    part_of="openshift-monitoring",
)
FORGED = service("tenant", "forged", 9091, name="thanos-query", part_of="openshift-monitoring")


def by(stack: PrometheusStack, namespace: str = "mon", tenant: str = "") -> Policy:
    source = MetricsSource("", stack=stack, namespace=namespace, tenant=tenant)
    return msgspec.structs.replace(demo_policy(), metrics=source)


BY_CHART = by(PrometheusStack.PROMETHEUS_CHART)
BY_OPENSHIFT = by(PrometheusStack.OPENSHIFT, "openshift-monitoring")


@pytest.fixture
def reader(mocker):
    return mocker.patch("desched.bootstrap.load_source.PrometheusLoadReader", autospec=True)


@pytest.fixture
def account_files(tmp_path, monkeypatch):
    """A pod's files on OpenShift."""
    for name in ("token", "service-ca.crt"):
        (tmp_path / name).write_text("x")
    monkeypatch.setattr(stack_service, "ACCOUNT_FILES", tmp_path)
    return tmp_path


def source(server: FakeApiServer, *, in_cluster: bool = True, **flags: object) -> LoadSource:
    kubernetes = KubernetesConnection(lambda: account(server.url))
    kubernetes.in_cluster = in_cluster
    return LoadSource(load_settings(flags), kubernetes, VirtualClock())


def connections(reader):
    return [call.args[0] for call in reader.call_args_list]


def test_the_service_of_the_stack_is_read_and_kept(server, reader):
    server.lists[SERVICES] = [CHART, MIMIR]
    load = source(server)
    load.read_load(CLUSTER, BY_CHART)
    load.read_load(CLUSTER, BY_CHART)
    [connection] = connections(reader)
    assert connection.address == "http://prometheus.mon.svc:80"
    assert connection.credentials == ()
    assert sum(request.path == SERVICES for request in server.requests) == 1


def test_it_is_found_anew_after_a_failure(server, reader):
    server.lists[SERVICES] = [CHART]
    load = source(server)
    failure = ObservationError(ObservationSource.PROMETHEUS, "It cannot be reached.")
    reader.return_value.read_load.side_effect = failure
    with pytest.raises(ObservationError):
        load.read_load(CLUSTER, BY_CHART)
    moved = service("mon", "moved", 80, name="prometheus", component="server")
    server.lists[SERVICES] = [moved]
    reader.return_value.read_load.side_effect = None
    load.read_load(CLUSTER, BY_CHART)
    assert connections(reader)[-1].address == "http://moved.mon.svc:80"


def test_the_setting_overrides_the_stack(server, reader):
    source(server, prometheus_url="http://127.0.0.1:9090").read_load(CLUSTER, BY_CHART)
    assert [each.address for each in connections(reader)] == ["http://127.0.0.1:9090"]
    assert not server.requests


def test_without_the_right_the_sentence_names_it_and_what_does_without(server):
    server.answer = lambda _: status(403, "forbidden")
    with pytest.raises(ObservationError, match="may not list services") as caught:
        source(server).read_load(CLUSTER, BY_CHART)
    assert "the right to list services; set metrics.address or --prometheus-url" in str(
        caught.value
    )


def test_the_tenant_is_sent_to_mimir(server, reader):
    server.lists[SERVICES] = [MIMIR]
    load = source(server)
    for tenant in ("team-a", "team-b"):
        load.read_load(CLUSTER, by(PrometheusStack.MIMIR, tenant=tenant))
    assert [each.headers for each in connections(reader)] == [
        {"X-Scope-OrgID": "team-a"},
        {"X-Scope-OrgID": "team-b"},
    ]
    assert connections(reader)[0].address == "http://mimir.mon.svc:80/prometheus"


def test_two_tenants_are_refused(server, tmp_path):
    server.lists[SERVICES] = [MIMIR]
    (tmp_path / "headers").write_text("x-scope-orgid: team-b")
    load = source(
        server,
        prometheus_headers_file=tmp_path / "headers",
        prometheus_trusted_addresses="http://mimir.mon.svc:80",
    )
    with pytest.raises(ConfigurationError, match="set twice"):
        load.read_load(CLUSTER, by(PrometheusStack.MIMIR, tenant="team-a"))


def test_openshift_gets_the_accounts_token_over_verified_tls(server, reader, account_files):
    server.lists[SERVICES] = [QUERIER, FORGED]
    source(server).read_load(CLUSTER, BY_OPENSHIFT)
    [connection] = connections(reader)
    assert connection.address == OPENSHIFT
    assert connection.bearer_token_file == account_files / "token"
    assert connection.ca_file == account_files / "service-ca.crt"
    assert not connection.insecure_skip_verify


@pytest.mark.usefixtures("account_files")
@pytest.mark.parametrize("stack", [PrometheusStack.AUTO, PrometheusStack.OPENSHIFT])
def test_a_service_with_openshifts_labels_elsewhere_gets_no_token(server, reader, stack):
    server.lists[SERVICES] = [FORGED]
    source(server).read_load(CLUSTER, by(stack, "tenant"))
    [connection] = connections(reader)
    assert connection.credentials == ()


@pytest.mark.usefixtures("account_files")
def test_without_verification_the_token_is_not_sent(server, reader):
    server.lists[SERVICES] = [QUERIER]
    load = source(server, prometheus_insecure_skip_verify="true")
    with pytest.raises(ConfigurationError, match="not sent without verifying"):
        load.read_load(CLUSTER, BY_OPENSHIFT)
    assert not reader.called


def test_from_outside_openshift_is_reached_by_its_route(server):
    server.lists[SERVICES] = [QUERIER]
    with pytest.raises(ConfigurationError, match="get route thanos-querier"):
        source(server, in_cluster=False).read_load(CLUSTER, BY_OPENSHIFT)


def test_credentials_of_the_settings_do_not_follow_a_stack(server, reader, monkeypatch):
    server.lists[SERVICES] = [CHART]
    monkeypatch.setenv("DESCHED_PROMETHEUS_BEARER_TOKEN", "s3cr3t")
    load = source(server, prometheus_allow_insecure_credentials="true")
    with pytest.raises(ConfigurationError, match="TRUSTED_ADDRESSES"):
        load.read_load(CLUSTER, BY_CHART)
    assert not reader.called


def test_a_stack_needs_a_cluster():
    load = LoadSource(load_settings({}), None, VirtualClock())
    with pytest.raises(ConfigurationError, match="needs a cluster"):
        load.read_load(CLUSTER, BY_CHART)
