"""What Prometheus has for each measure, and Services that may lead to Prometheus."""

from collections.abc import Mapping

import msgspec

from desched.model.load import Measured, Unknown
from desched.model.resources import Resource


class LabelGroup(msgspec.Struct, frozen=True):
    """How many series, or how many pods of this cluster, have these labels."""

    labels: Mapping[str, str]
    count: int

    def has(self, matchers: Mapping[str, str]) -> bool:
        """Whether the labels have these values; a label that is missing is empty."""
        return all(self.labels.get(label, "") == value for label, value in matchers.items())


class MeasureFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What Prometheus has for one measure: CPU or memory of nodes, or of pods.

    `source` is the exporter that is read, empty if none has any series; with `own_query` the
    policy's query is read. `labels` are the names of the labels of its `series`. `matched` counts
    what led to nodes or pods, by its description; `unmatched` counts the series of none, and
    `examples` explains some. `measured` counts the nodes or pods with trusted load. `loads` is the
    load of each node. `oldest_age_seconds` is the largest age of a newest sample.
    `reach_seconds` is how far back the samples reach, None if that is a whole window or not known.
    `interval_seconds` is the time between scrapes, 15 also if it is shorter. `lowest` and `highest`
    are values over the shortest window: shares of capacity, cores or bytes. `short_windows` has a
    sentence for each window that is too short for it. If there are no series, `elsewhere` has
    those that the policy's matchers or sources exclude. `services` are Services, by labels of their
    series, that count only if the policy names them, with the number of nodes that each claims.
    `missing_modes` are the modes of CPU time that Prometheus does not keep, of which load cannot be
    told. `problem` is the error of a query.
    """

    name: str
    resource: Resource
    of_nodes: bool
    own_query: bool = False
    source: str = ""
    series: int = 0
    labels: tuple[str, ...] = ()
    matched: Mapping[str, int] = {}
    unmatched: int = 0
    examples: tuple[str, ...] = ()
    measured: int = 0
    loads: Mapping[str, Measured | Unknown] = {}
    oldest_age_seconds: float | None = None
    reach_seconds: float | None = None
    interval_seconds: float | None = None
    lowest: float | None = None
    highest: float | None = None
    short_windows: tuple[str, ...] = ()
    elsewhere: tuple[LabelGroup, ...] = ()
    services: tuple[LabelGroup, ...] = ()
    missing_modes: tuple[str, ...] = ()
    problem: str = ""


class MetricsFacts(msgspec.Struct, frozen=True):
    """What one Prometheus has for this cluster.

    `cluster_values` are the values of each label that identifies a cluster, in series of nodes; ""
    stands for series without the label. Of `sampled` pods of this cluster, `sightings` counts those
    that Prometheus has, by those labels and the policy's matchers; None if that is not known.
    `jobs_of_strangers` are the scrape jobs that let targets of any namespace set any label, None if
    the configuration of Prometheus could not be read.
    """

    measures: tuple[MeasureFacts, ...]
    cluster_values: Mapping[str, tuple[str, ...]] = {}
    sampled: int = 0
    sightings: tuple[LabelGroup, ...] | None = None
    jobs_of_strangers: tuple[str, ...] | None = None


class ServicePort(msgspec.Struct, frozen=True):
    """A port of a Service; `pod_port` is None if pods name it themselves."""

    number: int
    name: str = ""
    pod_port: int | None = None


class ServiceAddress(msgspec.Struct, frozen=True):
    """A Service with the labels that show what is behind it; its ports are TCP ports."""

    namespace: str
    name: str
    labels: Mapping[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
