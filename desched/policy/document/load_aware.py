"""The arguments of the plugin LoadAware: Volcano's keys, and desched's own."""

from typing import Annotated

from pydantic import Field

from desched.policy.compatibility import EXTENDED, Compatibility
from desched.policy.document.acting_windows import ActingWindowSection
from desched.policy.document.follow_up import FollowUpSection
from desched.policy.document.limits import CountOrShare, EvictionLimitsSection
from desched.policy.document.metrics import Metrics
from desched.policy.document.scheduler import SchedulerSection
from desched.policy.document.steering import DEFAULT_MOST_NODES, SteeringMode
from desched.policy.document.thresholds import (
    DestinationWindows,
    NodePoolSection,
    ResourcePercentages,
    Windows,
)
from desched.policy.document.values import (
    Count,
    LabelSelectorSection,
    NamespaceName,
    OwnerKind,
    Percent,
    PluginArgs,
    PriorityThresholdSection,
    Seconds,
    Section,
    SelectorText,
    default_is,
)
from desched.policy.durations import duration_text
from desched.policy.policy import Steering

DEFAULT_WINDOW_SECONDS = 300
"""Five samples where Prometheus scrapes once a minute, as its community chart does."""


class EvictableNamespaces(Section):
    """Whose pods may move: those of some namespaces, or of all but some."""

    include: tuple[NamespaceName, ...] | None = Field(
        default=None, description="Only pods of these namespaces may move; instead of `exclude`."
    )
    exclude: tuple[NamespaceName, ...] | None = Field(
        default=None, description="Pods of these namespaces stay."
    )


class LoadAwareArgs(PluginArgs):
    """When a node is overloaded, and which of its pods may move."""

    compatibility: Compatibility | None = Field(
        default=Compatibility.EXTENDED,
        description="`Strict` turns defaults off that other deschedulers lack, for comparisons "
        "with them; see below.",
        examples=["Strict"],
    )
    use_deviation_thresholds: bool | None = Field(
        default=False,
        description="Read both thresholds as distances in percentage points below and above the "
        "mean load of all nodes.",
    )
    thresholds: ResourcePercentages = Field(
        description="Load in percent below which, in every resource, a node counts as underloaded."
    )
    target_thresholds: ResourcePercentages = Field(
        description="Load in percent above which, in any resource, a node is overloaded. "
        "The same resources as in `thresholds`."
    )
    number_of_nodes: Count | None = Field(
        default=0, description="Evict only while more nodes than this are underloaded; 0: always."
    )
    node_selector: SelectorText | None = Field(
        default=None,
        description="Label selector of the nodes that are looked at, as sources and destinations.",
    )
    evict_local_storage_pods: bool | None = Field(
        default=None,
        description="Whether pods with an emptyDir on disk may move; those with a hostPath move "
        "only if an annotation asks for it. "
        "As in every key that DefaultEvictor has too, the more protective holds.",
        json_schema_extra=default_is(value=False),
    )
    evict_system_critical_pods: bool | None = Field(
        default=None,
        description="Whether pods of system-critical priority may move; "
        "`priorityThreshold` holds regardless.",
        json_schema_extra=default_is(value=False),
    )
    ignore_pvc_pods: bool | None = Field(
        default=None,
        description="Whether pods with a PersistentVolumeClaim stay.",
        json_schema_extra=default_is(value=False),
    )
    evict_failed_bare_pods: bool | None = Field(
        default=None,
        description="Accepted; a failed pod makes no load that a move could take away.",
        json_schema_extra=default_is(value=False),
    )
    label_selector: LabelSelectorSection | None = Field(
        default=None, description="Only pods with these labels may move."
    )
    priority_threshold: PriorityThresholdSection | None = Field(
        default=None, description="Pods of this priority and above stay; the lower of both holds."
    )
    node_fit: bool | None = Field(
        default=None, description="Accepted; whether a pod fits elsewhere is always checked."
    )
    evictable_namespaces: EvictableNamespaces | None = Field(
        default=None,
        description="Whose pods may move. Default: those of all namespaces but kube-system, "
        "kube-public, kube-node-lease and desched-system, which only `include` lets go.",
    )
    evict_single_replica: bool | None = Field(
        default=None,
        description="Whether the only replica of a workload may move, which is then away until its "
        "replacement is Ready.",
        json_schema_extra=default_is(not EXTENDED.single_replicas),
        examples=[True],
    )
    max_grace_period: Seconds | None = Field(
        default=None,
        description="Pods with a longer `terminationGracePeriodSeconds` stay.",
        json_schema_extra=default_is(duration_text(EXTENDED.max_grace_period_seconds)),
        examples=["30m"],
    )
    understood_owner_kinds: tuple[OwnerKind, ...] | None = Field(
        default=None,
        description="Further kinds of controllers, as group and kind, that replace an evicted pod "
        "by a new one elsewhere. Their pods move only within a PodDisruptionBudget.",
        examples=[["argoproj.io/Rollout"]],
    )
    metrics: Metrics = Field(description="Where load comes from.")
    duration: Seconds | None = Field(
        default=None,
        description="One window for CPU and memory, where `windows` does not say otherwise.",
        json_schema_extra=default_is(duration_text(DEFAULT_WINDOW_SECONDS)),
    )
    windows: Windows | None = Field(
        default=None,
        description="Over which times load is measured, by resource.",
        examples=[{"cpu": ["5m", "15m"]}],
    )
    sustained_for: Seconds | None = Field(
        default=None,
        description="For how long a node must have been above a target, at 80 % of the points of "
        "Prometheus' history, before its pods move; `0s` turns this off.",
        json_schema_extra=default_is(duration_text(EXTENDED.sustained_seconds)),
        examples=["15m"],
    )
    destination_windows: DestinationWindows | None = Field(
        default=None,
        description="By which longer times destinations are judged as well, such as the 95th "
        "percentile of an hour for hourly batch. Costs queries over that time; a recording rule "
        "(`metrics.queries`) spares them.",
        examples=[{"cpu": [{"window": "1h", "statistic": "p95"}]}],
    )
    node_pools: tuple[NodePoolSection, ...] | None = Field(
        default=None,
        description="Groups of nodes with thresholds of their own; the first that matches a node "
        "has it, and a node that none matches has the thresholds above.",
        examples=[
            [{"name": "batch", "nodeSelector": "pool=batch", "targetThresholds": {"cpu": 90}}]
        ],
    )
    deviation_floor: Percent | None = Field(
        default=None,
        description="With `useDeviationThresholds`: no node whose load is below this percentage is "
        "overloaded, however idle the others are.",
        json_schema_extra=default_is(EXTENDED.deviation_floor),
        examples=[40],
    )
    eviction_limits: EvictionLimitsSection | None = Field(
        default=None,
        description="The most evictions of one cycle, at a time, and by the minute.",
        examples=[{"total": "2%", "workload": "10%", "inFlight": {"total": 10}}],
    )
    maintenance_windows: Annotated[tuple[ActingWindowSection, ...], Field(min_length=1)] | None = (
        Field(
            default=None,
            description="Pods are evicted only while one of these windows is open. Default: at any "
            "time.",
            examples=[[{"start": "0 22 * * *", "duration": "6h", "timeZone": "Europe/Berlin"}]],
        )
    )
    blackout_windows: tuple[ActingWindowSection, ...] | None = Field(
        default=None,
        description="No pod is evicted while one of these windows is open, maintenance or not.",
        examples=[[{"start": "0 8 24 12 *", "duration": "72h"}]],
    )
    follow_up: FollowUpSection | None = Field(
        default=None,
        description="What happens after evictions: how long their replacements may take, and what "
        "is left alone for a while when they went wrong.",
        examples=[{"patience": "20m", "coolDown": {"first": "30m"}}],
    )
    stop_margin: Percent | None = Field(
        default=None,
        description="Percentage points under the target at which relief of a node ends. "
        "The default is half of the target where that is less.",
        json_schema_extra=default_is(EXTENDED.stop_margin),
        examples=[4],
    )
    ceiling_margin: Percent | None = Field(
        default=None,
        description="Percentage points under the target up to which a destination is filled; at "
        "least `stopMargin`. The default is the target where that is less.",
        json_schema_extra=default_is(EXTENDED.ceiling_margin),
        examples=[15],
    )
    max_landing_risk: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="Pods stay whose replacement would, with a higher probability than this (0 to "
        "1), land on a node that it must not: the same one, one that it would overload, or one "
        "whose load is not known.",
        json_schema_extra=default_is(EXTENDED.max_landing_risk),
        examples=[0.3],
    )
    scheduler: SchedulerSection | None = Field(
        default=None,
        description="How kube-scheduler is configured here, for the forecast of landings.",
        examples=[{"strategy": "MostAllocated"}],
    )
    steering: SteeringMode | None = Field(
        default=None,
        description="When nodes get the soft taint `desched.io/overloaded` (PreferNoSchedule), "
        "which the scheduler avoids as long as there is another place. `WhenNeeded`: the fewest "
        "nodes that keep a replacement from landing badly, until what became of it is known. "
        "`Always`: overloaded nodes too, as long as they are. Needs the right to patch nodes.",
        json_schema_extra=default_is(Steering.OFF.value),
        examples=["WhenNeeded"],
    )
    steering_max_nodes: CountOrShare | None = Field(
        default=None,
        description="The most nodes that have that taint at a time, also as a percentage of the "
        "nodes that are looked at, rounded down, and never less than one.",
        json_schema_extra=default_is(DEFAULT_MOST_NODES),
        examples=["10%"],
    )
