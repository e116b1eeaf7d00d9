"""The credentials for Prometheus, read again for each request because tokens rotate."""

from pathlib import Path

from requests import PreparedRequest
from requests.auth import AuthBase, HTTPBasicAuth

from desched.adapters.prometheus.connection import PrometheusConnection, is_header_text
from desched.errors import ObservationError, ObservationSource


class Credentials(AuthBase):
    """Adds the connection's credentials to a request.

    A session without credentials needs it too, else requests would read ~/.netrc.
    """

    def __init__(self, connection: PrometheusConnection) -> None:
        self._connection = connection

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        """Set the Authorization header.

        Raises:
            ObservationError: the token cannot be read.
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
        return r

    def _bearer_token(self) -> str | None:
        if self._connection.bearer_token_file is not None:
            return _token_in(self._connection.bearer_token_file)
        if self._connection.token_provider is not None:
            return self._connection.token_provider()
        token = self._connection.bearer_token
        return token.get_secret_value().strip() if token is not None else None


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
