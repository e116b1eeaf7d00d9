"""The queries of one cycle, several of them in one request, with the warnings and times of answers.

Each request costs a connection, a place in Prometheus' queue and a read of its head block, so small
queries are sent together: their answers are told apart by a label that each of them is given.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from desched.adapters.kept_history import Span
from desched.adapters.prometheus.client import (
    LONGEST_QUERY_CHARACTERS,
    Answer,
    Grid,
    Labels,
    PodLabels,
    PrometheusClient,
    Series,
    url_length,
)
from desched.adapters.prometheus.queries import PART_LABEL, as_part
from desched.errors import AnswerTooLarge, AnswerTooSlow
from desched.promql.sources import SEPARATOR

S = TypeVar("S")

FEWEST_POINTS = 12
"""An answer with so few is slow because of the server, not because too many points are missing."""


class Query(NamedTuple):
    """An expression; one of the user is sent `alone`, so that its errors are those of no other."""

    promql: str
    alone: bool = False


Parts = Mapping[str, Query]
"""Queries by a name of letters, digits and underscores."""


class CycleQueries:
    """Sends the queries of one cycle.

    `warnings` are the distinct warnings of all answers. `evaluated` are the times at which
    Prometheus, by its clock, evaluated the answers that have series.
    """

    def __init__(self, client: PrometheusClient) -> None:
        self._client = client
        self._latest_of_pods: tuple[str, tuple[Series[PodLabels], ...]] = ("", ())
        self.warnings: dict[str, None] = {}
        self.evaluated: list[datetime] = []

    @property
    def evaluated_at(self) -> datetime | None:
        """When Prometheus evaluated the latest answer, None before the first series."""
        return self.evaluated[-1] if self.evaluated else None

    @property
    def now(self) -> float:
        """That time in Unix seconds, 0 before the first series."""
        return self.evaluated[-1].timestamp() if self.evaluated else 0.0

    def vector(self, promql: str) -> tuple[Series[Labels], ...]:
        """The series of an expression, evaluated now."""
        return self._noted(self._client.query(promql))

    def vectors(self, parts: Parts) -> Mapping[str, Sequence[Series[Labels]]]:
        """The series of each part, evaluated now."""
        return _answers(parts, self.vector, lambda series: series.labels.pop(PART_LABEL, ""))

    def parts_of_pods(self, parts: Parts) -> Mapping[str, Sequence[Series[PodLabels]]]:
        """The series of each part about pods, evaluated now."""

        def asked(promql: str) -> tuple[Series[PodLabels], ...]:
            return self._noted(self._client.query_pods(promql))

        return _answers(parts, asked, lambda series: series.labels.part)

    def of_pods(self, promql: str) -> tuple[Series[PodLabels], ...]:
        """The series of an expression about pods, evaluated now.

        Only the latest is kept, because a query without {window} is the same for all windows; it
        may have 150,000 series.
        """
        if promql != self._latest_of_pods[0]:
            self._latest_of_pods = ("", ())  # never two of them in memory
            self._latest_of_pods = (promql, self._noted(self._client.query_pods(promql)))
        return self._latest_of_pods[1]

    def grids(self, parts: Parts, steps: int, step_seconds: int) -> Mapping[str, Sequence[Grid]]:
        """The values of each part at `steps` + 1 regular times, the last of them now.

        Empty before the first series of a vector, from which the server's time is known.
        """
        if self.evaluated_at is None:
            return dict.fromkeys(parts, ())
        end = self.evaluated_at.replace(microsecond=0)
        return _grids(parts, lambda promql: self._range(promql, end, steps, step_seconds))

    def points(self, parts: Parts, span: Span) -> Mapping[str, Sequence[Grid]]:
        """The values of each part at these times."""
        return _grids(parts, lambda promql: self._points(promql, span))

    def _points(self, promql: str, span: Span) -> Sequence[Grid]:
        """The values of an expression; if one answer cannot have them all, half of the times."""
        last = datetime.fromtimestamp(span.last, UTC)
        try:
            return self._range(promql, last, span.size - 1, span.step_seconds)
        except (AnswerTooLarge, AnswerTooSlow) as error:
            fewest = FEWEST_POINTS if isinstance(error, AnswerTooSlow) else 1
            if span.size <= fewest:
                raise
            earlier, later = (self._points(promql, half) for half in span.halves)
        return _joined(earlier, later, span)

    def _range(self, promql: str, end: datetime, steps: int, step_seconds: int) -> Sequence[Grid]:
        answer = self._client.query_range(promql, end, steps, step_seconds)
        self.warnings |= dict.fromkeys(answer.warnings)
        return answer.series

    def _noted(self, answer: Answer[S]) -> tuple[S, ...]:
        self.warnings |= dict.fromkeys(answer.warnings)
        if answer.evaluated_at is not None:
            self.evaluated.append(answer.evaluated_at)
        return answer.series


def _answers(
    parts: Parts, ask: Callable[[str], Sequence[S]], part_of: Callable[[S], str]
) -> Mapping[str, Sequence[S]]:
    """What belongs to each part; a series of no part is nobody's."""
    answers: dict[str, Sequence[S]] = {}
    for promql, names in requests_for(parts):
        answer = ask(promql)
        if len(names) == 1 or parts[names[0]].alone:
            answers |= dict.fromkeys(names, answer)
            continue
        of_part: dict[str, list[S]] = {name: [] for name in names}
        for series in answer:
            part = part_of(series)
            if part in of_part:
                of_part[part].append(series)
        answers |= of_part
    return answers


def _grids(parts: Parts, ask: Callable[[str], Sequence[Grid]]) -> Mapping[str, Sequence[Grid]]:
    return _answers(parts, ask, lambda grid: grid.labels.pop(PART_LABEL, ""))


def _joined(earlier: Iterable[Grid], later: Iterable[Grid], span: Span) -> Sequence[Grid]:
    """The values of each series in both halves of the times."""
    first, second = (half.size for half in span.halves)
    values = {frozenset(grid.labels.items()): grid.values for grid in earlier}
    grids = []
    for grid in later:
        before = values.pop(frozenset(grid.labels.items()), (None,) * first)
        grids.append(Grid(grid.labels, before + grid.values))
    ended = (Grid(dict(labels), of + (None,) * second) for labels, of in values.items())
    return [*grids, *ended]


def requests_for(parts: Parts) -> list[tuple[str, list[str]]]:
    """The expressions to send, and the parts that each answers; short enough if each part is."""
    return [*_alone(parts), *_combined(parts)]


def _alone(parts: Parts) -> Iterable[tuple[str, list[str]]]:
    alone: dict[str, list[str]] = {}
    for name, query in parts.items():
        if query.alone:  # without {window} it is the same for all windows
            alone.setdefault(query.promql, []).append(name)
    return alone.items()


def _combined(parts: Parts) -> Iterator[tuple[str, list[str]]]:
    names: list[str] = []
    length = 0
    for name, query in parts.items():
        if query.alone:
            continue
        own_length = url_length(as_part(query.promql, name) + SEPARATOR)
        if names and length + own_length > LONGEST_QUERY_CHARACTERS:
            yield _together(parts, names), names
            names, length = [], 0
        names.append(name)
        length += own_length
    if names:
        yield _together(parts, names), names


def _together(parts: Parts, names: Sequence[str]) -> str:
    if len(names) == 1:
        return parts[names[0]].promql
    return SEPARATOR.join(as_part(parts[name].promql, name) for name in names)
