import socket
import sys
from pathlib import Path

import msgspec
import pytest

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.bootstrap.load_samples import LoadSamples
from desched.bootstrap.load_source import LoadSource, prometheus_connection, through_proxy
from desched.errors import (
    ConfigurationError,
    ObservationError,
    ObservationSource,
    UnusableAnswer,
)
from desched.lab.clock import VirtualClock
from desched.lab.demo import demo_policy
from desched.model.cluster import ClusterState
from desched.policy.policy import MetricsSource, MetricsType, PrometheusStack
from desched.settings import load_settings
from tests.unit.adapters.kubernetes.fake_api_server import account

IN_CLUSTER = "http://prometheus-server.monitoring.svc:80/prom"
EXTERNAL = "https://prometheus.example.com"
CLUSTER = ClusterState((), ())


def policy_with(address):
    policy = demo_policy()
    return msgspec.structs.replace(
        policy, metrics=msgspec.structs.replace(policy.metrics, address=address)
    )


def connected(authorization="Bearer secret-token", **configuration):
    found = account("https://api:6443", authorization)
    for name, value in configuration.items():
        setattr(found.configuration, name, value)
    return KubernetesConnection(lambda: found)


@pytest.fixture
def kubernetes():
    return connected()


@pytest.fixture
def reader(mocker):
    return mocker.patch("desched.bootstrap.load_source.PrometheusLoadReader", autospec=True)


@pytest.fixture(autouse=True)
def lookup(mocker):
    """Name resolution on a laptop: names of the cluster are not known."""

    def resolve(host, port):
        if host.endswith(".svc"):
            raise socket.gaierror
        return [(host, port)]

    return mocker.patch("socket.getaddrinfo", side_effect=resolve)


def source(kubernetes, **flags):
    return LoadSource(load_settings(flags), kubernetes, VirtualClock())


def addresses(reader):
    return [call.args[0].address for call in reader.call_args_list]


def test_the_policy_names_prometheus(kubernetes, reader):
    source(kubernetes).read_load(CLUSTER, policy_with(EXTERNAL))
    assert addresses(reader) == [EXTERNAL]


def test_the_setting_overrides_the_policy(kubernetes, reader):
    settings = source(kubernetes, prometheus_url="http://127.0.0.1:9090")
    settings.read_load(CLUSTER, policy_with(EXTERNAL))
    assert addresses(reader) == ["http://127.0.0.1:9090"]


@pytest.fixture(params=["token", "password", "headers", "certificate"])
def credentials(request, tmp_path, monkeypatch):
    """Flags that make desched identify itself to Prometheus, one way at a time."""
    file = tmp_path / "secret"
    file.write_text("X-API-Key=s3cr3t")
    match request.param:
        case "token":
            monkeypatch.setenv("DESCHED_PROMETHEUS_BEARER_TOKEN", "s3cr3t")
            return {}
        case "password":
            return {"prometheus_username": "me", "prometheus_password_file": file}
        case "headers":
            return {"prometheus_headers_file": file}
        case _:
            return {"prometheus_client_cert_file": file}


def test_credentials_do_not_follow_an_address_of_the_policy(kubernetes, reader, credentials):
    load = source(kubernetes, prometheus_trusted_addresses=EXTERNAL, **credentials)
    with pytest.raises(ConfigurationError, match="TRUSTED_ADDRESSES") as caught:
        load.read_load(CLUSTER, policy_with("https://prometheus.example.com:8443"))
    assert "https://prometheus.example.com:8443" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    reader.assert_not_called()


def test_credentials_go_to_a_listed_address(kubernetes, reader, credentials):
    load = source(kubernetes, prometheus_trusted_addresses=f"http://a,{EXTERNAL}", **credentials)
    load.read_load(CLUSTER, policy_with(f"{EXTERNAL}/prom"))
    assert addresses(reader) == [f"{EXTERNAL}/prom"]


def test_credentials_go_to_the_address_of_the_settings(kubernetes, reader, credentials):
    load = source(kubernetes, prometheus_url=EXTERNAL, **credentials)
    load.read_load(CLUSTER, policy_with("https://evil.example.net"))
    assert addresses(reader) == [EXTERNAL]


def test_the_credentials_stay_with_the_last_good_address(kubernetes, reader, credentials):
    load = source(kubernetes, prometheus_trusted_addresses=EXTERNAL, **credentials)
    load.read_load(CLUSTER, policy_with(EXTERNAL))
    with pytest.raises(ConfigurationError):
        load.read_load(CLUSTER, policy_with("https://evil.example.net"))
    load.read_load(CLUSTER, policy_with(EXTERNAL))
    assert addresses(reader) == [EXTERNAL]
    reader.return_value.close.assert_not_called()


def test_an_address_in_neither_is_a_sentence(kubernetes):
    with pytest.raises(ConfigurationError, match=r"metrics\.address in the policy, or"):
        source(kubernetes).read_load(CLUSTER, policy_with(""))


def test_a_connection_lasts_until_the_address_changes(kubernetes, reader):
    load = source(kubernetes)
    load.read_load(CLUSTER, policy_with(EXTERNAL))
    load.read_load(CLUSTER, policy_with(EXTERNAL))
    assert reader.call_count == 1
    load.read_load(CLUSTER, policy_with("https://other.example.com"))
    assert addresses(reader) == [EXTERNAL, "https://other.example.com"]
    reader.return_value.close.assert_called_once()


def test_from_outside_a_service_is_reached_through_the_api_server(kubernetes, reader):
    source(kubernetes).read_load(CLUSTER, policy_with(IN_CLUSTER))
    proxy = "/api/v1/namespaces/monitoring/services/http:prometheus-server:80/proxy"
    assert addresses(reader) == [f"https://api:6443{proxy}/prom"]


def proxied(kubernetes):
    return through_proxy(prometheus_connection(load_settings({}), IN_CLUSTER), kubernetes)


def test_the_accounts_token_comes_along_but_is_not_printed(kubernetes):
    connection = proxied(kubernetes)
    assert connection.token_provider() == "secret-token"
    assert "secret-token" not in repr(connection)


def test_an_account_without_a_bearer_token_has_none_to_give():
    assert proxied(connected("Basic dXNlcjpwYXNz")).token_provider is None


def test_certificates_come_along(tmp_path):
    files = [tmp_path / name for name in ("ca.crt", "me.crt", "me.key")]
    for file in files:
        file.touch()
    names = ("ssl_ca_cert", "cert_file", "key_file")
    found = connected(**dict(zip(names, map(str, files), strict=True)))
    connection = proxied(found)
    assert [connection.ca_file, connection.client_cert_file, connection.client_key_file] == files
    assert not connection.insecure_skip_verify


def test_an_unverified_server_stays_unverified_and_needs_no_files():
    connection = proxied(connected(verify_ssl=False))
    assert connection.insecure_skip_verify
    assert connection.ca_file is connection.client_cert_file is connection.client_key_file is None


def test_where_the_proxy_does_not_help_the_port_forward_line_is_shown(kubernetes, reader):
    reader.return_value.read_load.side_effect = ObservationError(
        ObservationSource.PROMETHEUS, "Prometheus does not permit queries (HTTP 403)."
    )
    with pytest.raises(ObservationError) as caught:
        source(kubernetes).read_load(CLUSTER, policy_with(IN_CLUSTER))
    why, how = str(caught.value).splitlines()
    assert "HTTP 403" in why
    assert "services/proxy in namespace monitoring" in why
    assert "kubectl --namespace monitoring port-forward service/prometheus-server 9090:80" in how
    assert caught.value.source is ObservationSource.PROMETHEUS


def test_through_the_proxy_an_error_keeps_its_kind(kubernetes, reader):
    refused = UnusableAnswer(ObservationSource.PROMETHEUS, "Prometheus requires a tenant.")
    reader.return_value.read_load.side_effect = refused
    with pytest.raises(UnusableAnswer, match="requires a tenant"):
        source(kubernetes).read_load(CLUSTER, policy_with(IN_CLUSTER))


@pytest.mark.parametrize(
    ("flags", "where"),
    [
        ({}, f"metrics.address in {demo_policy().source}"),
        ({"prometheus_url": IN_CLUSTER}, "--prometheus-url (DESCHED_PROMETHEUS_URL)"),
    ],
)
def test_a_service_that_does_not_exist_is_reported_with_its_setting(
    kubernetes, reader, flags, where
):
    reader.return_value.read_load.side_effect = ObservationError(
        ObservationSource.PROMETHEUS,
        'Prometheus at x has no query API at this URL (HTTP 404); correct its path: services "'
        'prometheus-server" not found.',
    )
    with pytest.raises(ObservationError) as caught:
        source(kubernetes, **flags).read_load(CLUSTER, policy_with(IN_CLUSTER))
    assert str(caught.value) == (
        f"There is no Service prometheus-server in namespace monitoring; correct {where}."
    )


def test_in_a_cluster_the_address_is_used_as_it_is(kubernetes, reader, lookup):
    kubernetes.in_cluster = True
    source(kubernetes).read_load(CLUSTER, policy_with(IN_CLUSTER))
    assert addresses(reader) == [IN_CLUSTER]
    lookup.assert_not_called()


def test_a_name_that_resolves_from_here_needs_no_proxy(kubernetes, lookup):
    lookup.side_effect = None
    assert through_proxy(prometheus_connection(load_settings({}), IN_CLUSTER), kubernetes) is None


def test_credentials_for_prometheus_do_not_go_through_the_api_server(kubernetes, monkeypatch):
    monkeypatch.setenv("DESCHED_PROMETHEUS_BEARER_TOKEN", "s3cr3t")
    settings = load_settings({"prometheus_allow_insecure_credentials": "true"})
    with pytest.raises(ConfigurationError, match="port-forward") as caught:
        through_proxy(prometheus_connection(settings, IN_CLUSTER), kubernetes)
    assert "s3cr3t" not in str(caught.value)


def test_all_settings_for_prometheus_arrive(tmp_path):
    for name in ("token", "cert", "key", "ca", "headers"):
        (tmp_path / name).write_text("X-Scope-OrgID=team-a\n")
    settings = load_settings(
        {
            "prometheus_bearer_token_file": tmp_path / "token",
            "prometheus_client_cert_file": tmp_path / "cert",
            "prometheus_client_key_file": tmp_path / "key",
            "prometheus_ca_file": tmp_path / "ca",
            "prometheus_headers_file": tmp_path / "headers",
            "prometheus_insecure_skip_verify": "true",
            "prometheus_timeout": "7s",
        }
    )
    connection = prometheus_connection(settings, EXTERNAL)
    assert connection.bearer_token_file == tmp_path / "token"
    assert connection.client_cert_file == tmp_path / "cert"
    assert connection.client_key_file == tmp_path / "key"
    assert connection.ca_file == tmp_path / "ca"
    assert connection.headers == {"X-Scope-OrgID": "team-a"}
    assert connection.insecure_skip_verify
    assert connection.total_timeout_seconds == 7


def test_the_password_may_be_in_a_file(tmp_path):
    (tmp_path / "password").write_text("from-file\n")
    settings = load_settings(
        {"prometheus_username": "me", "prometheus_password_file": tmp_path / "password"}
    )
    connection = prometheus_connection(settings, EXTERNAL)
    assert connection.basic_credentials == ("me", "from-file")


@pytest.mark.parametrize("field", ["prometheus_password_file", "prometheus_headers_file"])
def test_a_file_that_is_missing_is_named(field):
    settings = load_settings({"prometheus_username": "me", field: Path("/no/such/file")})
    with pytest.raises(ConfigurationError, match="/no/such/file, cannot be read"):
        prometheus_connection(settings, EXTERNAL)


def test_a_headers_file_that_is_none_is_refused_without_repeating_it(tmp_path):
    (tmp_path / "headers").write_text("s3cr3t")
    settings = load_settings({"prometheus_headers_file": tmp_path / "headers"})
    with pytest.raises(ConfigurationError, match="must be like") as caught:
        prometheus_connection(settings, EXTERNAL)
    assert "s3cr3t" not in str(caught.value)


@pytest.fixture
def sampler(mocker):
    return mocker.patch("desched.bootstrap.load_source.SampledLoadReader", autospec=True)


BY_METRICS_SERVER = msgspec.structs.replace(
    demo_policy(), metrics=MetricsSource("", type=MetricsType.METRICS_SERVER)
)


def test_the_policy_chooses_metrics_server(kubernetes, reader, sampler):
    loads = LoadSource(load_settings({}), kubernetes, VirtualClock(), keeps_sampling=True)
    found = [loads.read_load(CLUSTER, BY_METRICS_SERVER) for _ in range(2)]
    assert found == [sampler.return_value.read_load.return_value] * 2
    assert sampler.call_count == 1  # its samples are kept
    assert sampler.call_args.kwargs["keeps_sampling"] is True
    assert not reader.called


def test_another_range_of_the_custom_metrics_begins_with_new_samples(kubernetes, sampler):
    loads = source(kubernetes)
    for seconds in (600, 600, 300):
        metrics = MetricsSource("", type=MetricsType.PROMETHEUS_ADAPTOR, averaged_seconds=seconds)
        loads.read_load(CLUSTER, msgspec.structs.replace(demo_policy(), metrics=metrics))
        assert sampler.call_args.kwargs["metrics"] == metrics
    assert sampler.call_count == 2
    sampler.return_value.close.assert_called_once_with()


def test_a_single_look_takes_no_further_samples(kubernetes, sampler):
    source(kubernetes).read_load(CLUSTER, BY_METRICS_SERVER)
    assert sampler.call_args.kwargs["keeps_sampling"] is False


def test_samples_end_when_the_policy_changes_to_prometheus(kubernetes, reader, sampler):
    loads = source(kubernetes)
    loads.read_load(CLUSTER, BY_METRICS_SERVER)
    loads.read_load(CLUSTER, policy_with(EXTERNAL))
    sampler.return_value.close.assert_called_once_with()
    assert addresses(reader) == [EXTERNAL]
    loads.read_load(CLUSTER, BY_METRICS_SERVER)
    assert sampler.call_count == 2


def test_a_setting_for_prometheus_contradicts_metrics_server(kubernetes, sampler):
    loads = source(kubernetes, prometheus_url="http://127.0.0.1:9090")
    with pytest.raises(ConfigurationError, match="remove the setting"):
        loads.read_load(CLUSTER, BY_METRICS_SERVER)
    assert not sampler.called


def test_metrics_server_has_no_past(kubernetes):
    with pytest.raises(ConfigurationError, match="no history"):
        source(kubernetes).read_through(BY_METRICS_SERVER, lambda _: None)


def test_a_service_continues_with_kept_samples(mocker, kubernetes, sampler):
    samples = mocker.create_autospec(LoadSamples, instance=True)
    loads = LoadSource(load_settings({}), kubernetes, VirtualClock(), samples)
    loads.read_load(CLUSTER, BY_METRICS_SERVER)
    samples.recall.assert_called_once_with(sampler.return_value)


GMP, AMP = PrometheusStack.GMP, PrometheusStack.AMP
GOOGLES = "https://monitoring.googleapis.com/v1/projects/p/location/global/prometheus"
AMAZONS = "https://aps-workspaces.eu-west-1.amazonaws.com/workspaces/ws-1"


def managed(stack, address):
    metrics = MetricsSource(address, stack=stack)
    return msgspec.structs.replace(demo_policy(), metrics=metrics)


@pytest.fixture
def accounts(mocker):
    """What identifies desched at each managed service."""
    where = "desched.adapters.prometheus"
    return {
        GMP: mocker.patch(f"{where}.google_token.GoogleToken", autospec=True),
        AMP: mocker.patch(f"{where}.aws_signature.AwsSignature", autospec=True),
    }


@pytest.mark.parametrize(
    ("flags", "stack", "address"),
    [
        ({}, GMP, GOOGLES),
        ({}, AMP, AMAZONS),
        ({"prometheus_url": EXTERNAL}, GMP, ""),
        ({"prometheus_url": EXTERNAL}, AMP, ""),
        ({"prometheus_trusted_addresses": EXTERNAL}, AMP, EXTERNAL),
    ],
)
def test_a_managed_service_and_whom_the_settings_name_know_the_account(
    kubernetes, reader, accounts, flags, stack, address
):
    source(kubernetes, **flags).read_load(CLUSTER, managed(stack, address))
    connection = reader.call_args.args[0]
    expected = accounts[stack].return_value
    assert (connection.token_provider or connection.sign) is expected
    if stack is AMP:
        accounts[AMP].assert_called_once_with("eu-west-1" if address == AMAZONS else "")


@pytest.mark.parametrize(
    ("stack", "address", "why"),
    [
        (GMP, EXTERNAL, "TRUSTED_ADDRESSES"),
        (GMP, AMAZONS, "TRUSTED_ADDRESSES"),
        (AMP, GOOGLES, "TRUSTED_ADDRESSES"),
        (GMP, "https://monitoring.googleapis.com:8443", "TRUSTED_ADDRESSES"),
        (GMP, "https://monitoring.googleapis.com.example.com", "TRUSTED_ADDRESSES"),
        (AMP, "https://aps-workspaces.a.b.amazonaws.com", "TRUSTED_ADDRESSES"),
        (AMP, "https://example.com/aps-workspaces.a.amazonaws.com", "TRUSTED_ADDRESSES"),
        (GMP, "http://monitoring.googleapis.com/", "unencrypted"),
        (AMP, AMAZONS.replace("https", "http"), "unencrypted"),
        (GMP, "", "The address of Prometheus is missing"),
    ],
)
def test_nobody_else_knows_it(kubernetes, reader, accounts, stack, address, why):
    with pytest.raises(ConfigurationError, match=why):
        source(kubernetes).read_load(CLUSTER, managed(stack, address))
    assert not accounts[stack].return_value.called
    assert not reader.called


@pytest.mark.parametrize(("stack", "address"), [(GMP, GOOGLES), (AMP, AMAZONS)])
def test_an_account_does_not_go_beside_other_credentials(
    kubernetes, accounts, monkeypatch, stack, address
):
    monkeypatch.setenv("DESCHED_PROMETHEUS_BEARER_TOKEN", "s3cr3t")
    with pytest.raises(ConfigurationError, match="Several credentials are set"):
        source(kubernetes, prometheus_url=address).read_load(CLUSTER, managed(stack, ""))
    assert not accounts[stack].return_value.called


@pytest.mark.parametrize(
    ("stack", "address", "module", "extra"),
    [(GMP, GOOGLES, "google_token", "google"), (AMP, AMAZONS, "aws_signature", "aws")],
)
def test_without_its_library_a_sentence_says_what_to_install(
    kubernetes, monkeypatch, stack, address, module, extra
):
    monkeypatch.setitem(sys.modules, f"desched.adapters.prometheus.{module}", None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'desched\[{extra}\]'"):
        source(kubernetes).read_load(CLUSTER, managed(stack, address))
