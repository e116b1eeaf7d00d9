"""An HTTP session whose every request ends in time: one deadline, few retries, bounded answers.

The client library offers none of this, and mounts its own transport over the session's; so it
lives in `request`, which every call of the library passes through.
"""

import io
from collections.abc import Callable
from time import monotonic
from typing import Any

import requests
import urllib3

from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.credentials import Credentials
from desched.errors import ObservationError, ObservationSource

RETRIED_STATUS = frozenset({429, 500, 502, 503, 504})
PAUSES_SECONDS = (0.5, 1.0, 2.0)
"""Before the second, third and fourth attempt."""

LONGEST_BODY_BYTES = 64 * 2**20  # twice the usage of 150,000 pods
_CHUNK_BYTES = 2**16


class PrometheusSession(requests.Session):
    """A pooled session that does not follow redirects: they would take the credentials along.

    `wait` pauses between attempts and returns true if the process has been asked to stop.
    `inspect` sees every final response before the client library does.
    """

    def __init__(
        self,
        connection: PrometheusConnection,
        wait: Callable[[float], bool],
        inspect: Callable[[requests.Response], None],
    ) -> None:
        super().__init__()
        self._total_timeout_seconds = connection.total_timeout_seconds
        self._wait = wait
        self._inspect = inspect
        self.auth = Credentials(connection)
        self.headers["User-Agent"] = "desched"
        self.headers.update(connection.headers)
        self.verify = str(connection.ca_file) if connection.ca_file else True
        if connection.insecure_skip_verify:
            self.verify = False
            # The operator asked for it; a warning on each request would drown the log.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        if connection.client_cert_file is not None:
            key = connection.client_key_file or connection.client_cert_file
            self.cert = (str(connection.client_cert_file), str(key))

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request, again where that may help, and read its whole answer in time.

        Raises:
            requests.RequestException: no whole answer before the deadline.
            ObservationError: the answer is too large or not acceptable, or we have to stop.
        """
        if self._wait(0):
            raise _stopping()
        deadline = monotonic() + self._total_timeout_seconds
        kwargs |= {"allow_redirects": False, "stream": True}
        response = self._attempt(args, kwargs, deadline)
        for pause_seconds in PAUSES_SECONDS:
            if not _may_pass(response) or monotonic() + pause_seconds >= deadline:
                break
            if self._wait(pause_seconds):
                raise _stopping()
            response = self._attempt(args, kwargs, deadline)
        if isinstance(response, requests.RequestException):
            raise response
        self._inspect(response)
        return response

    def _attempt(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], deadline: float
    ) -> requests.Response | requests.RequestException:
        kwargs["timeout"] = max(deadline - monotonic(), 0.001)
        try:
            response = super().request(*args, **kwargs)
            try:
                body = _read_body(response, deadline)
            except (urllib3.exceptions.TimeoutError, TimeoutError) as error:
                raise requests.ReadTimeout("the answer did not end in time") from error
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise requests.exceptions.ChunkedEncodingError("the answer broke off") from error
            finally:
                response.close()
        except requests.RequestException as error:
            return error
        response.raw = io.BytesIO(body)  # from here on reading cannot block
        return response


def _stopping() -> ObservationError:
    return ObservationError(
        ObservationSource.PROMETHEUS, "Prometheus was not asked because desched is stopping."
    )


def _may_pass(outcome: requests.Response | requests.RequestException) -> bool:
    """Whether asking again may help: certificates, deadlines and refusals do not mend."""
    if isinstance(outcome, requests.Response):
        return outcome.status_code in RETRIED_STATUS
    if isinstance(outcome, requests.exceptions.SSLError | requests.Timeout):
        return False
    return isinstance(outcome, requests.ConnectionError | requests.exceptions.ChunkedEncodingError)


def _read_body(response: requests.Response, deadline: float) -> bytes:
    body = bytearray()
    while True:
        left_seconds = deadline - monotonic()
        if left_seconds <= 0:
            raise TimeoutError
        # The timeout that requests sets is for each read and as of the start; a kept-alive
        # connection still has its socket here, so that a stalled answer ends exactly in time.
        connection = response.raw.connection
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(left_seconds)
        # read1 returns what has arrived; read would wait for a full chunk of a slow drip.
        chunk = response.raw.read1(_CHUNK_BYTES, decode_content=True)
        if not chunk:
            return bytes(body)
        body += chunk
        if len(body) > LONGEST_BODY_BYTES:
            raise ObservationError(
                ObservationSource.PROMETHEUS,
                f"The answer of Prometheus is larger than {LONGEST_BODY_BYTES // 2**20} MiB; "
                "narrow the queries with metrics.matchers to this cluster.",
            )
