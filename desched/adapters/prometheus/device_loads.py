"""The loads of devices that plugins measure, each in requests of its own.

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
from desched.model.load import (
    ClusterLoad,
    DeviceLoad,
    LoadHistory,
    Measured,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Resource
from desched.policy.policy import Policy
from desched.promql.plugin import Answers, DeviceMeasures, MeasuringPlugin, windows_of

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
        self._read: list[tuple[DeviceMeasures, CycleQueries, DeviceLoad]] = []

    def added_to(self, load: ClusterLoad, cluster: ClusterState) -> ClusterLoad:
        """The load with those of devices, by which nodes are judged where pods share them."""
        nodes, extras = dict(load.nodes), dict(load.extras)
        for plugin in self._policy.plugins:
            if not isinstance(plugin, MeasuringPlugin):
                continue
            having = [node for node in cluster.nodes if plugin.load.uses(node.allocatable)]
            if not (having and all(windows_of(self._policy, plugin.load))):
                continue
            queries = CycleQueries(self._client)
            devices = self._measured(plugin.measures, queries, cluster)
            if isinstance(devices, str):
                unknown = Unknown(UnknownReason.ABSENT, devices)
                devices = plugin.load({node.name: unknown for node in having})
            self._read.append((plugin.measures, queries, devices))
            extras |= devices.extras
            for node in having if self._policy.windows(devices.resource) else ():
                if devices.are_shared_on(node):
                    own = {devices.resource: devices.nodes[node.name]}
                    nodes[node.name] = {**nodes[node.name], **own}
        return replace(load, nodes=nodes, extras=extras)

    def _measured(
        self, measures: DeviceMeasures, queries: CycleQueries, cluster: ClusterState
    ) -> DeviceLoad | str:
        """Return the load, or why there is no complete answer."""
        parts = {name: Query(text) for name, text in measures.queries(self._policy).items()}
        try:
            answers = queries.vectors(parts)
        except ObservationError as error:
            return str(error)
        if queries.warnings:
            return next(iter(queries.warnings))
        series = {name: [(one.labels, one.value) for one in of] for name, of in answers.items()}
        found = Answers(series, queries.evaluated_at, self._index.resolve)
        return measures.measured(self._policy, cluster, found)

    @property
    def now(self) -> float:
        """When Prometheus evaluated an answer, in Unix seconds; 0 before the first series."""
        return max((queries.now for _, queries, _ in self._read), default=0.0)

    def history(self, span: Span) -> Histories:
        """The mean load of the devices of each node in the past, without what is unknown."""
        histories: Histories = {}
        for measures, queries, devices in self._read:
            resource = devices.resource
            if not (windows := self._policy.windows(resource)):
                continue
            expressions = {resource: Query(measures.mean(self._policy))}
            tracks = LoadTracks(queries, self._index, expressions, windows[0])
            current = {
                name: load.levels[0].ratio
                for name, load in devices.nodes.items()
                if isinstance(load, Measured)
            }
            kept = self._kept.setdefault(resource, KeptTracks())
            kept.begin()
            try:
                past = tracks.until_now(span, kept, {resource: Now(current, current)})
            except ObservationError:
                continue
            if queries.warnings:
                kept.undo()
            else:
                histories |= past
        return histories
