"""The questions of one cycle: none is put twice, and what was said beside the data is kept."""

from datetime import UTC, datetime

from desched.adapters.prometheus.client import PrometheusClient, Series


class Questions:
    """Asks for one cycle.

    `warnings` are the distinct warnings of all answers. `evaluated_at` is when Prometheus
    evaluated the latest of them by its own clock, None before the first series.
    """

    def __init__(self, client: PrometheusClient) -> None:
        self._client = client
        self._answers: dict[str, tuple[Series, ...]] = {}
        self.warnings: dict[str, None] = {}
        self.evaluated_at: datetime | None = None

    def ask(self, promql: str) -> tuple[Series, ...]:
        """The series of an expression, evaluated now.

        Raises:
            ObservationError: there is no answer, or none that can be understood.
        """
        if promql not in self._answers:
            answer = self._client.query(promql)
            self.warnings |= dict.fromkeys(answer.warnings)
            if answer.series:
                self.evaluated_at = datetime.fromtimestamp(answer.series[0].at, UTC)
            self._answers[promql] = answer.series
        return self._answers[promql]
