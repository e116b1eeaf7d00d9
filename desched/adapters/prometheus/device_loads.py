"""The loads that plugins measure, each in requests of its own.

So neither their warnings nor their errors touch the other resources.
"""

from collections.abc import MutableMapping

from msgspec.structs import replace

from desched.adapters.kept_history import KeptTracks, Span
from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query
from desched.adapters.prometheus.history import LoadTracks, Now
from desched.adapters.prometheus.nodes import NodeIndex
from desched.errors import ObservationError
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad, DeviceLoad, LoadHistory, Measured
from desched.model.resources import Resource
from desched.policy.policy import Policy
from desched.promql.plugin import Answers, Measurement, MeasuringPlugin

Histories = dict[Resource, dict[str, LoadHistory]]


class DeviceLoads:
    """Reads the loads of one cycle; `kept` is what earlier cycles read of the past."""

    def __init__(
        self,
        client: PrometheusClient,
        index: NodeIndex,
        policy: Policy,
        kept: MutableMapping[Resource, KeptTracks],
    ) -> None:
        self._client = client
        self._index = index
        self._policy = policy
        self._kept = kept
        self._asked: list[tuple[Measurement, CycleQueries, DeviceLoad]] = []

    def added_to(self, load: ClusterLoad, cluster: ClusterState) -> ClusterLoad:
        """The load with those of plugins; nodes whose devices pods share are judged by them."""
        nodes, extras = dict(load.nodes), dict(load.extras)
        for plugin in self._policy.plugins:
            if not isinstance(plugin, MeasuringPlugin):
                continue
            measurement = plugin.measurement(self._policy, cluster)
            if measurement is None:
                continue
            queries = CycleQueries(self._client)
            devices = self._measured(measurement, queries)
            self._asked.append((measurement, queries, devices))
            extras |= devices.extras
            for node in cluster.nodes if self._policy.windows(devices.resource) else ():
                if devices.are_shared_on(node):
                    own = {devices.resource: devices.nodes[node.name]}
                    nodes[node.name] = {**nodes[node.name], **own}
        return replace(load, nodes=nodes, extras=extras)

    def _measured(self, measurement: Measurement, queries: CycleQueries) -> DeviceLoad:
        try:
            series = queries.vectors({n: Query(text) for n, text in measurement.queries.items()})
        except ObservationError as error:
            return measurement.unknown(str(error))
        if queries.warnings:
            return measurement.unknown(next(iter(queries.warnings)))
        pairs = {name: [(each.labels, each.value) for each in of] for name, of in series.items()}
        return measurement.load(Answers(pairs, queries.evaluated_at, self._index.resolve))

    @property
    def now(self) -> float:
        """When Prometheus evaluated an answer, in Unix seconds; 0 before the first series."""
        return max((queries.now for _, queries, _ in self._asked), default=0.0)

    def history(self, span: Span) -> Histories:
        """The mean load of the devices of each node in the past, without what is unknown."""
        histories: Histories = {}
        for measurement, queries, devices in self._asked:
            if measurement.history:
                histories |= self._past(measurement, queries, devices, span)
        return histories

    def _past(
        self, measurement: Measurement, queries: CycleQueries, devices: DeviceLoad, span: Span
    ) -> Histories:
        resource = devices.resource
        expressions = {resource: Query(measurement.history)}
        tracks = LoadTracks(queries, self._index, expressions, measurement.window_seconds)
        current = {
            name: load.levels[0].ratio
            for name, load in devices.nodes.items()
            if isinstance(load, Measured)
        }
        kept = self._kept.setdefault(resource, KeptTracks())
        kept.begin()
        try:
            histories = tracks.until_now(span, kept, {resource: Now(current, current)})
        except ObservationError:
            return {}
        if queries.warnings:
            kept.undo()
            return {}
        return histories
