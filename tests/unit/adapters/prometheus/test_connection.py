from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from desched.adapters.prometheus.connection import PrometheusConnection
from desched.errors import ConfigurationError

REMOTE = "http://prometheus.example:9090"
TOKEN = SecretStr("s3cret-token")


def test_no_secret_is_ever_printed() -> None:
    connection = PrometheusConnection(
        url="https://user:s3cret-url@prometheus.example",
        headers={"Cookie": "s3cret-cookie"},
    )
    token = PrometheusConnection(url="https://prometheus.example", bearer_token=TOKEN)

    assert "s3cret" not in f"{connection!r} {connection} {connection.address} {token!r}"


@pytest.mark.parametrize(
    "credentials",
    [
        {"bearer_token": TOKEN},
        {"token_provider": lambda: "x"},
        {"username": "me", "password": SecretStr("x")},
        {"headers": {"authorization": "Bearer x"}},
        {"url": "http://me:pass@prometheus.example:9090"},
    ],
)
def test_credentials_over_plain_http_are_refused_unless_allowed(
    credentials: dict[str, Any],
) -> None:
    settings = {"url": REMOTE, **credentials}

    with pytest.raises(ConfigurationError, match=f"be sent to {REMOTE} unencrypted"):
        PrometheusConnection(**settings)
    PrometheusConnection(**settings, allow_insecure_credentials=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_credentials_over_plain_http_to_loopback_are_fine(host: str) -> None:
    PrometheusConnection(url=f"http://{host}:9090", bearer_token=TOKEN)


def test_a_tenant_header_is_no_credential() -> None:
    PrometheusConnection(url=REMOTE, headers={"X-Scope-OrgID": "team-a"})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"url": "prometheus:9090"}, "not an http or https URL"),
        ({"url": "http://prometheus:99999"}, "not an http or https URL"),
        ({"url": "https://"}, "not an http or https URL"),
        (
            {"username": "me"},
            "--prometheus-username is set without a password; set DESCHED_PROMETHEUS_PASSWORD",
        ),
        (
            {"bearer_token": TOKEN, "username": "me"},
            "DESCHED_PROMETHEUS_BEARER_TOKEN and --prometheus-username; keep one",
        ),
        ({"password": TOKEN}, "password is set without a user name"),
        ({"client_key_file": Path(__file__)}, "key for Prometheus is set without"),
        ({"ca_file": Path("/nowhere/ca.pem")}, "/nowhere/ca.pem, does not exist"),
        ({"headers": {"X-Scope-OrgID": "a\r\nX: b"}}, "The header 'X-Scope-OrgID'"),
        ({"total_timeout_seconds": 0}, "more than 0 seconds"),
        ({"total_timeout_seconds": float("nan")}, "more than 0 seconds"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        PrometheusConnection(**({"url": "https://prometheus.example"} | settings))


def test_an_impossible_url_does_not_print_its_password() -> None:
    with pytest.raises(ConfigurationError) as refused:
        PrometheusConnection(url="http://me:s3cret@host:port")

    assert "s3cret" not in str(refused.value)
