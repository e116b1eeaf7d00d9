"""The usage of every pod; a value that is not a number of zero or more does not count."""

import math
from collections.abc import Mapping, Sequence

from desched.adapters.prometheus.cycle_queries import CycleQueries
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import own_query, pod_usage
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource

Usages = Mapping[tuple[str, str], tuple[float, ...]]
"""By namespace and name, one value per window: millicores or bytes."""

_MILLICORES_PER_CORE = 1000.0


def read_pod_usages(
    resource: Resource,
    windows_seconds: Sequence[int],
    queries: CycleQueries,
    index: NodeIndex,
    metrics: MetricsSource,
) -> Usages:
    """The usage of the pods that exist and were measured in every window."""
    own = metrics.queries.get(f"pod_{resource}")
    scale = _MILLICORES_PER_CORE if resource is Resource.CPU else 1.0
    found: dict[tuple[str, str], list[float]] = {}
    for position, seconds in enumerate(windows_seconds):
        query = (
            own_query(own, seconds)
            if own is not None
            else pod_usage(resource, seconds, metrics.matchers)
        )
        seen: set[tuple[str, str]] = set()
        for series in queries.vector(query):
            pod = series.labels.get("namespace", ""), series.labels.get("pod", "")
            values = found.setdefault(pod, [])
            usable = math.isfinite(series.value) and series.value >= 0 and index.has_pod(*pod)
            if pod in seen:
                values.clear()  # it is unknown which of several series is the pod's
            elif usable and len(values) == position:
                values.append(series.value * scale)
            seen.add(pod)
    return {pod: tuple(v) for pod, v in found.items() if len(v) == len(windows_seconds)}
