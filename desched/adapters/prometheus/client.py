"""Queries Prometheus; an error names what to check."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Generic, NoReturn, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np
import requests
from numpy.typing import NDArray
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3 import Retry
from urllib3.exceptions import NameResolutionError

from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.port_forward import port_forward_hint
from desched.adapters.prometheus.queries import PART_LABEL
from desched.adapters.prometheus.session import (
    OF_A_CYCLE,
    DeadlineAdapter,
    Patience,
    PrometheusSession,
)
from desched.adapters.redaction import credentials_in, redacted
from desched.errors import AnswerTooLarge, ObservationError, ObservationSource
from desched.model.text import shortened

LONGEST_QUERY_CHARACTERS = 7_000
"""As encoded in the URL, which proxies limit to 8 KiB. POST has no limit, but requires a further
right where an API server or kube-rbac-proxy is in between."""

_WHY_STATUS = {
    400: "could not evaluate the query (HTTP 400); check metrics.queries",
    401: "did not accept the credentials (HTTP 401); check the token or the password",
    403: "does not permit queries (HTTP 403); check what the token or user may do",
    404: "has no query API at this URL (HTTP 404); check its path",
    405: "has no query API at this URL (HTTP 405); check its path",
    422: "could not evaluate the query (HTTP 422); check metrics.queries and its limits",
    429: "refuses because of too many requests (HTTP 429), after retries too",
}

_TOO_LARGE = frozenset({413, 422})
"""How Prometheus, Thanos and Mimir refuse a query that would read or return too much."""

L = TypeVar("L")
S = TypeVar("S")
T = TypeVar("T")

_VECTOR, _MATRIX = "vector", "matrix"
_MUST_RETURN = {
    _VECTOR: "a query must return an instant vector, one value for each node or pod",
    _MATRIX: "a range query must return a matrix; check the proxies between",
}

_UnixSeconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e11)]  # until the year 5138

_LONGEST_QUOTE = 200  # characters of others' error texts


class Series(msgspec.Struct, Generic[L], frozen=True, gc=False):
    """One element of an instant vector, evaluated `at` these Unix seconds."""

    labels: L
    value: float
    at: float


Labels = dict[str, str]


class PodLabels(msgspec.Struct, frozen=True, gc=False):
    """The labels of a pod's series, empty where it has none; decoding others would take time.

    `part` names the query of several in one request that the series answers.
    """

    namespace: str = ""
    pod: str = ""
    node: str = ""
    instance: str = ""
    part: str = msgspec.field(default="", name=PART_LABEL)


def pod_labels(labels: Labels) -> PodLabels:
    """These labels of a pod's series."""
    return PodLabels(*(labels.get(name, "") for name in ("namespace", "pod", "node", "instance")))


class Grid(msgspec.Struct, frozen=True, gc=False):
    """One element of a range vector at regular times, oldest first; None where it has no value."""

    labels: Labels
    values: tuple[float | None, ...]


class Samples(msgspec.Struct, frozen=True, gc=False):
    """One element of a range vector as it was sent: Unix seconds and values, oldest first."""

    labels: Mapping[str, str]
    times: NDArray[np.float64]
    values: NDArray[np.float64]


class Answer(msgspec.Struct, Generic[S], frozen=True):
    """A vector, with the warnings about its completeness.

    `evaluated_at` is by the clock of Prometheus, None for a range and without any series.
    """

    series: tuple[S, ...]
    warnings: tuple[str, ...] = ()
    evaluated_at: datetime | None = None


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"")
    yaml: str = ""


class _Envelope(msgspec.Struct, rename="camel"):
    """The outer part of an answer; VictoriaMetrics sets `is_partial` if data is missing."""

    status: str = ""
    error: str = ""
    message: str = ""  # the error of an API server in between
    warnings: tuple[str, ...] | None = None
    infos: tuple[str, ...] | None = None
    is_partial: bool = False
    data: _Data | None = None


class _Sample(msgspec.Struct, Generic[L], gc=False):
    """A sample; a native histogram has no `value`, so it becomes NaN."""

    metric: L
    value: tuple[_UnixSeconds, str] = (0.0, "NaN")


class _Samples(msgspec.Struct):
    """The samples of a range; a native histogram has no `values`."""

    metric: dict[str, str]
    values: tuple[tuple[float, str], ...] = ()


class _RawSamples(msgspec.Struct):
    """The samples of a range as text; a native histogram has no `values`."""

    metric: dict[str, str]
    values: msgspec.Raw = msgspec.Raw(b"")


_SAMPLES: Mapping[type, msgspec.json.Decoder[Any]] = {
    dict: msgspec.json.Decoder(list[_Sample[Labels]]),
    PodLabels: msgspec.json.Decoder(list[_Sample[PodLabels]]),
}
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_RANGES = msgspec.json.Decoder(list[_Samples])
_RAW = msgspec.json.Decoder(list[_RawSamples])


class PrometheusClient:
    """Queries over one pooled session.

    `wait` pauses between attempts and returns true if desched is stopping.
    """

    def __init__(
        self,
        connection: PrometheusConnection,
        wait: Callable[[float], bool],
        patience: Patience = OF_A_CYCLE,
    ) -> None:
        self._connection = connection
        self._envelope = _Envelope()
        self._secrets: tuple[str, ...] = ()
        self._expected = _VECTOR
        self._session = PrometheusSession(connection, wait, self._inspect, patience)
        self._library = PrometheusConnect(
            url=connection.address,
            session=self._session,
        )
        # The session retries, under one deadline; Retry-After could be an hour.
        retry = Retry(total=0, read=False, respect_retry_after_header=False)
        self._session.mount(connection.address, DeadlineAdapter(max_retries=retry))

    def close(self) -> None:
        """Close the pooled connections."""
        self._library.close()

    def query(self, promql: str) -> Answer[Series[Labels]]:
        """The instant vector of an expression, evaluated at the server's present time.

        Raises:
            ObservationError: there is no answer, or none that can be understood.
        """
        return self._query(promql, dict)

    def query_pods(self, promql: str) -> Answer[Series[PodLabels]]:
        """The same for series of pods, of which there may be 150,000."""
        return self._query(promql, PodLabels)

    def _query(self, promql: str, labels: type[L]) -> Answer[Series[L]]:
        def read() -> Answer[Series[L]]:
            self._library.custom_query(promql)
            samples: list[_Sample[L]] = _SAMPLES[labels].decode(self._result)
            series = tuple(Series(s.metric, float(s.value[1]), s.value[0]) for s in samples)
            evaluated_at = datetime.fromtimestamp(series[0].at, UTC) if series else None
            return Answer(series, self._warnings(), evaluated_at)

        return self._answered(promql, _VECTOR, read)

    def query_range(
        self, promql: str, end: datetime, steps: int, step_seconds: int
    ) -> Answer[Grid]:
        """The values of an expression at `steps` + 1 regular times, the last at `end`.

        `end` is in whole seconds.

        Raises:
            ObservationError: there is no answer, or none that can be understood.
        """
        begin = end - timedelta(seconds=steps * step_seconds)
        times = [begin.timestamp() + i * step_seconds for i in range(steps + 1)]

        def read() -> Answer[Grid]:
            self._library.custom_query_range(promql, begin, end, f"{step_seconds}s")
            samples = _RANGES.decode(self._result)
            by_time = [(s.metric, {at: float(value) for at, value in s.values}) for s in samples]
            grids = tuple(Grid(labels, tuple(map(v.get, times))) for labels, v in by_time)
            return Answer(grids, self._warnings())

        return self._answered(promql, _MATRIX, read)

    def query_samples(
        self, promql: str, begin: int, end: int, step_seconds: int
    ) -> Answer[Samples]:
        """The samples of an expression at regular times, for answers with very many of them.

        The times are Unix seconds.

        Raises:
            AnswerTooLarge: the server or desched limits answers to less; ask for a shorter time.
            ObservationError: there is no answer, or none that can be understood.
        """
        first, last = (datetime.fromtimestamp(at, UTC) for at in (begin, end))

        def read() -> Answer[Samples]:
            self._library.custom_query_range(promql, first, last, f"{step_seconds}s")
            return Answer(tuple(map(_samples, _RAW.decode(self._result))), self._warnings())

        return self._answered(promql, _MATRIX, read)

    def configuration(self) -> str:
        """The configuration of Prometheus itself, in YAML; other servers have none.

        Raises:
            ObservationError: there is none, or it may not be read.
        """

        def read() -> str:
            self._session.request("GET", f"{self._connection.address}/api/v1/status/config")
            return self._envelope.data.yaml if self._envelope.data else ""

        return self._answered("", "", read)

    @property
    def _result(self) -> msgspec.Raw:
        """The samples of the latest answer, not decoded."""
        return self._envelope.data.result if self._envelope.data else msgspec.Raw(b"")

    def _answered(self, promql: str, expected: str, read: Callable[[], T]) -> T:
        if url_length(promql) > LONGEST_QUERY_CHARACTERS:
            self._fail(
                f"would get a query of more than {LONGEST_QUERY_CHARACTERS} characters in its URL "
                f"({_quoted(promql)}); shorten it, or use a recording rule"
            )
        self._expected = expected
        try:
            return read()
        except OSError as error:  # every error of requests is one; so is a certificate file gone
            self._fail(self._why_unreachable(error), error)
        except (LookupError, TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            self._fail(f"answered {_quoted(promql)} with samples that are not understood", error)
        finally:
            self._envelope = _Envelope()  # it may be large

    def _inspect(self, response: requests.Response) -> None:
        """Check a response and keep its envelope; the library sees neither."""
        headers = (
            response.request.headers.get("Authorization", ""),
            *self._connection.headers.values(),
        )
        self._secrets = tuple(secret for value in headers for secret in credentials_in(value))
        try:
            envelope = _ENVELOPE.decode(response.content)
        except (msgspec.MsgspecError, RecursionError):
            envelope = None
        if response.status_code != requests.codes.ok:
            text = self._foreign(envelope.error or envelope.message) if envelope else ""
            error = AnswerTooLarge if response.status_code in _TOO_LARGE else ObservationError
            self._fail(_why_refused(response) + (f": {text}" if text else ""), error_type=error)
        if envelope is None:
            kind = response.headers.get("Content-Type", "no content type")
            self._fail(
                f"answered with something other than query results ({self._foreign(kind)}), "
                "perhaps a login page; check the URL, its path and the credentials"
            )
        if envelope.status != "success" or envelope.data is None:
            why = self._foreign(envelope.error) or "no reason given"
            self._fail(f"answered with an error instead of data: {why}")
        if envelope.data.result_type != self._expected:
            found = self._foreign(envelope.data.result_type)
            self._fail(f"answered with a {found}; {_MUST_RETURN[self._expected]}")
        self._envelope = envelope

    def _warnings(self) -> tuple[str, ...]:
        envelope = self._envelope
        warnings = [*(envelope.warnings or ()), *filter(_is_about_data, envelope.infos or ())]
        if envelope.is_partial:
            warnings.append("the answer is marked as partial")
        return tuple(map(self._foreign, warnings))

    def _why_unreachable(self, error: OSError) -> str:
        if isinstance(error, requests.Timeout):
            return (
                f"sent no complete answer within {self._session.total_timeout_seconds:g} s; "
                "check that it is not overloaded, and the network between"
            )
        if isinstance(error, requests.exceptions.SSLError):
            return (
                "and desched did not agree on TLS; check the CA file, the client certificate and "
                "the host name in the URL; if it speaks plain http, write http:// in the URL"
            )
        if not isinstance(error, requests.RequestException):
            return f"cannot be queried because a file cannot be used: {_quoted(str(error))}"
        cause = error.args[0] if error.args else None
        if isinstance(getattr(cause, "reason", None), NameResolutionError):
            hint = port_forward_hint(self._connection.address)
            return "has a host name that does not resolve here" + (f". {hint}" if hint else "")
        if isinstance(error, requests.exceptions.ChunkedEncodingError):
            return "broke off its answer, after retries too; check the proxies between"
        return "cannot be reached; check the address, and that something listens there"

    def _foreign(self, text: str) -> str:
        """Text from the server, which may repeat the credentials."""
        return _quoted(redacted(text, self._secrets))

    def _fail(
        self,
        what: str,
        cause: Exception | None = None,
        error_type: type[ObservationError] = ObservationError,
    ) -> NoReturn:
        message = f"Prometheus at {self._connection.address} {what}."
        raise error_type(ObservationSource.PROMETHEUS, message) from cause


def _samples(raw: _RawSamples) -> Samples:
    """The samples of one series, read as one list of numbers.

    Raises:
        ValueError: the text has something other than pairs of numbers.
    """
    text = bytes(raw.values).translate(None, b'[]"')
    # Not numpy.fromstring, which makes -1 of a missing number.
    numbers = np.array(text.split(b",") if text else [], dtype=np.float64)
    if len(numbers) % 2:
        raise ValueError("a sample is no pair of numbers")
    return Samples(raw.metric, numbers[0::2], numbers[1::2])


def url_length(promql: str) -> int:
    """The number of characters of a query in a URL."""
    return len(quote(promql))


def _why_refused(response: requests.Response) -> str:
    status = response.status_code
    if "Location" in response.headers:
        return (
            f"redirects elsewhere (HTTP {status}), perhaps to a login page; use the final URL, "
            "and check the credentials"
        )
    return _WHY_STATUS.get(status, f"failed (HTTP {status}), after retries too")


def _is_about_data(info: str) -> bool:
    """Whether an info is about the data; those of PromQL are about the style of a query."""
    return not info.startswith("PromQL info")


def _quoted(text: str) -> str:
    """Foreign text as one line of bounded length, without control characters."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return shortened(" ".join(line.split()), _LONGEST_QUOTE)
