"""The two lists of metrics.k8s.io: the present usage of all nodes, and of all pods."""

import math
import re
from datetime import datetime
from http import HTTPStatus
from typing import Generic, NamedTuple, TypeVar

from desched.adapters.kubernetes.client.access import LIST_NODE_METRICS, LIST_POD_METRICS
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.metrics_apis.answers import MetricsApi
from desched.adapters.metrics_apis.samples import Sample
from desched.api_objects.kinds import Kind
from desched.api_objects.metadata import Metadata, Time, Wire
from desched.model.resources import exact_quantity

K = TypeVar("K")

_MILLICORES_PER_CORE = 1000
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_WINDOW_TEXT = 40


class _Usage(Wire):
    cpu: str
    memory: str


class _NodeMetrics(Wire):
    metadata: Metadata
    timestamp: Time
    window: str
    usage: _Usage


class _Container(Wire):
    usage: _Usage


class _PodMetrics(Wire):
    metadata: Metadata
    timestamp: Time
    window: str
    containers: list[_Container] | None = None


class ListedSamples(NamedTuple, Generic[K]):
    """What one list has, by name, and the server's clock then."""

    samples: dict[K, Sample]
    at: datetime


def _node(item: _NodeMetrics) -> tuple[str, Sample]:
    cpu, memory = _amounts(item.usage)
    at, seconds = item.timestamp.timestamp(), _window_seconds(item.window)
    return item.metadata.name, Sample(at, seconds, cpu, memory)


def _pod(item: _PodMetrics) -> tuple[tuple[str, str], Sample] | None:
    """The usage of all containers together; without any, nothing was measured."""
    amounts = [_amounts(container.usage) for container in item.containers or ()]
    if not amounts:
        return None
    cpu, memory = (math.fsum(column) for column in zip(*amounts, strict=True))
    at, seconds = item.timestamp.timestamp(), _window_seconds(item.window)
    key = item.metadata.namespace, item.metadata.name
    return key, Sample(at, seconds, cpu, memory)


def _amounts(usage: _Usage) -> tuple[float, float]:
    cpu = float(exact_quantity(usage.cpu) * _MILLICORES_PER_CORE)
    memory = float(exact_quantity(usage.memory))
    if not (0.0 <= cpu < math.inf and 0.0 <= memory < math.inf):
        raise ValueError(f"a usage of {usage.cpu} CPU and {usage.memory} memory is impossible")
    return cpu, memory


def _window_seconds(text: str) -> float:
    """The seconds of a Go duration, with fractions."""
    parts = _PART.findall(text) if len(text) <= _LONGEST_WINDOW_TEXT else []
    if "".join(number + unit for number, unit in parts) != text or not parts:
        raise ValueError(f"not a duration: {text[:_LONGEST_WINDOW_TEXT]!r}")
    return math.fsum(float(number) * _SECONDS[unit] for number, unit in parts)


_NODES = Kind(LIST_NODE_METRICS, _NodeMetrics, _node)
_PODS = Kind(LIST_POD_METRICS, _PodMetrics, _pod)


_ABSENT = (
    "The API server does not serve metrics.k8s.io; check that metrics-server runs with "
    "`kubectl get apiservice v1beta1.metrics.k8s.io`, or set metrics.type to prometheus"
)


class MetricsLists:
    """Reads the lists."""

    def __init__(self, connection: KubernetesConnection, deadline_seconds: float) -> None:
        absent = dict.fromkeys((HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE), _ABSENT)
        self._api = MetricsApi(connection, deadline_seconds, absent)

    def nodes(self) -> ListedSamples[str]:
        """The usage of all nodes.

        Raises:
            ObservationError: it could not be read in time.
        """
        body, at = self._api.read(_NODES.access)
        return ListedSamples(dict(_NODES.decoder().page(body).values), at)

    def pods(self) -> ListedSamples[tuple[str, str]]:
        """The usage of all pods, by namespace and name.

        Raises:
            ObservationError: it could not be read in time.
        """
        body, at = self._api.read(_PODS.access)
        return ListedSamples(dict(filter(None, _PODS.decoder().page(body).values)), at)
