"""The usage of every pod: whose series count, and what they say."""

import math
from collections.abc import Iterable, Mapping, Sequence

from desched.adapters.prometheus.client import Series
from desched.adapters.prometheus.cycle_queries import CycleQueries
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import own_query, pod_scope, pod_usage, throttled_pods
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource, Policy

_MILLICORES_PER_CORE = 1000.0
_AGREEMENT_SHARE = 0.2
"""Two scrapes of one kubelet may differ by this much, because they are not simultaneous."""

Usages = Mapping[tuple[str, str], tuple[float, ...]]
"""By namespace and name, one value per window: millicores or bytes."""


def usage_query(resource: Resource, window_seconds: int, metrics: MetricsSource) -> str:
    """The query for the usage of pods over a window: the user's, else the built-in one."""
    own = metrics.queries.get(f"pod_{resource}")
    if own is not None:
        return own_query(own, window_seconds)
    return pod_usage(resource, window_seconds, pod_scope(metrics, resource))


def counts(series: Series, index: NodeIndex, *, named: bool) -> bool:
    """Whether a series counts: with `named` it must name the node that its pod is on."""
    if named:
        return index.is_where_named(series.labels)
    return index.has_pod(series.labels.get("namespace", ""), series.labels.get("pod", ""))


def pod_usages(
    resource: Resource,
    windows_seconds: Sequence[int],
    queries: CycleQueries,
    index: NodeIndex,
    metrics: MetricsSource,
) -> Usages:
    """The usage of the pods that exist and were measured in every window.

    A value that is not a number of zero or more does not count.
    """
    named = f"pod_{resource}" not in metrics.queries
    scale = _MILLICORES_PER_CORE if resource is Resource.CPU else 1.0
    found: dict[tuple[str, str], list[float]] = {}
    for position, seconds in enumerate(windows_seconds):
        series = queries.vector(usage_query(resource, seconds, metrics))
        for pod, value in _values(series, index, named=named).items():
            earlier = found.setdefault(pod, [])
            if len(earlier) == position:
                earlier.append(value * scale)
    return {pod: tuple(v) for pod, v in found.items() if len(v) == len(windows_seconds)}


def throttled(
    queries: CycleQueries, index: NodeIndex, policy: Policy
) -> frozenset[tuple[str, str]]:
    """The throttled pods that exist; none if nothing measures throttling."""
    windows = policy.windows(Resource.CPU)
    if not windows:
        return frozenset()
    scope = pod_scope(policy.metrics, Resource.CPU)
    return frozenset(
        (one.labels["namespace"], one.labels["pod"])
        for one in queries.vector(throttled_pods(windows[0], scope))
        if index.is_where_named(one.labels)
    )


def _values(
    series: Iterable[Series], index: NodeIndex, *, named: bool
) -> dict[tuple[str, str], float]:
    """The value of each pod from the series that count.

    Where several series of a pod disagree it is unknown which of them is true.
    """
    found: dict[tuple[str, str], float] = {}
    doubtful: set[tuple[str, str]] = set()
    for each in series:
        if not counts(each, index, named=named):
            continue
        pod = each.labels.get("namespace", ""), each.labels.get("pod", "")
        value = found.setdefault(pod, each.value)
        usable = math.isfinite(each.value) and each.value >= 0
        if not usable or not math.isclose(value, each.value, rel_tol=_AGREEMENT_SHARE):
            doubtful.add(pod)
        found[pod] = max(value, each.value)
    return {pod: value for pod, value in found.items() if pod not in doubtful}
