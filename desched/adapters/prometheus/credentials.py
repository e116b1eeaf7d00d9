"""Who we are to Prometheus, asked anew for each request because tokens rotate."""

from pathlib import Path

from requests import PreparedRequest
from requests.auth import AuthBase, HTTPBasicAuth

from desched.adapters.prometheus.connection import PrometheusConnection, is_header_text
from desched.errors import ObservationError, ObservationSource


class Credentials(AuthBase):
    """Adds the connection's credentials to a request.

    It is set even where there are none: requests would else look into ~/.netrc.
    """

    def __init__(self, connection: PrometheusConnection) -> None:
        self._connection = connection
        path = connection.bearer_token_file
        self._token_file = _TokenFile(path) if path is not None else None

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        """Set the Authorization header.

        Raises:
            ObservationError: the token cannot be read at the moment.
        """
        token = self._bearer_token()
        if token:
            if not is_header_text(token):
                raise ObservationError(
                    ObservationSource.PROMETHEUS,
                    "The bearer token for Prometheus has characters that no token has; check "
                    "that its file or variable holds the token and nothing else.",
                )
            r.headers["Authorization"] = f"Bearer {token}"
        elif basic := self._connection.basic_credentials:
            user, password = basic
            r = HTTPBasicAuth(user.encode(), password.encode())(r)
        return r

    def _bearer_token(self) -> str | None:
        if self._token_file is not None:
            return self._token_file.read()
        if self._connection.token_provider is not None:
            return self._connection.token_provider()
        token = self._connection.bearer_token
        return token.get_secret_value().strip() if token is not None else None


class _TokenFile:
    """A mounted token; read again when the file has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed_at_ns = -1
        self._token = ""

    def read(self) -> str:
        try:
            changed_at_ns = self._path.stat().st_mtime_ns
            if changed_at_ns != self._changed_at_ns:
                self._token = self._path.read_text(encoding="utf-8").strip()
                self._changed_at_ns = changed_at_ns
        except (OSError, UnicodeDecodeError) as error:
            raise ObservationError(
                ObservationSource.PROMETHEUS,
                f"The bearer token for Prometheus cannot be read from {self._path} "
                f"({type(error).__name__}); check that the file is mounted and readable.",
            ) from error
        if not self._token:
            raise ObservationError(
                ObservationSource.PROMETHEUS,
                f"The bearer token file for Prometheus, {self._path}, is empty.",
            )
        return self._token
