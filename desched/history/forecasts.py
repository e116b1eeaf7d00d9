"""Compares what was expected of the next hour with what came in it, about once an hour.

The next hour begins with the cycle after the one that ends an hour. So these hours do not always
begin at the same minute, at which Jobs may begin, too.
"""

from desched.history.logbook import Entry, ForecastHour, ForecastTotals

HOUR_SECONDS = 3600.0
LATE_SECONDS = 30.0
"""A cycle that is later by no more than this still belongs to the hour."""

LEAST_COVERED_SECONDS = 2700.0
"""Of an hour with fewer cycles it is not known what came."""

LIKELY_MINUTES = 30.0


def after_cycle(
    hour: ForecastHour | None, entry: Entry, gap_seconds: float
) -> tuple[ForecastHour, ForecastTotals]:
    """The hour after a cycle that stands for this gap, and the totals of the one that it ends."""
    if hour is None:
        return _begun(entry), ForecastTotals()
    since_seconds = (entry.at - hour.began_at).total_seconds()
    if not 0.0 <= since_seconds <= HOUR_SECONDS + LATE_SECONDS:
        return _begun(entry), _totals(hour)
    return _continued(hour, entry, gap_seconds), ForecastTotals()


def _begun(entry: Entry) -> ForecastHour:
    expected = {
        node.name: round(node.expected_minutes, 1)
        for node in entry.nodes
        if node.expected_minutes is not None
    }
    return _without(ForecastHour(entry.at, expected=expected), _moved(entry))


def _continued(hour: ForecastHour, entry: Entry, gap_seconds: float) -> ForecastHour:
    came = dict(hour.came)
    for node in entry.nodes:
        if any(ratio > lines.target_ratio for _, ratio, lines in node.loads):
            came[node.name] = came.get(node.name, 0.0) + gap_seconds / 60
    measured = {node.name for node in entry.nodes if node.loads}
    covered = hour.covered_seconds + gap_seconds
    more = ForecastHour(hour.began_at, covered, hour.expected, came, hour.left_out)
    return _without(more, _moved(entry) | (hour.expected.keys() - measured))


def _moved(entry: Entry) -> set[str]:
    """The nodes whose pods are others than those of the forecast, because desched moved some."""
    begun = {move.node for move in entry.moves if not move.dry_run}
    return begun | {move.landed_on for move in entry.settled if move.landed_on}


def _without(hour: ForecastHour, nodes: set[str]) -> ForecastHour:
    out = nodes.union(hour.left_out)
    return ForecastHour(
        hour.began_at,
        hour.covered_seconds,
        {name: minutes for name, minutes in hour.expected.items() if name not in out},
        {name: minutes for name, minutes in hour.came.items() if name not in out},
        tuple(sorted(out)),
    )


def _totals(hour: ForecastHour) -> ForecastTotals:
    if hour.covered_seconds < LEAST_COVERED_SECONDS:
        return ForecastTotals()
    scale = HOUR_SECONDS / hour.covered_seconds
    came = {name: round(minutes * scale, 1) for name, minutes in hour.came.items()}
    likely = [name for name, minutes in hour.expected.items() if minutes >= LIKELY_MINUTES]
    return ForecastTotals(
        node_hours=len(hour.expected),
        expected_minutes=sum(hour.expected.values()),
        came_minutes=sum(came.get(name, 0.0) for name in hour.expected),
        unexpected_minutes=sum(came[name] for name in came.keys() - hour.expected.keys()),
        likely=len(likely),
        likely_came=sum(came.get(name, 0.0) >= LIKELY_MINUTES for name in likely),
    )


def both(one: ForecastTotals, other: ForecastTotals) -> ForecastTotals:
    """The totals of both."""
    return ForecastTotals(
        one.node_hours + other.node_hours,
        one.expected_minutes + other.expected_minutes,
        one.came_minutes + other.came_minutes,
        one.unexpected_minutes + other.unexpected_minutes,
        one.likely + other.likely,
        one.likely_came + other.likely_came,
    )
