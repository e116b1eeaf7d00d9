"""The policy as planning reads it: resolved, in ratios and seconds, defaults filled in."""

import math
from collections.abc import Mapping

import msgspec

from desched.model.resources import Resource
from desched.model.selectors import LabelSelector

DEFAULT_TOTAL_FLOOR = 5
DEFAULT_TOTAL_SHARE = 0.01


class ResourceRule(msgspec.Struct, frozen=True):
    """When a resource makes a node overloaded or underloaded.

    `low_ratio` and `trigger_ratio` are shares of capacity; with `Policy.deviation` they are
    distances below and above the mean of all nodes. The margins lie under the trigger.
    `windows_seconds` is sorted, shortest first, and empty for PODS, which is counted, not measured.
    """

    resource: Resource
    low_ratio: float
    trigger_ratio: float
    stop_margin_ratio: float
    ceiling_margin_ratio: float
    windows_seconds: tuple[int, ...]


class MetricsSource(msgspec.Struct, frozen=True):
    """Where load comes from.

    `matchers` are label matchers put into every built-in query. `queries` replace built-in ones;
    keys: node_cpu, node_memory, pod_cpu, pod_memory; `{window}` stands for the window.
    """

    address: str
    matchers: Mapping[str, str] = {}
    queries: Mapping[str, str] = {}


class PriorityThreshold(msgspec.Struct, frozen=True):
    """Pods of this priority and above stay; at most one of value and PriorityClass is set.

    Neither: no threshold below the system-critical priorities.
    """

    value: int | None = None
    class_name: str | None = None


class EvictionLimits(msgspec.Struct, frozen=True):
    """The most evictions of one cycle; None in `total` means max(5, 1 % of the nodes)."""

    total: int | None = None
    node: int | None = 2
    namespace: int | None = None
    workload: int | None = 1

    def total_for(self, node_count: int) -> int:
        """The limit for a cluster of this many nodes."""
        if self.total is not None:
            return self.total
        return max(DEFAULT_TOTAL_FLOOR, math.floor(node_count * DEFAULT_TOTAL_SHARE))


class Protections(msgspec.Struct, frozen=True):
    """Which pods the policy protects, above those that are always protected.

    `protected_storage_classes` narrows `pvc_pods` to claims of these classes; empty means all.
    `min_pod_age_seconds` and `min_replicas` are 0 when off.
    """

    priority_threshold: PriorityThreshold = PriorityThreshold()
    system_critical: bool = True
    bare_failed_pods: bool = True
    local_storage: bool = True
    pvc_pods: bool = False
    protected_storage_classes: tuple[str, ...] = ()
    pods_without_budget: bool = False
    resource_claims: bool = False
    prefer_no_eviction_is_mandatory: bool = False
    labels: LabelSelector | None = None
    namespace_labels: LabelSelector | None = None
    included_namespaces: tuple[str, ...] = ()
    excluded_namespaces: tuple[str, ...] = ()
    min_replicas: int = 0
    min_pod_age_seconds: int = 0


class Policy(msgspec.Struct, frozen=True):
    """All that a user decides about what may be disturbed.

    `source` names the file for reports; `digest` tells two policies apart. `node_selector` scopes
    the nodes that are looked at; `destination_selector` further narrows where pods may go.
    With `min_underloaded_nodes` above 0, nothing is evicted unless more nodes are underloaded.
    """

    source: str
    digest: str
    profile: str
    rules: tuple[ResourceRule, ...]
    metrics: MetricsSource
    limits: EvictionLimits = EvictionLimits()
    protections: Protections = Protections()
    deviation: bool = False
    min_underloaded_nodes: int = 0
    node_selector: LabelSelector = LabelSelector()
    destination_selector: LabelSelector = LabelSelector()

    def windows(self, resource: Resource) -> tuple[int, ...]:
        """The windows of a resource in seconds, shortest first; empty if it has no rule."""
        return next((r.windows_seconds for r in self.rules if r.resource is resource), ())

    @property
    def longest_window_seconds(self) -> int:
        """The longest window of any resource, 0 if none is measured."""
        return max((max(r.windows_seconds, default=0) for r in self.rules), default=0)

    @property
    def shortest_window_seconds(self) -> int:
        """The shortest window of any resource, 0 if none is measured."""
        return min((r.windows_seconds[0] for r in self.rules if r.windows_seconds), default=0)
