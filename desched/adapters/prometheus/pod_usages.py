"""The usage of pods: whose series count, and what they say."""

import math
from collections.abc import Iterable, Mapping

from desched.adapters.prometheus.client import PodLabels, Series
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import own_query, pod_scope, pod_usage
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource

_MILLICORES_PER_CORE = 1000.0
AGREEMENT_SHARE = 0.2
"""Two scrapes of one kubelet may differ by this much, because they are not simultaneous."""

PodSeries = Iterable[Series[PodLabels]]
PodKey = tuple[str, str]
Usages = Mapping[PodKey, tuple[float, ...]]
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


def usages(
    resource: Resource, windows: Iterable[PodSeries], index: NodeIndex, *, named: bool
) -> Usages:
    """The usage of the pods that exist and were measured in every window.

    A value that is not a number of zero or more does not count.
    """
    amounts: Usages = {}
    for position, series in enumerate(windows):
        values = _values(series, index, named=named)
        if position == 0:
            amounts = {pod: (value * scale(resource),) for pod, value in values.items()}
        else:
            both = amounts.keys() & values.keys()
            amounts = {pod: (*amounts[pod], values[pod] * scale(resource)) for pod in both}
    return amounts


def throttled(series: PodSeries, index: NodeIndex) -> frozenset[PodKey]:
    """The throttled pods that exist; none if nothing measures throttling."""
    labels_of = (sample.labels for sample in series)
    return frozenset((f.namespace, f.pod) for f in labels_of if index.is_where_named(f))


def scale(resource: Resource) -> float:
    """What a value of Prometheus is multiplied with: cores become millicores."""
    return _MILLICORES_PER_CORE if resource is Resource.CPU else 1.0


def agree(one: float, other: float) -> bool:
    """Whether two values may be of one kubelet, scraped twice."""
    return math.isclose(one, other, rel_tol=AGREEMENT_SHARE)


def _values(series: PodSeries, index: NodeIndex, *, named: bool) -> dict[PodKey, float]:
    """The value of each pod from the series that count.

    Where several series of a pod disagree it is unknown which of them is true.
    """
    values_of: dict[PodKey, float] = {}
    doubtful: set[PodKey] = set()
    for sample in series:
        labels, value = sample.labels, sample.value
        if not counts(labels, index, named=named):
            continue
        pod = labels.namespace, labels.pod
        if not 0.0 <= value * _MILLICORES_PER_CORE < math.inf:
            doubtful.add(pod)
        elif pod not in values_of:
            values_of[pod] = value
        else:
            if not agree(values_of[pod], value):
                doubtful.add(pod)
            values_of[pod] = max(values_of[pod], value)
    return {pod: value for pod, value in values_of.items() if pod not in doubtful}
