"""Requests to the API server that end in time: one deadline, few retries, bounded answers.

The kubernetes package provides the account and the connection pool; it would decode every answer
into its slow models.
"""

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from threading import Event, Lock
from time import monotonic
from urllib.parse import urlencode

import msgspec
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError, NameResolutionError, NewConnectionError, SSLError
from urllib3.exceptions import TimeoutError as HTTPTimeoutError

from desched.adapters.bounded_http import (
    RETRIED_STATUSES,
    Deadline,
    HttpBounds,
    http_date,
    with_deadlines,
)
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.kubeconfig import ClusterAccount, find_account
from desched.adapters.kubernetes.client.server_health import RequestLog
from desched.adapters.kubernetes.client.stream import LineStream
from desched.adapters.redaction import credentials_in, redacted
from desched.api_objects.kinds import JSON
from desched.errors import ConfigurationError, ObservationError, ObservationSource

DEADLINE_SECONDS = 30.0
"""For one request with all its retries, unless the caller passes another."""

PAUSES_SECONDS = (0.2, 1.0, 3.0)
"""Before the second, third and fourth attempt, unless Retry-After is longer."""

METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
"""Accepts a list of metadata alone; a server that cannot make one answers with whole objects."""

LONGEST_BODY_BYTES = 32 * 2**20  # larger than any object; a page of pods has less than 8
_FAILED = 400  # and above: answers whose text is passed on
_CONTENT_TYPES = {"POST": JSON, "PATCH": "application/merge-patch+json"}


Outcome = Answer | HTTPError | OSError


class KubernetesConnection:
    """The API server of one cluster, as one account.

    `wait` pauses between attempts and returns true if desched is stopping. Each request raises
    ObservationError unless it is answered completely before its deadline. `reads` has how reads
    were answered lately; connections of one process share it.
    """

    def __init__(
        self,
        find: Callable[[], ClusterAccount],
        wait: Callable[[float], bool] | None = None,
        reads: RequestLog | None = None,
    ) -> None:
        self._find = find
        self._bounds = HttpBounds(
            source=ObservationSource.CLUSTER,
            server="the API server",
            pauses_seconds=PAUSES_SECONDS,
            longest_body_bytes=LONGEST_BODY_BYTES,
            when_too_large="look for objects with very large annotations or managed fields",
            wait=wait or Event().wait,
        )
        self._renewing = Lock()
        self._not_renewed = (0.0, "")  # when that failed last, and why
        self.reads = RequestLog() if reads is None else reads
        self._use(find())

    def _use(self, account: ClusterAccount) -> None:
        self.account = account
        self.target = account.target
        self.in_cluster = account.in_cluster
        self.namespace = account.namespace
        self._pool = with_deadlines(RESTClientObject(account.configuration).pool_manager)

    def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> Answer:
        """Read, and retry where that may help; renewed credentials are used."""
        url = path + (f"?{urlencode(query)}" if query else "")
        outcome = self._bounds.repeated(
            lambda deadline: self._attempt_as_ourselves("GET", url, None, deadline, accept),
            _retry_after_seconds,
            deadline_seconds,
        )
        return _answered(f"GET {path}", outcome)

    def stream(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        silence_seconds: float,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> LineStream | Answer:
        """Begin a read whose lines arrive over time; an Answer if the server refuses it.

        It begins before the deadline, and fails after `silence_seconds` without a line.
        """
        url = f"{path}?{urlencode(query)}"
        account = self.account
        begun = self._begun(url, deadline_seconds)
        if isinstance(begun, Answer) and begun.status == HTTPStatus.UNAUTHORIZED:
            self._renew(account, Deadline(deadline_seconds))
            begun = self._begun(url, deadline_seconds)
        if isinstance(begun, BaseHTTPResponse):
            return LineStream(begun, silence_seconds)
        return _answered(f"GET {path}", begun)

    def _begun(self, url: str, deadline_seconds: float) -> BaseHTTPResponse | Outcome:
        """An answer of which the body is not read yet, or another one."""
        headers = self._headers(JSON)
        deadline, began = Deadline(deadline_seconds), monotonic()
        status = None
        try:
            response = self._send("GET", url, headers, None, deadline)
            if response.status == HTTPStatus.OK:
                status = response.status
                return response
            answer = self._whole(response, headers, deadline)
            status = answer.status
        except (HTTPError, OSError) as error:
            return error
        else:
            return answer
        finally:
            self.reads.add(url, began, status)

    def post(
        self, path: str, body: object, *, deadline_seconds: float = DEADLINE_SECONDS
    ) -> Answer:
        """Write once: after a failure, whether it took effect is not known.

        A write that is refused for its credentials (401) is sent again with renewed ones.
        """
        return self._write("POST", path, body, deadline_seconds)

    def patch(
        self, path: str, body: object, *, deadline_seconds: float = DEADLINE_SECONDS
    ) -> Answer:
        """Change the fields in the body, once (JSON Merge Patch).

        With a `metadata.resourceVersion` in the body, only that version is changed.
        """
        return self._write("PATCH", path, body, deadline_seconds)

    def _write(self, method: str, path: str, body: object, deadline_seconds: float) -> Answer:
        payload = msgspec.json.encode(body)
        outcome = self._attempt_as_ourselves(method, path, payload, Deadline(deadline_seconds))
        return _answered(f"{method} {path}", outcome)

    def token(self) -> str | None:
        """The present bearer token, without the scheme; None if there is none.

        Raises:
            ObservationError: it cannot be renewed.
        """
        header = self.authorization()
        scheme, _, token = (header or "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None

    def authorization(self) -> str | None:
        """The present Authorization header, None without one.

        Raises:
            ObservationError: it cannot be renewed.
        """
        try:
            setting = self.account.configuration.auth_settings().get("BearerToken")
        except (ConfigException, OSError, ValueError) as error:
            raise _credentials_lost(self.target, type(error).__name__) from error
        value = (setting["value"] or "").strip() if setting else None
        if value and not (value.isascii() and value.isprintable()):
            raise _credentials_lost(self.target, "the token has characters that no token can have")
        return value

    def _renew(self, refused: ClusterAccount, deadline: Deadline) -> None:
        """Find the account again, unless another thread has done so since this one was used.

        It may take long to find it, so others wait until their deadline and no longer, and do not
        try again what has just failed.
        """
        asked_at = monotonic()
        if not self._renewing.acquire(timeout=max(0.0, deadline.left_seconds)):
            raise _credentials_lost(self.target, "another request is waiting for them")
        try:
            if self.account is not refused:
                return
            failed_at, reason = self._not_renewed
            if failed_at > asked_at:
                raise _credentials_lost(self.target, reason)
            try:
                self._use(self._find())
            except ConfigurationError as error:
                self._not_renewed = (monotonic(), str(error))
                raise _credentials_lost(self.target, str(error)) from error
        finally:
            self._renewing.release()

    def _attempt_as_ourselves(
        self, method: str, url: str, body: bytes | None, deadline: Deadline, accept: str = JSON
    ) -> Outcome:
        """An attempt, and a second one with renewed credentials after a 401."""
        account = self.account
        outcome = self._attempt(method, url, body, deadline, accept)
        if isinstance(outcome, Answer) and outcome.status == HTTPStatus.UNAUTHORIZED:
            self._renew(account, deadline)
            if deadline.left_seconds > 0:  # renewing takes time, and no write may begin late
                return self._attempt(method, url, body, deadline, accept)
        return outcome

    def _attempt(
        self, method: str, url: str, body: bytes | None, deadline: Deadline, accept: str
    ) -> Outcome:
        headers = self._headers(accept)
        # Uncompressed, a list arrives a kilobyte at a time; reading that costs more than inflating.
        headers["Accept-Encoding"] = "gzip"
        if body is not None:
            headers["Content-Type"] = _CONTENT_TYPES[method]
        began = monotonic()
        outcome: Outcome
        try:
            response = self._send(method, url, headers, body, deadline)
            outcome = self._whole(response, headers, deadline)
        except (HTTPError, OSError) as error:
            outcome = error
        if method == "GET":
            answer = outcome if isinstance(outcome, Answer) else None
            status, size_bytes = (answer.status, len(answer.body)) if answer else (None, 0)
            self.reads.add(url, began, status, size_bytes)
        return outcome

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept, "User-Agent": "desched"}
        authorization = self.authorization()
        return headers | ({"Authorization": authorization} if authorization else {})

    def _send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None, deadline: Deadline
    ) -> BaseHTTPResponse:
        """The head of the answer; its body is not read yet."""
        with deadline.applied():
            response: BaseHTTPResponse = self._pool.request(
                method,
                self.account.configuration.host + url,
                body=body,
                headers=headers,
                preload_content=False,
                redirect=False,  # a redirect would take the credentials along
                timeout=deadline.timeout,
            )
        return response

    def _whole(
        self, response: BaseHTTPResponse, headers: Mapping[str, str], deadline: Deadline
    ) -> Answer:
        content = self._bounds.read_body(response, deadline)
        authorization = headers.get("Authorization")
        if authorization and response.status >= _FAILED:
            text = content.decode(errors="replace")
            content = redacted(text, credentials_in(authorization)).encode()
        retry_after_seconds = _seconds(response.headers.get("Retry-After"))
        date = http_date(response.headers.get("Date"))
        return Answer(response.status, content, retry_after_seconds, date)


def connect(
    kubeconfig: Path | None,
    context: str | None,
    wait: Callable[[float], bool] | None = None,
    reads: RequestLog | None = None,
) -> KubernetesConnection:
    """A connection as the named account, else the pod's own, else the default kubeconfig's.

    No request is sent yet. Its reads are added to those of others if `reads` has these.

    Raises:
        ConfigurationError: there is no such account, or it cannot be used.
    """
    return KubernetesConnection(lambda: find_account(kubeconfig, context), wait, reads)


def _seconds(retry_after: str | None) -> float | None:
    """The number of seconds; API servers send no dates here."""
    if retry_after is None or not re.fullmatch(r"[0-9]{1,9}", retry_after.strip()):
        return None
    return float(retry_after)


def _retry_after_seconds(outcome: Outcome) -> float | None:
    """How long to wait before a retry; None for certificates and refusals, which are final."""
    if isinstance(outcome, Answer):
        return (outcome.retry_after_seconds or 0.0) if outcome.status in RETRIED_STATUSES else None
    return None if isinstance(outcome, SSLError) else 0.0


def _answered(request: str, outcome: Outcome) -> Answer:
    if isinstance(outcome, Answer):
        return outcome
    match outcome:
        case NameResolutionError():
            problem = "the name of the server does not resolve"
        case SSLError():
            problem = f"the TLS connection failed ({outcome})"
        case NewConnectionError():  # is a timeout by inheritance only
            problem = "no connection"
        case HTTPTimeoutError() | TimeoutError():
            problem = "the deadline passed"
        case _:
            problem = f"the connection broke off ({type(outcome).__name__})"
    raise ObservationError(
        ObservationSource.CLUSTER,
        f"The API server did not answer {request} completely: {problem}; check that it is "
        "reachable from here with `kubectl get --raw /readyz`.",
    ) from outcome


def _credentials_lost(target: str, reason: str) -> ObservationError:
    return ObservationError(
        ObservationSource.CLUSTER, f"The credentials for {target} cannot be renewed: {reason}"
    )
