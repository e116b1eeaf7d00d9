"""An HTTP session whose every request ends in time: one deadline, few retries, bounded answers.

The client library offers none of this, and mounts its own transport over the session's. Every call
of the library goes through `request`.
"""

import io
import json
from base64 import urlsafe_b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import requests
import urllib3
from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from requests.exceptions import ChunkedEncodingError, SSLError
from urllib3 import PoolManager

from desched.adapters.bounded_http import RETRIED_STATUSES, Deadline, HttpBounds, with_deadlines
from desched.adapters.prometheus.connection import PrometheusConnection, is_header_text
from desched.errors import ObservationError, ObservationSource


class Patience(NamedTuple):
    """How long a request is repeated: the pauses before the second and each further attempt.

    All attempts share `total_seconds`, or the timeout of the connection if that is longer. A server
    that is too busy may ask for a longer pause, up to `longest_pause_seconds`.
    """

    pauses_seconds: tuple[float, ...]
    total_seconds: float = 0.0
    longest_pause_seconds: float = 0.0


OF_A_CYCLE = Patience((0.5, 1.0, 2.0))
"""The next cycle comes soon; a server could ask for an hour."""

OF_A_HISTORY = Patience((1.0, 2.0, 5.0, 10.0, 20.0, 40.0), 300.0, longest_pause_seconds=60.0)
"""For many queries in a row, of which none may be lost."""

LONGEST_BODY_BYTES = 64 * 2**20  # twice the usage of 150,000 pods

_EMPTY = b'{"data":{"result":[]}}'

_PASSING = (requests.ConnectionError, requests.Timeout, ChunkedEncodingError)


class Credentials(AuthBase):
    """Adds the connection's credentials to a request, read again each time: tokens rotate.

    A session without credentials needs it too, else requests would read ~/.netrc.
    """

    def __init__(self, connection: PrometheusConnection) -> None:
        self._connection = connection

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        """Set the Authorization header.

        Raises:
            ObservationError: the token cannot be read, or there are no credentials to sign with.
        """
        token = self._bearer_token()
        if token:
            if not is_header_text(token):
                raise ObservationError(
                    ObservationSource.PROMETHEUS,
                    "The bearer token for Prometheus has characters that no token can have; check "
                    "that its file or variable has the token and nothing else.",
                )
            r.headers["Authorization"] = f"Bearer {token}"
        elif basic := self._connection.basic_credentials:
            user, password = basic
            r = HTTPBasicAuth(user.encode(), password.encode())(r)
        elif self._connection.sign is not None:
            self._connection.sign(r)
        return r

    def _bearer_token(self) -> str | None:
        if self._connection.bearer_token_file is not None:
            return _token_in(self._connection.bearer_token_file)
        if self._connection.token_provider is not None:
            return self._connection.token_provider()
        token = self._connection.bearer_token
        return token.get_secret_value().strip() if token is not None else None


def account_of(connection: PrometheusConnection) -> bytes:
    """What identifies the account at the server: its name or secret, certificate and headers.

    A token with an issuer and a subject counts by these, since it is replaced again and again.

    Raises:
        ObservationError: the credentials cannot be read.
    """
    request = requests.Request("GET", connection.address).prepare()
    header = Credentials(connection)(request).headers.get("Authorization", "")
    scheme, _, credentials = header.partition(" ")
    if scheme == "Bearer":
        credentials = _subject(credentials) or credentials
    elif connection.sign is not None:
        credentials = credentials.partition("/")[0]  # the rest is the time and the signature
    certificate = connection.client_cert_file
    parts = (
        scheme,
        credentials,
        certificate.read_bytes() if certificate is not None else b"",
        sorted(connection.headers.items()),
    )
    return repr(parts).encode()


def _subject(token: str) -> str:
    """Who the token is for, empty if that is not known."""
    try:
        _, payload, _ = token.split(".")
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return repr((claims["iss"], claims["sub"]))
    except (ValueError, LookupError, TypeError):
        return ""


class DeadlineAdapter(HTTPAdapter):
    """A transport whose connections keep the deadlines that apply, also through a proxy."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of connections."""
        super().init_poolmanager(*args, **kwargs)
        with_deadlines(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> PoolManager:
        """The pools of connections to a proxy."""
        return with_deadlines(super().proxy_manager_for(*args, **kwargs))


class PrometheusSession(requests.Session):
    """A pooled session that does not follow redirects: they would take the credentials along.

    `wait` pauses between attempts and returns true if desched is stopping. `inspect` is called with
    every final response. The client library gets an empty one: it would decode the answer to
    dictionaries, which takes most of the time that 30,000 series need.
    """

    def __init__(
        self,
        connection: PrometheusConnection,
        wait: Callable[[float], bool],
        inspect: Callable[[requests.Response], None],
        patience: Patience = OF_A_CYCLE,
    ) -> None:
        super().__init__()
        self.total_timeout_seconds = max(patience.total_seconds, connection.total_timeout_seconds)
        self._longest_pause_seconds = patience.longest_pause_seconds
        self._bounds = HttpBounds(
            source=ObservationSource.PROMETHEUS,
            server="Prometheus",
            pauses_seconds=patience.pauses_seconds,
            longest_body_bytes=LONGEST_BODY_BYTES,
            when_too_large="narrow the queries with metrics.matchers to this cluster",
            wait=wait,
        )
        self._inspect = inspect
        self.auth = Credentials(connection)
        self.headers["User-Agent"] = "desched"
        self.headers.update(connection.headers)
        self.verify = str(connection.ca_file) if connection.ca_file else True
        if connection.insecure_skip_verify:
            self.verify = False
            # The operator chose it; a warning for each request would flood the log.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        if connection.client_cert_file is not None:
            key = connection.client_key_file or connection.client_cert_file
            self.cert = (str(connection.client_cert_file), str(key))

    def get_redirect_target(self, _: requests.Response) -> None:
        """None: requests parses targets that it does not follow, too, and fails at invalid ones."""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request, retry where that may help, and read the whole answer in time.

        Raises:
            requests.RequestException: no whole answer before the deadline.
            ObservationError: the answer is too large or not acceptable, or desched is stopping.
        """
        response = self._bounds.repeated(
            lambda deadline: self._attempt(args, kwargs, deadline),
            self._retry_after_seconds,
            self.total_timeout_seconds,
        )
        if isinstance(response, requests.RequestException):
            raise response
        self._inspect(response)
        empty = requests.Response()
        empty.status_code = requests.codes.ok
        empty.raw = io.BytesIO(_EMPTY)
        return empty

    def _attempt(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], deadline: Deadline
    ) -> requests.Response | requests.RequestException:
        bounded = {"allow_redirects": False, "stream": True, "timeout": deadline.timeout}
        try:
            with deadline.applied():
                response = super().request(*args, **(kwargs | bounded))
            try:
                body = self._bounds.read_body(response.raw, deadline)
            except (urllib3.exceptions.TimeoutError, TimeoutError) as error:
                raise requests.ReadTimeout("the answer did not end in time") from error
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise ChunkedEncodingError("the answer broke off") from error
        except requests.RequestException as error:
            return error
        response.raw = io.BytesIO(body)  # from here on reading cannot block
        return response

    def _retry_after_seconds(
        self, outcome: requests.Response | requests.RequestException
    ) -> float | None:
        """How long to wait before another attempt; None for refusals, which are final."""
        if isinstance(outcome, requests.Response):
            if outcome.status_code not in RETRIED_STATUSES:
                return None
            asked = outcome.headers.get("Retry-After", "")
            seconds = float(asked) if asked.isascii() and asked.isdigit() else 0.0
            return min(seconds, self._longest_pause_seconds)
        passing = isinstance(outcome, _PASSING) and not isinstance(outcome, SSLError)
        return 0.0 if passing else None


def _token_in(path: Path) -> str:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ObservationError(
            ObservationSource.PROMETHEUS,
            f"The bearer token for Prometheus cannot be read from {path} "
            f"({type(error).__name__}); check that the file is mounted and readable.",
        ) from error
    if not token:
        raise ObservationError(
            ObservationSource.PROMETHEUS, f"The bearer token file for Prometheus, {path}, is empty."
        )
    return token
