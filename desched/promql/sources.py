"""Sources of the load of nodes in PromQL: whose series count, their age and coverage."""

from collections.abc import Callable
from typing import NamedTuple

from desched.policy.policy import MetricsSource

CLUSTER_LABELS = ("cluster", "cluster_id", "cluster_name", "k8s_cluster")

CHECKPOINTS = 10
"""The number of points in a window at which coverage by samples is checked."""
LONGEST_GAP_SHARE = 0.3
"""Of the window, between samples: allows four scrapes in a window, some of them late."""
STALE_AFTER_SECONDS = 180.0
"""A sample counts for at most three scrape intervals of a minute: a late one is no gap."""

_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\ufffd": r"\ufffd"}
"""Prometheus takes an unescaped U+FFFD for broken UTF-8."""

SEPARATOR = " or "
"""Between parts, which have no series in common because each has a label of its own."""

Scope = str
"""Label matchers as in PromQL, without braces."""


def scope_of(metrics: MetricsSource, measure: str, default: Scope) -> Scope:
    """Whose series count for a measure such as `pod_cpu`; the policy may replace the default."""
    own = (f'{name}="{_escaped(value)}"' for name, value in sorted(metrics.matchers.items()))
    return ",".join([metrics.sources.get(measure) or default, *own])


class NodeSource(NamedTuple):
    """A source of node load.

    `scope` is that of its exporters as usual stacks label them. `by` aggregates to its series.
    `raw` is the metric whose samples show age and coverage, as arguments of `selector`; `ratio`
    returns the query for the mean load over a window, as a share of capacity. `pods_ratio` returns
    that for the most that all pods together can use, if it differs from the load. `size` returns
    that for the number of CPUs or the bytes of memory of which the load is a share, `quick_size`
    that for a part that shows most of it and reads less.
    """

    name: str
    scope: Scope
    by: str
    raw: tuple[str, str]
    ratio: Callable[[int, Scope], str]
    pods_ratio: Callable[[int, Scope], str] | None = None
    size: Callable[[Scope], str] | None = None
    quick_size: Callable[[Scope], str] | None = None

    def age(self, scope: Scope) -> str:
        """The age of the newest sample of each series, in seconds, without series that have ended.

        A query of its own, because a computed result has the timestamp of its evaluation.
        """
        return f"time() - {self._newest(scope)}"

    def covered_checkpoints(self, window_seconds: int, scope: Scope) -> str:
        """The number of checkpoints of a window with a recent sample, for each series.

        This works for any scrape interval, and detects late starts and gaps alike.
        """
        step_ms = window_seconds * 1000 // CHECKPOINTS
        gap_seconds = min(window_seconds * LONGEST_GAP_SHARE, STALE_AFTER_SECONDS)
        fresh = f"{self._newest(scope)} >= time() - {gap_seconds:g}"
        return f"count_over_time(({fresh})[{window_seconds}s:{step_ms}ms])"

    def scrape_interval(self, scope: Scope) -> str:
        """The median time between samples over ten minutes, in seconds; at least 15."""
        seen = f"({self._newest(scope)})[10m:15s]"
        span = f"(max_over_time({seen}) - min_over_time({seen}))"
        return f"quantile(0.5, {span} / (changes({seen}) > 0))"

    def _newest(self, scope: Scope) -> str:
        return f"max {self.by} (timestamp({selector(*self.raw, scope)}))"


def selector(metric: str, conditions: str, scope: Scope) -> str:
    """The series of a metric that match the conditions and the scope, both without braces."""
    inside = ",".join(filter(None, (conditions, scope)))
    return f"{metric}{{{inside}}}" if inside else metric


def _escaped(value: str) -> str:
    """The value as it is written between double quotes."""
    return "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in value)
