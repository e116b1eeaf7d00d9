"""The address of Prometheus, the credentials for it, and the timeout."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import SecretStr

from desched.errors import ConfigurationError

if TYPE_CHECKING:
    from requests import PreparedRequest

TENANT_HEADER = "X-Scope-OrgID"
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True, kw_only=True)
class PrometheusConnection:
    """How to reach one Prometheus-compatible server; never prints a secret.

    The server may also be behind a path, such as the service proxy of an API server. At most one
    of the bearer sources and the user name is used; a user name in the URL counts as one.
    `token_provider` and `sign` are called before each request. `allow_insecure_credentials` permits
    credentials over plain http to other hosts than this one.

    Raises:
        ConfigurationError: the parts contradict each other, or a file is missing.
    """

    url: str = field(repr=False)
    bearer_token: SecretStr | None = None
    bearer_token_file: Path | None = None
    token_provider: Callable[[], str | None] | None = field(default=None, repr=False)
    sign: "Callable[[PreparedRequest], None] | None" = field(default=None, repr=False)
    username: str | None = None
    password: SecretStr | None = None
    client_cert_file: Path | None = None
    client_key_file: Path | None = None
    ca_file: Path | None = None
    insecure_skip_verify: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    total_timeout_seconds: float = 30.0
    allow_insecure_credentials: bool = False

    def __post_init__(self) -> None:
        self._check_url()
        self._check_credentials()
        self._check_files()
        for name, value in self.headers.items():
            if not (is_header_text(name) and is_header_text(value)):
                raise ConfigurationError(
                    f"The header {name!r} for Prometheus has characters that headers may not have."
                )
        if not self.total_timeout_seconds > 0:
            raise ConfigurationError("The timeout for Prometheus must be more than 0 seconds.")

    @property
    def address(self) -> str:
        """The URL without credentials, query and trailing slash; safe to print."""
        return without_user(self.url)

    @property
    def basic_credentials(self) -> tuple[str, str] | None:
        """User name and password, from their own fields or else from the URL."""
        if self.username is not None:
            return self.username, self.password.get_secret_value() if self.password else ""
        parts = urlsplit(self.url.strip())
        if parts.username is not None:
            return unquote(parts.username), unquote(parts.password or "")
        return None

    @property
    def credentials(self) -> tuple[str, ...]:
        """The names of everything that identifies desched to the server."""
        return _given(self._logins | self._others(self.headers))

    def logins(self, authorization: str) -> tuple[str, ...]:
        """The names of the credentials that a request with this header has; a tenant is none."""
        headers = [name for name in self.headers if name.lower() != TENANT_HEADER.lower()]
        return _given((self._logins if authorization else {}) | self._others(headers))

    def _others(self, headers: Iterable[str]) -> dict[str, object]:
        return {
            "additional headers": [*headers] or None,
            "--prometheus-client-cert-file": self.client_cert_file,
        }

    @property
    def _logins(self) -> dict[str, object]:
        return {
            "DESCHED_PROMETHEUS_BEARER_TOKEN": self.bearer_token,
            "--prometheus-bearer-token-file": self.bearer_token_file,
            "the token of desched's own account": self.token_provider,
            "a signature of desched's account at AWS": self.sign,
            "--prometheus-username": self.username,
            "a user name in the URL": None if self.username else self.basic_credentials,
        }

    def _check_url(self) -> None:
        try:
            parts = urlsplit(self.url.strip())
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:  # an impossible port or IPv6 address; the text may hold a password
            usable = False
        if not usable:
            raise ConfigurationError(
                "The Prometheus URL is not an http or https URL with a host; write it like "
                "http://prometheus-server.monitoring.svc:80."
            )

    def _check_credentials(self) -> None:
        given = _given(self._logins)
        if len(given) > 1:
            raise ConfigurationError(
                f"Several credentials are set for Prometheus: {' and '.join(given)}; keep one."
            )
        if self.username is not None and self.password is None:
            raise ConfigurationError(
                "--prometheus-username is set without a password; set DESCHED_PROMETHEUS_PASSWORD "
                "or --prometheus-password-file."
            )
        if self.password is not None and self.username is None:
            raise ConfigurationError(
                "A Prometheus password is set without a user name; add --prometheus-username "
                "(DESCHED_PROMETHEUS_USERNAME)."
            )
        secret = bool(given) or any(name.lower() in _SECRET_HEADERS for name in self.headers)
        if secret and not self.allow_insecure_credentials and self._is_sent_in_the_clear():
            raise ConfigurationError(
                f"Credentials would be sent to {self.address} unencrypted; use an https URL, or "
                "set --prometheus-allow-insecure-credentials if the network may see them."
            )

    def _check_files(self) -> None:
        if self.client_key_file is not None and self.client_cert_file is None:
            raise ConfigurationError("A client key for Prometheus is set without a certificate.")
        for purpose, path in (
            ("bearer token", self.bearer_token_file),
            ("client certificate", self.client_cert_file),
            ("client key", self.client_key_file),
            ("certificate authorities", self.ca_file),
        ):
            if path is not None and not path.is_file():
                raise ConfigurationError(
                    f"The file with the {purpose} for Prometheus, {path}, does not exist; "
                    "check the path and that it is mounted."
                )

    def _is_sent_in_the_clear(self) -> bool:
        parts = urlsplit(self.url.strip())
        return parts.scheme == "http" and not _is_loopback(parts.hostname or "")


def _given(ways: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(name for name, way in ways.items() if way is not None)


def is_header_text(text: str) -> bool:
    """Whether the text can stand in an HTTP header without becoming several."""
    return text.isascii() and text.isprintable()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def without_user(url: str) -> str:
    """The URL without credentials, query and trailing slash; safe to print."""
    parts = urlsplit(url.strip())
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
