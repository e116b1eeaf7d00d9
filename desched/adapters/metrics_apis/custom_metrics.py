"""The load of all nodes at custom.metrics.k8s.io, by the names of Volcano's metrics.

An adapter such as prometheus-adapter answers by rules of its own. It gives each value the time of
the answer, so the age of what a value is made of is not known.
"""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, NamedTuple

from msgspec import Meta

from desched.adapters.kubernetes.client.access import GET_NODE_CPU, GET_NODE_MEMORY
from desched.adapters.kubernetes.client.api_types.status import APIGroup
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.metrics_apis.answers import MetricsApi, unread
from desched.adapters.metrics_apis.lists import ListedSamples
from desched.adapters.metrics_apis.samples import MILLIONTHS, Sample
from desched.api_objects.access import Access
from desched.api_objects.decoding import Decoder
from desched.api_objects.metadata import Time, Wire, Word
from desched.errors import ObservationError
from desched.model.resources import exact_quantity
from desched.policy.durations import duration_text

ALL_NODES = "*"
VERSIONS = ("v1beta2", "v1beta1")
"""The newest first; they differ in the names of two fields."""

STANDS_FOR_SECONDS = 15.0
"""What a value tells about by itself; the next sample comes then."""

_CHECK = "check the adapter with `kubectl get apiservice v1beta1.custom.metrics.k8s.io`"

Window = Annotated[int, Meta(ge=0)] | None


class _Described(Wire):
    kind: str
    name: Word


class _MetricValue(Wire):
    described_object: _Described
    timestamp: Time
    value: str
    window: Window = None
    """Of v1beta1."""
    window_seconds: Window = None
    """Of v1beta2."""


class _Value(NamedTuple):
    """One metric of a node: its share of capacity, a mean over the time before."""

    at: datetime
    share: float
    averaged_seconds: int


def _value(item: _MetricValue) -> tuple[str, _Value]:
    described = item.described_object
    if described.kind != "Node":
        raise ValueError(f"it describes a {described.kind[:40]}, not a Node")
    averaged = item.window or item.window_seconds or 0
    return described.name, _Value(item.timestamp, float(exact_quantity(item.value)), averaged)


_VALUES = Decoder(_MetricValue, _value)
_GROUP = Decoder(APIGroup, lambda group: {version.version for version in group.versions or ()})


class CustomMetrics:
    """Reads CPU and memory of all nodes, each in one request."""

    def __init__(
        self, connection: KubernetesConnection, deadline_seconds: float, averaged_seconds: int
    ) -> None:
        self._connection = connection
        self._deadline_seconds = deadline_seconds
        self._averaged_seconds = averaged_seconds
        self._version = ""

    def nodes(self) -> ListedSamples[str]:
        """The load of the nodes that have both metrics.

        Raises:
            ObservationError: it could not be read in time, or the values are means over longer than
                the policy says.
        """
        self._version = self._version or self._served_version()
        try:
            cpu, _ = self._values(GET_NODE_CPU)
            memory, at = self._values(GET_NODE_MEMORY)
        except ObservationError:
            self._version = ""  # the adapter may have been replaced
            raise
        both = cpu.keys() & memory.keys()
        return ListedSamples({name: _sample(cpu[name], memory[name]) for name in both}, at)

    def _served_version(self) -> str:
        path = f"/apis/{GET_NODE_CPU.group}"
        answer = self._connection.get(path, deadline_seconds=self._deadline_seconds)
        served = _GROUP.one(answer.body) if answer.status == HTTPStatus.OK else set()
        for version in VERSIONS:
            if version in served:
                return version
        answered = f"versions {', '.join(sorted(served))}" if served else f"status {answer.status}"
        raise unread(
            f"The API server does not serve {GET_NODE_CPU.group} in a version that desched reads "
            f"({answered}); {_CHECK}, or set metrics.type to prometheus."
        )

    def _values(self, metric: Access) -> tuple[dict[str, _Value], datetime]:
        access = metric._replace(version=self._version)
        path = access.path(name=ALL_NODES)
        absent = {
            HTTPStatus.NOT_FOUND: f"The custom metrics API has no {_name(metric)} of nodes; check "
            f'the rules of the adapter, and ask with `kubectl get --raw "{path}"`',
            HTTPStatus.SERVICE_UNAVAILABLE: f"The custom metrics API does not answer; {_CHECK}",
        }
        api = MetricsApi(self._connection, self._deadline_seconds, absent)
        body, at = api.read(access, ALL_NODES)
        values = dict(_VALUES.page(body).values)
        longest = max((value.averaged_seconds for value in values.values()), default=0)
        if longest > self._averaged_seconds:
            raise unread(
                f"{_name(metric)} is a mean over {duration_text(longest)}, but "
                f'metrics.averagedOver is "{duration_text(self._averaged_seconds)}"; set it to '
                f'"{duration_text(longest)}".'
            )
        return values, at


def _name(metric: Access) -> str:
    return metric.resource.partition("/")[2]


def _sample(cpu: _Value, memory: _Value) -> Sample:
    """Both values, as old as the older one."""
    at = min(cpu.at, memory.at).timestamp()
    return Sample(at, STANDS_FOR_SECONDS, cpu.share * MILLIONTHS, memory.share * MILLIONTHS)
