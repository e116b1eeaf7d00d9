"""The policy as planning reads it: resolved, in ratios and seconds, defaults filled in."""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from desched.model.cluster import SYSTEM_CRITICAL_PRIORITY
from desched.model.resources import Resource
from desched.model.selectors import LabelSelector
from desched.policy.acting_window import ActingWindow
from desched.policy.compatibility import (
    EXTENDED,
    SteeringMode,
)
from desched.policy.follow_up import FollowUpRules
from desched.policy.schedulers import SchedulerRules
from desched.policy.share import Share

if TYPE_CHECKING:  # plugins build on planning, which builds on this
    from desched.planning.plugins import Plugin

HIGHEST_PRIORITY_THRESHOLD = SYSTEM_CRITICAL_PRIORITY
"""Above it pods are critical for the cluster."""


class DestinationWindow(msgspec.Struct, frozen=True):
    """A further time over which a destination is judged, by its mean or by a quantile.

    `quantile` is None for the mean and 1.0 for the maximum.
    """

    window_seconds: int
    quantile: float | None = None

    def of(self, ratios: Sequence[float]) -> float:
        """The statistic of these values, at least one; quantiles are interpolated."""
        if self.quantile is None:
            return math.fsum(ratios) / len(ratios)
        ordered = sorted(ratios)
        place = self.quantile * (len(ordered) - 1)
        below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
        return below + (above - below) * (place - math.floor(place))


class ResourceRule(msgspec.Struct, frozen=True):
    """When a resource makes a node overloaded or underloaded.

    `low_ratio` and `target_ratio` are shares of capacity; with `Policy.deviation` they are
    distances below and above the mean of all nodes. The margins lie under the target.
    `windows_seconds` is sorted, shortest first, and empty for PODS, which is counted, not measured.
    `destination_windows` are further times by which only destinations are judged.
    """

    resource: Resource
    low_ratio: float
    target_ratio: float
    stop_margin_ratio: float
    ceiling_margin_ratio: float
    windows_seconds: tuple[int, ...]
    destination_windows: tuple[DestinationWindow, ...] = ()


class NodePool(msgspec.Struct, frozen=True):
    """Nodes with thresholds of their own, compared only with each other.

    `rules` name the same resources and windows as those of the policy.
    """

    name: str
    selector: LabelSelector
    rules: tuple[ResourceRule, ...]


class MetricsType(StrEnum):
    """What is asked for load."""

    PROMETHEUS = "prometheus"
    METRICS_SERVER = "metrics-server"
    PROMETHEUS_ADAPTOR = "prometheus_adaptor"

    @property
    def is_sampled(self) -> bool:
        """Whether it has only the present, so that desched keeps samples of its own."""
        return self is not MetricsType.PROMETHEUS

    @property
    def in_words(self) -> str:
        """Its name in sentences."""
        return _TITLES[self]


_TITLES = {
    MetricsType.PROMETHEUS: "Prometheus",
    MetricsType.METRICS_SERVER: "metrics-server",
    MetricsType.PROMETHEUS_ADAPTOR: "the custom metrics API",
}


class PrometheusStack(StrEnum):
    """A stack whose Service in the cluster is found by its labels; `auto` is any of them.

    Managed services have an address and require what identifies an account of theirs.
    """

    AUTO = "auto"
    KUBE_PROMETHEUS = "kube-prometheus"
    KUBE_PROMETHEUS_STACK = "kube-prometheus-stack"
    PROMETHEUS_CHART = "prometheus-chart"
    OPENSHIFT = "openshift"
    VICTORIA_METRICS = "victoriametrics"
    THANOS = "thanos"
    MIMIR = "mimir"
    GMP = "gmp"
    AMP = "amp"

    @property
    def is_managed(self) -> bool:
        """Whether it is the service of Google or Amazon, outside the cluster."""
        return self in {PrometheusStack.GMP, PrometheusStack.AMP}


class MetricsSource(msgspec.Struct, frozen=True):
    """Where load comes from; only Prometheus has an address and what follows it.

    Values of the custom metrics API are means over `averaged_seconds`; others are not averaged.
    Without an address, the Service of `stack` in `namespace` is read; `tenant` is Mimir's.
    `matchers` are label matchers put into every built-in query. `queries` replace built-in ones;
    keys: node_cpu, node_memory, pod_cpu, pod_memory, node_cpu_destination,
    node_memory_destination; `{window}` stands for the window. `sources`, with the first four of
    these keys and node_gpu, are matchers in PromQL in place of those that select the usual
    exporters.
    """

    address: str
    matchers: Mapping[str, str] = {}
    queries: Mapping[str, str] = {}
    sources: Mapping[str, str] = {}
    type: MetricsType = MetricsType.PROMETHEUS
    stack: PrometheusStack | None = None
    namespace: str = ""
    tenant: str = ""
    averaged_seconds: int = 0

    @property
    def is_searched(self) -> bool:
        """Whether a Service of the stack is searched for in the cluster, unless a URL is set."""
        return self.stack is not None and not self.stack.is_managed


class OtherDescheduler(StrEnum):
    """A descheduler of somebody else, by its project."""

    KUBERNETES_SIGS = "kubernetes-sigs"
    KOORDINATOR = "Koordinator"
    OPENSHIFT = "OpenShift"
    VOLCANO = "Volcano"


class PriorityThreshold(msgspec.Struct, frozen=True):
    """Pods of this priority and above stay; at most one of value and PriorityClass is set.

    Neither: no threshold below the system-critical priorities. `place` is where the class is named,
    as `FILE:LINE: key.path`.
    """

    value: int | None = None
    class_name: str | None = None
    place: str = ""


class EvictionLimits(msgspec.Struct, frozen=True):
    """The most evictions, of one cycle, at a time and by the minute; None is no limit.

    A share is of the nodes in `total` and `in_flight_total`, of the namespace's pods in
    `namespace`, and of the desired replicas in the limits of a workload. A `total` of 0 stands at
    `zero_at` in the policy; without that line it would be `otherwise`. An eviction is in flight
    until its replacement is known to be settled. A cycle acts for `deadline_seconds`. With
    `slow_start`, the first cycles evict less than `total` (desched.planning.selection.slow_start).
    """

    total: int | Share = EXTENDED.total_limit
    node: int | None = EXTENDED.node_limit
    namespace: int | Share | None = None
    workload: int | Share | None = EXTENDED.workload_limit
    workload_hourly: int | Share | None = EXTENDED.workload_hourly_limit
    in_flight_total: int | Share | None = Share(0.05, at_least=20)
    in_flight_workload: int | Share | None = EXTENDED.workload_limit
    in_flight_destination: int | None = 2
    per_minute: int | None = 20
    deadline_seconds: int = 240
    slow_start: bool = EXTENDED.slow_start
    zero_at: str = ""
    otherwise: int | Share = EXTENDED.total_limit

    @property
    def planned_total(self) -> int | Share:
        """What a plan is made by: it shows what would happen without a limit of 0."""
        return self.otherwise if self.total == 0 and self.zero_at else self.total


class Protections(msgspec.Struct, frozen=True):
    """Which pods the policy protects, above those that are always protected.

    `protected_storage_classes` narrows `pvc_pods` to claims of these classes; empty means all.
    `min_pod_age_seconds` and `min_replicas` are 0 when off. `understood_owner_kinds` are written as
    `group/Kind`, those of the core group as `Kind`.
    """

    priority_threshold: PriorityThreshold = PriorityThreshold()
    system_critical: bool = True
    local_storage: bool = True
    pvc_pods: bool = False
    protected_storage_classes: tuple[str, ...] = ()
    pods_without_budget: bool = False
    single_replicas: bool = EXTENDED.single_replicas
    resource_claims: bool = False
    prefer_no_eviction_is_mandatory: bool = False
    labels: LabelSelector = LabelSelector()
    namespace_labels: LabelSelector = LabelSelector()
    included_namespaces: tuple[str, ...] = ()
    excluded_namespaces: tuple[str, ...] = ()
    min_replicas: int = 0
    min_pod_age_seconds: int = 0
    max_grace_period_seconds: int = EXTENDED.max_grace_period_seconds
    understood_owner_kinds: tuple[str, ...] = ()


HISTORY_SECONDS = 3 * 3600
LEAST_STEP_SECONDS = 300
LEAST_STEPS = 6
"""The past that shows how load swings: three hours, of long windows at least six."""

MOST_STEERED_NODES = Share(0.7)


class SteeringRules(msgspec.Struct, frozen=True):
    """When nodes get soft taints, and how many may have one; a share is of the nodes looked at."""

    mode: SteeringMode = EXTENDED.steering
    most_nodes: int | Share = MOST_STEERED_NODES


class HistoryGrid(NamedTuple):
    """Regular points from now back: `steps` + 1 of them; none without any step."""

    steps: int
    step_seconds: int

    @property
    def seconds(self) -> int:
        """How far back the first point is."""
        return self.steps * self.step_seconds


class Policy(msgspec.Struct, frozen=True):
    """All that a user decides about what may be disturbed.

    `source` names the file for reports; `digest` differs between policies. `node_selector` scopes
    the nodes that are looked at; `destination_selector` further narrows where pods may go.
    With `min_underloaded_nodes` above 0, nothing is evicted unless more nodes are underloaded.
    The move of an ordinary pod must save `eviction_price_minutes` of expected overload. With
    `deviation` no node below `deviation_floor_ratio` is overloaded, nor one within
    `dead_band_ratio` of the mean. The first of `pools` that
    selects a node has its lines; a node that none selects has those of `rules`,
    or with `only_pools` is not looked at. No pod is evicted
    whose replacement would land badly with a probability above `max_landing_risk`.
    Evictions happen only while one of `maintenance_windows` is open, if there are any, and never
    while one of `blackout_windows` is. `acknowledged_deschedulers` run in this cluster on purpose.
    Load is compared and relieved within the domains of `balance_scope`: the key of a label, of a
    level of the network or of nodes that belong together. `plugins` take part in decisions in their
    order.
    """

    source: str
    digest: str
    rules: tuple[ResourceRule, ...]
    metrics: MetricsSource
    limits: EvictionLimits = EvictionLimits()
    protections: Protections = Protections()
    deviation: bool = False
    min_underloaded_nodes: int = 0
    node_selector: LabelSelector = LabelSelector()
    destination_selector: LabelSelector = LabelSelector()
    eviction_price_minutes: float = EXTENDED.eviction_price_minutes
    deviation_floor_ratio: float = EXTENDED.deviation_floor / 100
    dead_band_ratio: float = EXTENDED.dead_band / 100
    pools: tuple[NodePool, ...] = ()
    only_pools: bool = False
    max_landing_risk: float = EXTENDED.max_landing_risk
    scheduler: SchedulerRules = SchedulerRules()
    maintenance_windows: tuple[ActingWindow, ...] = ()
    blackout_windows: tuple[ActingWindow, ...] = ()
    follow_up: FollowUpRules = FollowUpRules()
    steering: SteeringRules = SteeringRules()
    relieves_staying_excess: bool = EXTENDED.relieve_staying_excess
    acknowledged_deschedulers: tuple[OtherDescheduler, ...] = ()
    balance_scope: str = ""
    plugins: tuple["Plugin", ...] = ()

    def looks_at(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is a source or destination at all."""
        if self.only_pools and not any(pool.selector.matches(labels) for pool in self.pools):
            return False
        return self.node_selector.matches(labels)

    def pool_of(self, labels: Mapping[str, str]) -> NodePool:
        """The pool of a node with these labels; without a name for those that no pool selects."""
        default = NodePool("", LabelSelector(), self.rules)
        return next((pool for pool in self.pools if pool.selector.matches(labels)), default)

    def windows(self, resource: Resource) -> tuple[int, ...]:
        """The windows of a resource in seconds, shortest first; empty if it has no rule."""
        return next((r.windows_seconds for r in self.rules if r.resource is resource), ())

    def destination_windows(self, resource: Resource) -> tuple[DestinationWindow, ...]:
        """The further windows by which destinations are judged."""
        return next((r.destination_windows for r in self.rules if r.resource is resource), ())

    @property
    def history(self) -> HistoryGrid:
        """The points of the past of nodes and pods by which the next hour is forecast."""
        step = max(LEAST_STEP_SECONDS, self.shortest_window_seconds)
        return HistoryGrid(max(LEAST_STEPS, HISTORY_SECONDS // step), step)

    @property
    def longest_window_seconds(self) -> int:
        """The longest window of any resource, 0 if none is measured."""
        return max((max(r.windows_seconds, default=0) for r in self.rules), default=0)

    @property
    def shortest_window_seconds(self) -> int:
        """The shortest window of any resource, 0 if none is measured."""
        return min((r.windows_seconds[0] for r in self.rules if r.windows_seconds), default=0)
