"""The token by which Google's managed Prometheus knows desched; only the extra `google` has this.

It is that of the account that Google's own tools would use: of the pod's workload identity, of the
machine, or of the file that GOOGLE_APPLICATION_CREDENTIALS names.
"""

from functools import partial

import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import Request

from desched.errors import ObservationError, ObservationSource

SCOPE = "https://www.googleapis.com/auth/monitoring.read"
REQUEST_SECONDS = 10.0


class GoogleToken:
    """Fetches the token when it is first asked for, and again shortly before it expires."""

    def __init__(self) -> None:
        self._credentials: google.auth.credentials.Credentials | None = None
        self._request = partial(Request(), timeout=REQUEST_SECONDS)

    def __call__(self) -> str:
        """The token.

        Raises:
            ObservationError: there is no account, or Google gives no token for it.
        """
        try:
            if self._credentials is None:
                self._credentials, _ = google.auth.default(scopes=[SCOPE])
            if not self._credentials.valid:
                self._credentials.refresh(self._request)  # type: ignore[no-untyped-call]  # the library's
        except GoogleAuthError as error:
            raise ObservationError(
                ObservationSource.PROMETHEUS,
                f"Google gives desched no token ({type(error).__name__}); let the account of its "
                "pod act as one with the role roles/monitoring.viewer (workload identity), or name "
                "a file with GOOGLE_APPLICATION_CREDENTIALS.",
            ) from error
        return str(self._credentials.token)
