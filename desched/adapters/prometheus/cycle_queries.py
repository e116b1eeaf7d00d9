"""The queries of one cycle, with the warnings and times of their answers."""

from datetime import datetime
from typing import TypeVar

from desched.adapters.prometheus.client import (
    Answer,
    Grid,
    Labels,
    PodLabels,
    PrometheusClient,
    Series,
)

S = TypeVar("S")


class CycleQueries:
    """Sends the queries of one cycle.

    Only the latest vectors are kept, because a query without {window} is the same for all windows;
    a vector may have 100,000 series. `warnings` are the distinct warnings of all answers.
    `evaluated` are the times at which Prometheus, by its clock, evaluated the answers that have
    series.
    """

    def __init__(self, client: PrometheusClient) -> None:
        self._client = client
        self._latest: tuple[str, tuple[Series[Labels], ...]] = ("", ())
        self._latest_of_pods: tuple[str, tuple[Series[PodLabels], ...]] = ("", ())
        self._grids: dict[tuple[str, int, int], tuple[Grid, ...]] = {}
        self.warnings: dict[str, None] = {}
        self.evaluated: list[datetime] = []

    @property
    def evaluated_at(self) -> datetime | None:
        """When Prometheus evaluated the latest answer, None before the first series."""
        return self.evaluated[-1] if self.evaluated else None

    def vector(self, promql: str) -> tuple[Series[Labels], ...]:
        """The series of an expression, evaluated now."""
        if promql != self._latest[0]:
            self._latest = (promql, self._noted(self._client.query(promql)))
        return self._latest[1]

    def of_pods(self, promql: str) -> tuple[Series[PodLabels], ...]:
        """The series of an expression about pods, evaluated now."""
        if promql != self._latest_of_pods[0]:
            self._latest_of_pods = ("", ())  # never two of them in memory
            self._latest_of_pods = (promql, self._noted(self._client.query_pods(promql)))
        return self._latest_of_pods[1]

    def _noted(self, answer: Answer[S]) -> tuple[S, ...]:
        self.warnings |= dict.fromkeys(answer.warnings)
        if answer.evaluated_at is not None:
            self.evaluated.append(answer.evaluated_at)
        return answer.series

    def grids(self, promql: str, steps: int, step_seconds: int) -> tuple[Grid, ...]:
        """The values of an expression at `steps` + 1 regular times, the last of them now.

        Empty before the first series of `vector`, from which the server's time is known.
        """
        if self.evaluated_at is None:
            return ()
        key = (promql, steps, step_seconds)
        if key not in self._grids:
            end = self.evaluated_at.replace(microsecond=0)
            answer = self._client.query_range(promql, end, steps, step_seconds)
            self.warnings |= dict.fromkeys(answer.warnings)
            self._grids[key] = answer.series
        return self._grids[key]
