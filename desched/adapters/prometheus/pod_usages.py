"""The usage of every pod: whose series count, and what they say."""

import math
from collections.abc import Iterable, Mapping, Sequence

from desched.adapters.prometheus.client import PodLabels, Series
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


def counts(labels: PodLabels, index: NodeIndex, *, named: bool) -> bool:
    """Whether a series counts: with `named` it must name the node that its pod is on."""
    return index.is_where_named(labels) if named else index.has_pod(labels)


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
    found: Usages = {}
    for position, seconds in enumerate(windows_seconds):
        series = queries.of_pods(usage_query(resource, seconds, metrics))
        values = _values(series, index, named=named)
        if position == 0:
            found = {pod: (value * scale,) for pod, value in values.items()}
        else:
            both = found.keys() & values.keys()
            found = {pod: (*found[pod], values[pod] * scale) for pod in both}
    return found


def throttled(
    queries: CycleQueries, index: NodeIndex, policy: Policy
) -> frozenset[tuple[str, str]]:
    """The throttled pods that exist; none if nothing measures throttling."""
    windows = policy.windows(Resource.CPU)
    if not windows:
        return frozenset()
    scope = pod_scope(policy.metrics, Resource.CPU)
    return frozenset(
        (one.labels.namespace, one.labels.pod)
        for one in queries.of_pods(throttled_pods(windows[0], scope))
        if index.is_where_named(one.labels)
    )


def _values(
    series: Iterable[Series[PodLabels]], index: NodeIndex, *, named: bool
) -> dict[tuple[str, str], float]:
    """The value of each pod from the series that count.

    Where several series of a pod disagree it is unknown which of them is true.
    """
    found: dict[tuple[str, str], float] = {}
    doubtful: set[tuple[str, str]] = set()
    for each in series:
        labels, value = each.labels, each.value
        if not counts(labels, index, named=named):
            continue
        pod = labels.namespace, labels.pod
        if not 0.0 <= value < math.inf:
            doubtful.add(pod)
        elif pod not in found:
            found[pod] = value
        else:
            if not math.isclose(found[pod], value, rel_tol=_AGREEMENT_SHARE):
                doubtful.add(pod)
            found[pod] = max(found[pod], value)
    return {pod: value for pod, value in found.items() if pod not in doubtful}
