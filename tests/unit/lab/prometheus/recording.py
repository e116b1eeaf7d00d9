"""A Prometheus that has recorded what a test says, for range queries."""

from collections.abc import Callable, Mapping

from tests.unit.adapters.prometheus.fake_server import Asked, FakePrometheus, Reply, matrix

Value = float | Callable[[float], float | None]
"""Of a series, always or at a time; None where it has none."""

Series = tuple[Mapping[str, str], Value]


class Recording:
    """Answers expressions with their series, and `count(...)` of them; others have no series."""

    def __init__(self, fake: FakePrometheus) -> None:
        self.series: dict[str, list[Series]] = {}
        self.fake = fake
        fake.answer = self.answer

    def add(self, expression: str, value: Value = 1.0, /, **labels: str) -> None:
        self.series.setdefault(expression, []).append((labels, value))

    def answer(self, asked: Asked) -> Reply:
        counted = asked.query.startswith("count(")
        found = self.series.get(asked.query[6:-1] if counted else asked.query, [])
        tracks = [(labels, [_at(value, at) for at in asked.times]) for labels, value in found]
        tracks = [track for track in tracks if any(v is not None for v in track[1])]
        if counted and tracks:
            columns = zip(*(values for _, values in tracks), strict=True)
            tracks = [({}, [sum(v is not None for v in column) or None for column in columns])]
        return matrix(asked, *tracks)

    @property
    def asked(self) -> list[Asked]:
        """The requests but those that count."""
        return [each for each in self.fake.asked if not each.query.startswith("count(")]


def _at(value: Value, at: float) -> float | None:
    return value(at) if callable(value) else value


def between(begin: float, end: float, value: float = 1.0) -> Callable[[float], float | None]:
    """The value at times after `begin` and until `end`."""
    return lambda at: value if begin < at <= end else None
