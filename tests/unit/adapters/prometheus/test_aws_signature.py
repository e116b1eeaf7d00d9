"""Requests that Amazon's own library signs, verified by it at a server on loopback."""

from collections.abc import Iterator
from urllib.parse import parse_qsl

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from desched.adapters.prometheus.aws_signature import AwsSignature
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.session import PrometheusSession
from desched.errors import ConfigurationError, ObservationError
from tests.loopback import Handler, Server

REGION = "eu-west-1"
ACCOUNT = Credentials("AKIDEXAMPLE", "s3cr3t", "session-token")
QUERY = 'sum by (node) (rate(x{job=~"a+b|ü", path="/*"}[5m])) + 1'


class Workspace(Server):
    """Keeps what was asked, and answers 403 to what is not signed as AWS would sign it."""

    def __init__(self):
        self.asked = []
        super().__init__(_Workspace)

    @property
    def url(self):
        return f"{super().url}/workspaces/ws-1"


class _Workspace(Handler):
    server: Workspace

    def respond(self) -> None:
        body = self.body()
        path, _, query = self.path.partition("?")
        # AWS takes a plus for itself, and encodes the parameters anew.
        params = parse_qsl(query.replace("+", "%2B"))
        given = dict.fromkeys(("X-Amz-Date", "X-Amz-Security-Token"))
        host = f"http://127.0.0.1:{self.server.server_port}"
        request = AWSRequest(
            self.command,
            host + path,
            headers={name: self.headers[name] for name in given},
            data=body or None,
            params=params,
        )
        request.context["timestamp"] = self.headers["X-Amz-Date"]
        signer = SigV4Auth(ACCOUNT, "aps", REGION)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        is_valid = self.headers["Authorization"].endswith(
            f"Signature={signer.signature(text, request)}"
        )
        self.server.asked.append((is_valid, dict(params), dict(parse_qsl(body.decode()))))
        self.reply(b"{}", 200 if is_valid else 403)


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    with Workspace() as server:
        yield server


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    """No credentials and no region from this machine."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCOUNT.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ACCOUNT.secret_key)
    monkeypatch.setenv("AWS_SESSION_TOKEN", ACCOUNT.token)


def session(workspace):
    connection = PrometheusConnection(url=workspace.url, sign=AwsSignature(REGION))
    return PrometheusSession(connection, lambda _: False, lambda _: None)


@pytest.mark.usefixtures("account")
def test_amazon_accepts_the_signature_of_a_query(workspace):
    asking = session(workspace)
    parameters = {"query": QUERY, "time": "1"}
    asking.request("GET", f"{workspace.url}/api/v1/query", params=parameters)
    asking.request("POST", f"{workspace.url}/api/v1/query", data=parameters)
    assert workspace.asked == [(True, parameters, {}), (True, {}, parameters)]


@pytest.mark.usefixtures("account")
def test_it_would_not_accept_another_query(workspace):
    """That is what the server above can tell."""
    signature = AwsSignature(REGION)

    def other(request):
        signature(request)
        request.url = request.url.replace("query=a", "query=b")

    connection = PrometheusConnection(url=workspace.url, sign=other)
    asking = PrometheusSession(connection, lambda _: False, lambda _: None)
    asking.request("GET", f"{workspace.url}/api/v1/query", params={"query": "a"})
    assert workspace.asked == [(False, {"query": "b"}, {})]


def test_without_credentials_nothing_is_asked(workspace):
    with pytest.raises(ObservationError, match="AmazonPrometheusQueryAccess"):
        session(workspace).request("GET", f"{workspace.url}/api/v1/query")
    assert workspace.asked == []


def test_a_region_comes_from_the_configuration_or_is_asked_for(monkeypatch):
    with pytest.raises(ConfigurationError, match="AWS_REGION"):
        AwsSignature("")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    AwsSignature("")
