"""A token of Google for a service account, by Google's own library and a server on loopback."""

import json
from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

from desched.adapters.prometheus.google_token import SCOPE, GoogleToken
from desched.errors import ObservationError
from tests.loopback import Handler, Server


class Tokens(Server):
    """Gives a token for an assertion that it can verify."""

    public_key = b""

    def __init__(self):
        self.claims = []
        self.status = 200
        self.lasts_seconds = 3600
        super().__init__(_Tokens)


class _Tokens(Handler):
    server: Tokens

    def respond(self) -> None:
        (assertion,) = parse_qs(self.body().decode())["assertion"]
        self.server.claims.append(jwt.decode(assertion, certs=self.server.public_key))
        token = f"ya29.{len(self.server.claims)}"
        answer = {
            "access_token": token,
            "expires_in": self.server.lasts_seconds,
            "token_type": "Bearer",
        }
        if self.server.status != 200:
            answer = {"error": "invalid_grant", "error_description": "s3cr3t"}
        self.reply(json.dumps(answer).encode(), self.server.status)


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    with Tokens() as server:
        yield server


@pytest.fixture
def account(tokens, tmp_path, monkeypatch):
    """The key file of a service account whose tokens the server gives."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    tokens.public_key = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    file = tmp_path / "account.json"
    content = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "1",
        "private_key": private.decode(),
        "client_email": "desched@p.iam.gserviceaccount.com",
        "token_uri": f"{tokens.url}/token",
    }
    file.write_text(json.dumps(content))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))


@pytest.mark.usefixtures("account")
def test_a_token_is_fetched_once(tokens):
    token = GoogleToken()
    assert [token(), token()] == ["ya29.1", "ya29.1"]
    (claims,) = tokens.claims
    assert claims["scope"] == SCOPE
    assert claims["iss"] == "desched@p.iam.gserviceaccount.com"


@pytest.mark.usefixtures("account")
def test_a_token_that_expires_soon_is_fetched_again(tokens):
    tokens.lasts_seconds = 60
    token = GoogleToken()
    assert [token(), token()] == ["ya29.1", "ya29.2"]


@pytest.mark.usefixtures("account")
def test_an_account_that_google_refuses_has_no_load_and_its_answer_is_not_repeated(tokens):
    tokens.status = 400
    with pytest.raises(ObservationError, match=r"Google gives desched no token") as caught:
        GoogleToken()()
    assert "roles/monitoring.viewer" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_without_an_account_a_sentence_names_the_ways_to_one(monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing"))
    with pytest.raises(ObservationError, match="GOOGLE_APPLICATION_CREDENTIALS"):
        GoogleToken()()
