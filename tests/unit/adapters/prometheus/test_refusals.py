"""What is said of answers that are not data, each with the one setting that helps."""

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr

from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.refusals import why_no_tls
from desched.errors import ObservationError, UnusableAnswer
from tests.loopback import Server
from tests.unit.adapters.prometheus.fake_server import FakePrometheus, Reply, refusal

PAGE = {"Content-Type": "text/html; charset=utf-8"}
TEXT = {"Content-Type": "text/plain"}
TOKEN = {"bearer_token": SecretStr("t0ken")}
LOGIN_PAGE = b"<!DOCTYPE html><html><head><title> Log in </title></head>"
OTHER_PAGE = b"<html><head><title>Grafana</title></head>"


def text(body: str, status: int, headers: Mapping[str, str] = TEXT) -> Reply:
    return Reply(f"{body}\n".encode(), status, headers)


def to(location: str, status: int = 302) -> Reply:
    return Reply(b"", status, {"Location": location})


def said_by(server: Server, **settings: Any) -> str:
    """What is said after the address."""
    url = settings.pop("url", server.url)
    connection = PrometheusConnection(url=url, **settings)
    with pytest.raises(UnusableAnswer) as raised:
        PrometheusClient(connection, lambda _: False).query("up")
    said = str(raised.value)
    assert said.startswith(f"Prometheus at {url} ")
    return said.removeprefix(f"Prometheus at {url} ").removesuffix(".")


NO_ORG_ID = text("no org id", 401)
MALFORMED = text("Bad Request. The request or configuration is malformed.", 400)
BY_LABEL_PROXY = refusal(
    400, errorType="prom-label-proxy", error='The "namespace" query parameter must be provided.'
)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (NO_ORG_ID, "requires a tenant (HTTP 401); set metrics.tenant in the policy: no org id"),
        (
            MALFORMED,
            (
                "accepts only queries of one namespace (HTTP 400); with OpenShift use port 9091: "
                "Bad Request. The request or configuration is malformed."
            ),
        ),
        (
            BY_LABEL_PROXY,
            (
                "accepts only queries of one namespace (HTTP 400); with OpenShift use port 9091: "
                'The "namespace" query parameter must be provided.'
            ),
        ),
        (
            text("Unauthorized", 401),
            (
                "requires credentials (HTTP 401), and none were sent; set "
                "--prometheus-bearer-token-file: Unauthorized"
            ),
        ),
        (
            text("401 Authorization Required", 401, {"WWW-Authenticate": 'Basic realm="x"'}),
            (
                "requires credentials (HTTP 401), and none were sent; set "
                "--prometheus-username and "
                "DESCHED_PROMETHEUS_PASSWORD: 401 Authorization Required"
            ),
        ),
        (
            Reply(LOGIN_PAGE, 403, PAGE),
            (
                "does not permit queries (HTTP 403) without credentials; set "
                "--prometheus-bearer-token-file: Log in"
            ),
        ),
        (
            Reply(LOGIN_PAGE, 200, PAGE),
            (
                "answered with something other than query results (text/html; charset=utf-8), "
                "perhaps "
                "a login page, and no credentials were sent; set --prometheus-bearer-token-file: "
                "Log in"
            ),
        ),
        (
            Reply(OTHER_PAGE, 200, PAGE),
            (
                "answered with something other than query results (text/html; charset=utf-8), "
                "correct the path of the URL: Grafana"
            ),
        ),
        (
            to("https://sso.example/oauth/authorize?client_id=x&state=secret"),
            (
                "redirects elsewhere (HTTP 302), to a login page, and no credentials were sent; "
                "set --prometheus-bearer-token-file"
            ),
        ),
        (
            to("https://me:p/w@other.example/prom/api/v1/query?query=up", 307),
            "redirects elsewhere (HTTP 307); use the URL where `curl --location` ends",
        ),
        (
            text("404 page not found", 404),
            "has no query API at this URL (HTTP 404); correct its path: 404 page not found",
        ),
        (
            text("Client sent an HTTP request to an HTTPS server.", 400),
            (
                "speaks TLS (HTTP 400); write https:// in the URL: "
                "Client sent an HTTP request to an "
                "HTTPS server."
            ),
        ),
        (
            text("RBAC: access denied", 403),
            (
                "is closed to desched by a service mesh (HTTP 403); allow desched in its "
                "AuthorizationPolicy: RBAC: access denied"
            ),
        ),
        (
            text("invalid host", 400),
            (
                "is behind a proxy that refuses the request (HTTP 400); correct the URL: "
                "invalid host"
            ),
        ),
        (
            Reply(b'{"error": {"code": 401, "reason": "key"}}', 401),
            (
                "requires credentials (HTTP 401), and none were sent; set "
                '--prometheus-bearer-token-file: {"error": {"code": 401, "reason": "key"}}'
            ),
        ),
        (
            text("Proxy Authentication Required", 407),
            (
                "is behind a proxy that requires a login (HTTP 407); correct HTTP_PROXY or "
                "HTTPS_PROXY: Proxy Authentication Required"
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_without_data_names_the_one_setting_that_helps(
    fake: FakePrometheus, reply: Reply, said: str
) -> None:
    fake.replies(reply)
    assert said_by(fake) == said
    assert "address" not in said


CREDENTIALS = [
    (TOKEN, "DESCHED_PROMETHEUS_BEARER_TOKEN"),
    ({"username": "me", "password": SecretStr("pw")}, "--prometheus-username"),
    ({"headers": {"X-Api-Key": "key", "X-Scope-OrgID": "team-a"}}, "additional headers"),
    ({"token_provider": lambda: "fresh"}, "the token of desched's own account"),
]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (text("Unauthorized", 401), "did not accept the credentials (HTTP 401); check {}"),
        (text("Forbidden", 403), "does not permit queries (HTTP 403); check the rights by {}"),
        (Reply(LOGIN_PAGE, 200, PAGE), "perhaps a login page; check {}"),
        (to("/login"), "redirects elsewhere (HTTP 302), to a login page; check {}"),
    ],
)
@pytest.mark.parametrize(("settings", "name"), CREDENTIALS)
def test_credentials_that_were_sent_are_named(
    fake: FakePrometheus, reply: Reply, said: str, settings: dict[str, Any], name: str
) -> None:
    fake.replies(reply)
    assert said.format(name) in said_by(fake, **settings)


@pytest.mark.parametrize(
    "settings", [{"headers": {"x-scope-orgid": "team-a"}}, {"token_provider": lambda: None}]
)
def test_what_is_no_credential_is_none(fake: FakePrometheus, settings: dict[str, Any]) -> None:
    fake.replies(refusal(401))
    assert "and none were sent" in said_by(fake, **settings)


@pytest.mark.parametrize("status", [400, 403])
def test_whatever_openshift_says_at_its_port_of_one_namespace_another_port_helps(
    fake: FakePrometheus, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desched.adapters.prometheus.refusals._TENANCY_PORT", fake.server_port)
    fake.replies(text("Forbidden (user=x, verb=get, resource=pods)", status))
    assert "use port 9091: Forbidden (user=x, " in said_by(fake, **TOKEN)


def test_a_redirect_to_https_asks_for_https(fake: FakePrometheus) -> None:
    fake.replies(to(f"{fake.url.replace('http', 'https')}/api/v1/query?query=up", 301))
    assert said_by(fake) == "redirects elsewhere (HTTP 301); write https:// in the URL"


@pytest.mark.parametrize("target", ["http://[", "//[::1", "http://me:pw@[fe80/login"])
def test_a_redirect_to_no_valid_url_is_said_without_it(fake: FakePrometheus, target: str) -> None:
    fake.replies(to(target))
    said = "redirects elsewhere (HTTP 302), to no valid URL; check what answers at this address"
    assert said_by(fake) == said


def test_what_an_api_server_says_in_between_is_no_answer_of_prometheus(
    fake: FakePrometheus,
) -> None:
    fake.replies(refusal(503, message="no endpoints available for service"))
    with pytest.raises(ObservationError, match="no endpoints available") as raised:
        PrometheusClient(PrometheusConnection(url=fake.url), lambda _: False).query("up")
    assert not isinstance(raised.value, UnusableAnswer)


def test_a_proxy_that_is_not_there_is_named(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = fake.server_port
    fake.server_close()
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(ObservationError, match="by the proxy that HTTP_PROXY"):
        PrometheusClient(
            PrometheusConnection(url="http://prometheus.example"), lambda _: False
        ).query("up")


class Authority:
    """Certificates for servers on loopback, each with its key in the same file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def certificate(self, name: str, *, of: str = "127.0.0.1", ends: int = 2100) -> Path:
        """A certificate by itself for an IP address, which ends with this year."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
            .not_valid_after(datetime(ends, 12, 31, tzinfo=UTC))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(of))]),
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        path = self._directory / f"{name}.pem"
        pem = serialization.Encoding.PEM
        form = serialization.PrivateFormat.PKCS8
        path.write_bytes(
            built.public_bytes(pem) + key.private_bytes(pem, form, serialization.NoEncryption())
        )
        return path


@pytest.mark.parametrize(
    ("fields", "named", "said"),
    [
        (
            {},
            "",
            (
                "has a certificate of a CA that is not known here; name the file with that CA by "
                "--prometheus-ca-file"
            ),
        ),
        ({"ends": 2001}, "ca_file", "has a certificate that has expired; it must be renewed"),
        (
            {"of": "192.0.2.1"},
            "ca_file",
            "has a certificate for another host; write the host name of its certificate in the URL",
        ),
    ],
)
def test_a_certificate_that_is_not_accepted_names_what_helps(
    fake: FakePrometheus, tmp_path: Path, fields: dict[str, Any], named: str, said: str
) -> None:
    certificate = Authority(tmp_path).certificate("prometheus", **fields)
    fake.use_tls(certificate, certificate)
    url = fake.url.replace("http:", "https:")
    assert said_by(fake, url=url, **dict.fromkeys(named.split(), certificate)) == said


def test_a_server_without_tls_is_told_apart(fake: FakePrometheus) -> None:
    said = said_by(fake, url=fake.url.replace("http:", "https:"))
    assert said == "does not speak TLS; write http:// in the URL"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] self signed certificate", "--prometheus-ca-file"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] Hostname mismatch", "the host name of its certificate"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13", "--prometheus-client-cert-file"),
        ("[SSL: UNSUPPORTED_PROTOCOL] unsupported protocol", "versions and ciphers"),
    ],
)
def test_other_failures_of_tls_name_what_helps(error: str, said: str) -> None:
    assert said in why_no_tls(error)
