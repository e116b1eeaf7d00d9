"""Queries Prometheus; an error names what to check."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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

from desched.adapters.bounded_http import Deadline
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.port_forward import port_forward_hint
from desched.adapters.prometheus.queries import PART_LABEL
from desched.adapters.prometheus.refusals import (
    first_line,
    head,
    why_no_results,
    why_no_tls,
    why_refused,
)
from desched.adapters.prometheus.session import (
    OF_A_CYCLE,
    DeadlineAdapter,
    Patience,
    PrometheusSession,
)
from desched.adapters.redaction import credentials_in, redacted
from desched.errors import (
    AnswerTooLarge,
    AnswerTooSlow,
    ObservationError,
    ObservationSource,
    UnusableAnswer,
)
from desched.model.text import shortened

LONGEST_QUERY_CHARACTERS = 7_000
"""As encoded in the URL, which proxies limit to 8 KiB. POST has no limit, but requires a further
right where an API server or kube-rbac-proxy is in between."""

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

LONGEST_NUMBER = 64
"""Characters of the value of a sample; servers write at most half of them."""

MOST_SERIES = 500_000
"""Of an answer: more than the pods of the largest cluster have."""

LONGEST_TEXT_BYTES = 64 * 2**10
"""Of each text in an answer, of all its warnings together, and of the labels of one series."""

LONGEST_CONFIGURATION_BYTES = 8 * 2**20

_PARSED_AT_ONCE = 1000  # series, between two looks at the clock
_LONGEST_QUOTE = 200  # characters of others' error texts
_MOST_WARNINGS = 20


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

    labels: Labels
    times: NDArray[np.float64]
    values: NDArray[np.float64]


class Answer(msgspec.Struct, Generic[S], frozen=True):
    """A vector, with the warnings about its completeness.

    `evaluated_at` is by the clock of Prometheus, None for a range and without any series.
    """

    series: tuple[S, ...]
    warnings: tuple[str, ...] = ()
    evaluated_at: datetime | None = None


_NOTHING = msgspec.Raw(b"")


class _Data(msgspec.Struct, rename="camel"):
    result_type: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    yaml: msgspec.Raw = _NOTHING


class _Envelope(msgspec.Struct, rename="camel"):
    """The outer part of an answer; VictoriaMetrics sets `is_partial` if data is missing.

    Its texts are raw, because a server may send any number of them, of any length.
    """

    status: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING
    message: msgspec.Raw = _NOTHING  # the error of an API server in between
    warnings: msgspec.Raw = _NOTHING
    infos: msgspec.Raw = _NOTHING
    is_partial: bool = False
    data: _Data | None = None


class _Sample(msgspec.Struct, gc=False):
    """A sample; a native histogram has no `value`, so it becomes NaN."""

    metric: msgspec.Raw
    value: tuple[_UnixSeconds, Annotated[str, msgspec.Meta(max_length=LONGEST_NUMBER)]] = (
        0.0,
        "NaN",
    )


class _RawSamples(msgspec.Struct):
    """The samples of a range as text; a native histogram has no `values`."""

    metric: msgspec.Raw
    values: msgspec.Raw = _NOTHING


_LABELS: Mapping[type, msgspec.json.Decoder[Any]] = {
    dict: msgspec.json.Decoder(Labels),
    PodLabels: msgspec.json.Decoder(PodLabels),
}
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_SAMPLES = msgspec.json.Decoder(list[_Sample])
_RANGES = msgspec.json.Decoder(list[_RawSamples])
_TEXT = msgspec.json.Decoder(str)
_TEXTS = msgspec.json.Decoder(list[str] | None)


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
        self._deadline = Deadline(0.0)
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
            samples, decode = _SAMPLES.decode(self._result), _LABELS[labels].decode
            series = tuple(
                Series(decode(_bounded(s.metric)), float(s.value[1]), s.value[0])
                for s in self._in_time(samples)
            )
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
            samples = self._samples(promql, begin, end, step_seconds)
            by_time = (
                (s.labels, dict(zip(s.times.tolist(), s.values.tolist(), strict=True)))
                for s in samples
            )
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
            samples = tuple(self._samples(promql, first, last, step_seconds))
            return Answer(samples, self._warnings())

        return self._answered(promql, _MATRIX, read)

    def _samples(
        self, promql: str, begin: datetime, end: datetime, step_seconds: int
    ) -> Iterator[Samples]:
        """The series of a range, each with at most one sample for each time."""
        self._library.custom_query_range(promql, begin, end, f"{step_seconds}s")
        most = int((end - begin).total_seconds()) // step_seconds + 1
        for raw in self._in_time(_RANGES.decode(self._result)):
            yield _samples(raw, most)

    def _in_time(self, items: Sequence[T]) -> Iterator[T]:
        """The items, as long as there is time: a server may send many that take long."""
        for number, item in enumerate(items):
            if number % _PARSED_AT_ONCE == 0 and self._deadline.left_seconds <= 0:
                raise requests.ReadTimeout("the answer takes too long to read")
            yield item

    def configuration(self) -> str:
        """The configuration of Prometheus itself, in YAML; other servers have none.

        Raises:
            ObservationError: there is none, or it may not be read.
        """

        def read() -> str:
            self._session.request("GET", f"{self._connection.address}/api/v1/status/config")
            yaml = self._envelope.data.yaml if self._envelope.data else _NOTHING
            return _text(yaml, LONGEST_CONFIGURATION_BYTES)

        return self._answered("", "", read)

    @property
    def _result(self) -> bytes:
        """The samples of the latest answer, not decoded.

        Raises:
            AnswerTooLarge: there are too many series.
        """
        result = bytes(self._envelope.data.result) if self._envelope.data else b""
        if result.count(b"{") > 2 * MOST_SERIES:  # of which each has two
            self._fail(
                f"answered with more than {MOST_SERIES:,} series; narrow the queries with "
                "metrics.matchers to this cluster",
                error_type=AnswerTooLarge,
            )
        return result

    def _answered(self, promql: str, expected: str, read: Callable[[], T]) -> T:
        if url_length(promql) > LONGEST_QUERY_CHARACTERS:
            self._fail(
                f"would get a query of more than {LONGEST_QUERY_CHARACTERS} characters in its URL "
                f"({_quoted(promql)}); shorten it, or use a recording rule",
                error_type=ObservationError,
            )
        self._expected = expected
        self._deadline = Deadline(self._session.total_timeout_seconds)
        try:
            return read()
        except requests.exceptions.SSLError as error:
            self._fail(why_no_tls(str(error)), error)
        except OSError as error:  # every error of requests is one; so is a certificate file gone
            late = isinstance(error, requests.ReadTimeout)
            error_type = AnswerTooSlow if late else ObservationError
            self._fail(self._why_unreachable(error), error, error_type)
        except (LookupError, TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            self._fail(f"answered {_quoted(promql)} with samples that are not understood", error)
        finally:
            self._envelope = _Envelope()  # it may be large

    def _inspect(self, response: requests.Response) -> None:
        """Check a response and keep its envelope; the library sees neither."""
        authorization = response.request.headers.get("Authorization", "")
        headers = authorization, *self._connection.headers.values()
        self._secrets = tuple(secret for value in headers for secret in credentials_in(value))
        logins = self._connection.logins(authorization)
        try:
            envelope = _ENVELOPE.decode(response.content)
        except (msgspec.MsgspecError, RecursionError):
            envelope = None
        if response.status_code != requests.codes.ok:
            self._refuse(response, envelope, logins)
        if envelope is None:
            kind = response.headers.get("Content-Type", "no content type")
            self._fail(
                f"answered with something other than query results ({self._foreign(kind)}), "
                f"{why_no_results(response, logins)}{self._after(first_line(response))}"
            )
        if _text(envelope.status) != "success" or envelope.data is None:
            error = self._foreign(_text(envelope.error)) or "no reason given"
            self._fail(f"answered with an error instead of data: {error}")
        result_type = _text(envelope.data.result_type)
        if result_type != self._expected:
            returned = self._foreign(result_type)
            self._fail(f"answered with a {returned}; {_MUST_RETURN[self._expected]}")
        self._envelope = envelope

    def _refuse(
        self, response: requests.Response, envelope: _Envelope | None, logins: Sequence[str]
    ) -> NoReturn:
        error, message = (
            (_text(envelope.error), _text(envelope.message)) if envelope is not None else ("", "")
        )
        said = error or message
        said = said or (first_line(response) if envelope is None else head(response, 100))
        refusal = why_refused(response, said, logins, by_prometheus=bool(error))
        kind: type[ObservationError] = UnusableAnswer
        if response.status_code in _TOO_LARGE:
            kind = AnswerTooLarge
        elif message and not error:  # of an API server in between
            kind = ObservationError
        self._fail(f"{refusal}{self._after(said)}", error_type=kind)

    def _after(self, said: str) -> str:
        """What the server said, as the end of a sentence."""
        text = self._foreign(said)
        return f": {text}" if text else ""

    def _warnings(self) -> tuple[str, ...]:
        envelope = self._envelope
        warnings = [*_texts(envelope.warnings), *filter(_is_about_data, _texts(envelope.infos))]
        if envelope.is_partial:
            warnings.append("the answer is marked as partial")
        if (further := len(warnings) - _MOST_WARNINGS) > 0:
            warnings[_MOST_WARNINGS:] = [f"{further} more"]
        return tuple(map(self._foreign, warnings))

    def _why_unreachable(self, error: OSError) -> str:
        if isinstance(error, requests.Timeout):
            return (
                f"sent no complete answer within {self._session.total_timeout_seconds:g} s; "
                "check that it is not overloaded, and the network between"
            )
        if not isinstance(error, requests.RequestException):
            return f"cannot be queried because a file cannot be used: {_quoted(str(error))}"
        if isinstance(error, requests.exceptions.ProxyError):
            return "cannot be reached by the proxy that HTTP_PROXY or HTTPS_PROXY names; check it"
        cause = error.args[0] if error.args else None
        if isinstance(getattr(cause, "reason", None), NameResolutionError):
            hint = port_forward_hint(self._connection.address)
            return "has a host name that does not resolve here" + (f". {hint}" if hint else "")
        if isinstance(error, requests.exceptions.ChunkedEncodingError):
            return "broke off its answer, after retries too; check the proxies between"
        return "cannot be reached; check the address, and that something listens there"

    def _foreign(self, text: str) -> str:
        """Text from the server, which may repeat the credentials; of a long one the beginning."""
        return _quoted(redacted(text[: 10 * _LONGEST_QUOTE], self._secrets))

    def _fail(
        self,
        what: str,
        cause: Exception | None = None,
        error_type: type[ObservationError] = UnusableAnswer,
    ) -> NoReturn:
        message = f"Prometheus at {self._connection.address} {what}."
        raise error_type(ObservationSource.PROMETHEUS, message) from cause


def _samples(raw: _RawSamples, most: int) -> Samples:
    """The samples of one series, at most so many, read as one list of numbers.

    Raises:
        ValueError: the text has something other than such a number of pairs of numbers.
    """
    text = bytes(raw.values).translate(None, b'[]"')
    if text.count(b",") > 2 * most:
        raise ValueError("more samples than times")
    numbers = text.split(b",") if text else []
    if len(numbers) % 2:
        raise ValueError("a sample is no pair of numbers")
    if max(map(len, numbers), default=0) > LONGEST_NUMBER:  # each would take as much memory
        raise ValueError("a number is too long")
    # Not numpy.fromstring, which makes -1 of a missing number.
    values = np.array(numbers, dtype=np.float64)
    return Samples(_LABELS[dict].decode(_bounded(raw.metric)), values[0::2], values[1::2])


def _bounded(labels: msgspec.Raw) -> msgspec.Raw:
    if memoryview(labels).nbytes > LONGEST_TEXT_BYTES:
        raise ValueError("labels are too long")
    return labels


def _text(raw: msgspec.Raw, longest_bytes: int = LONGEST_TEXT_BYTES) -> str:
    """The text, empty if it is something else; of one that is too long, what it is."""
    size_bytes = memoryview(raw).nbytes
    if size_bytes > longest_bytes:
        return f"a text of {size_bytes >> 10} KiB"
    try:
        return _TEXT.decode(raw)
    except msgspec.DecodeError:
        return ""


def _texts(raw: msgspec.Raw) -> list[str]:
    """The texts, none without any; if they are too long together, how long."""
    size_bytes = memoryview(raw).nbytes
    if size_bytes > LONGEST_TEXT_BYTES:
        return [f"texts of {size_bytes >> 10} KiB"]
    return (_TEXTS.decode(raw) if size_bytes else None) or []


def url_length(promql: str) -> int:
    """The number of characters of a query in a URL."""
    return len(quote(promql))


def _is_about_data(info: str) -> bool:
    """Whether an info is about the data; those of PromQL are about the style of a query."""
    return not info.startswith("PromQL info")


def _quoted(text: str) -> str:
    """Foreign text as one line of bounded length, without control characters."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return shortened(" ".join(line.split()), _LONGEST_QUOTE)
