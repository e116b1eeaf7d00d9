from pathlib import Path

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.service_proxy import ServiceProxy, service_proxy
from tests.unit.adapters.kubernetes.fake_api_server import account


def proxy_of(authorization: str = "Bearer secret-token", **settings: object) -> ServiceProxy:
    found = account("https://prod.example:6443", authorization)
    for name, value in settings.items():
        setattr(found.configuration, name, value)
    return service_proxy(
        KubernetesConnection(lambda: found),
        scheme="http",
        namespace="monitoring",
        service="prometheus",
        port=80,
    )


def test_the_service_is_reached_below_the_api_servers_address() -> None:
    assert proxy_of().base_url == (
        "https://prod.example:6443/api/v1/namespaces/monitoring/services/http:prometheus:80/proxy"
    )


def test_the_accounts_token_comes_along_but_is_not_printed() -> None:
    proxy = proxy_of()

    assert proxy.token is not None
    assert proxy.token() == "secret-token"
    assert "secret-token" not in repr(proxy)


def test_an_account_without_a_bearer_token_has_none_to_give() -> None:
    assert proxy_of("Basic dXNlcjpwYXNz").token is None


def test_certificates_come_along() -> None:
    proxy = proxy_of(ssl_ca_cert="/ca.crt", cert_file="/me.crt", key_file="/me.key")

    assert (proxy.ca_file, proxy.client_cert_file, proxy.client_key_file) == (
        Path("/ca.crt"),
        Path("/me.crt"),
        Path("/me.key"),
    )
    assert not proxy.insecure_skip_verify


def test_an_unverified_server_stays_unverified_and_needs_no_files() -> None:
    proxy = proxy_of(verify_ssl=False)

    assert proxy.insecure_skip_verify
    assert (proxy.ca_file, proxy.client_cert_file, proxy.client_key_file) == (None, None, None)
