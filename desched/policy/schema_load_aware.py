"""The arguments of the plugin LoadAware: Volcano's keys, and desched's own."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from desched.policy.durations import duration_text
from desched.policy.policy import DEFAULT_GRACE_PERIOD_SECONDS
from desched.policy.schema_scheduler import SchedulerSection
from desched.policy.schema_thresholds import (
    DestinationWindows,
    NodePoolSection,
    ResourcePercentages,
    Windows,
)
from desched.policy.schema_values import (
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
    refusal,
)
from desched.policy.wording import quoted

DEFAULT_WINDOW_SECONDS = 300
"""Five samples where Prometheus scrapes once a minute, as its community chart does."""
DEFAULT_STOP_MARGIN = 5.0
DEFAULT_CEILING_MARGIN = 10.0
DEFAULT_SUSTAINED_SECONDS = 600
DEFAULT_DEVIATION_FLOOR = 50.0
DEFAULT_LANDING_RISK = 0.15
DEFAULT_NODE_LIMIT = 2
DEFAULT_WORKLOAD_LIMIT = 1


def _metrics_type(value: object) -> str:
    if value is None:
        raise refusal(
            "is null, so there is no load to act on; "
            'write "prometheus", and the URL of your Prometheus as metrics.address'
        )
    text = value.lower() if isinstance(value, str) else ""
    if text == "prometheus":
        return "prometheus"
    if text == "prometheus_adaptor":
        raise refusal(
            f"found {quoted(value)}, which reads the custom metrics API; desched does not: write "
            '"type: prometheus" and as metrics.address the URL of the Prometheus behind the adapter'
        )
    raise refusal(f'found {quoted(value)}, allowed is "prometheus"')


class Queries(Section):
    """Own PromQL in place of the built-in queries.

    `{window}` stands for the window, such as `5m`.
    """

    node_cpu: str | None = Field(
        default=None,
        alias="nodeCPU",
        min_length=1,
        description="CPU use of each node as a share of its capacity, 0 to 1.",
    )
    node_memory: str | None = Field(
        default=None,
        min_length=1,
        description="Memory use of each node as a share of its capacity, 0 to 1.",
    )
    pod_cpu: str | None = Field(
        default=None,
        alias="podCPU",
        min_length=1,
        description="CPU use of each pod in cores, with the labels `namespace` and `pod`.",
    )
    pod_memory: str | None = Field(
        default=None,
        min_length=1,
        description="Memory use of each pod in bytes, with the labels `namespace` and `pod`.",
    )
    node_cpu_destination: str | None = Field(
        default=None,
        alias="nodeCPUDestination",
        min_length=1,
        description="CPU by which a destination is judged, as a share of capacity, for one window "
        "in `destinationWindows`; such as a recorded percentile.",
        examples=["quantile_over_time(0.95, node:cpu_utilisation:ratio[{window}])"],
    )
    node_memory_destination: str | None = Field(
        default=None,
        min_length=1,
        description="Memory by which a destination is judged, as `nodeCPUDestination`.",
    )


class Metrics(Section):
    """Where load comes from."""

    type: Annotated[
        Literal["prometheus"],
        BeforeValidator(_metrics_type),
        WithJsonSchema({"type": "string", "enum": ["prometheus", "Prometheus"]}),
    ] = Field(description="`prometheus`; upper and lower case are the same.")
    address: str | None = Field(
        default=None,
        description="URL of Prometheus, or of what speaks its API (Thanos, Mimir, …). May be left "
        "out where `--prometheus-url` gives it. Credentials never belong here.",
        examples=["http://prometheus-server.kube-system.svc.cluster.local:80"],
    )
    queries: Queries | None = Field(
        default=None, description="Own PromQL in place of built-in queries."
    )
    matchers: dict[str, str] | None = Field(
        default=None,
        description="Labels and their values, put into every built-in query; needed where one "
        "Prometheus holds several clusters.",
        examples=[{"cluster": "prod-eu1"}],
    )


class EvictableNamespaces(Section):
    """Whose pods may move: those of some namespaces, or of all but some."""

    include: tuple[NamespaceName, ...] | None = Field(
        default=None, description="Only pods of these namespaces may move; instead of `exclude`."
    )
    exclude: tuple[NamespaceName, ...] | None = Field(
        default=None, description="Pods of these namespaces stay."
    )


class EvictionLimitsSection(Section):
    """The most evictions of one cycle."""

    total: Count | None = Field(
        default=None,
        description="In the whole cluster. Default: 5, or 1 % of the nodes where that is more.",
    )
    node: Count | None = Field(default=DEFAULT_NODE_LIMIT, description="From one node.")
    namespace: Count | None = Field(
        default=None, description="From one namespace. Default: no limit."
    )
    workload: Count | None = Field(
        default=DEFAULT_WORKLOAD_LIMIT, description="Of one workload (Deployment, StatefulSet, …)."
    )


class LoadAwareArgs(PluginArgs):
    """When a node is overloaded, and which of its pods may move."""

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
        default=False,
        description="Whether the only replica of a workload may move, which is then away until its "
        "replacement is Ready.",
        examples=[True],
    )
    max_grace_period: Seconds | None = Field(
        default=None,
        description="Pods with a longer `terminationGracePeriodSeconds` stay.",
        json_schema_extra=default_is(duration_text(DEFAULT_GRACE_PERIOD_SECONDS)),
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
        default=None, description="Over which times load is measured, by resource."
    )
    sustained_for: Seconds | None = Field(
        default=None,
        description="For how long a node must have been above a target, at 80 % of the points of "
        "Prometheus' history, before its pods move; `0s` turns this off.",
        json_schema_extra=default_is(duration_text(DEFAULT_SUSTAINED_SECONDS)),
        examples=["15m"],
    )
    destination_windows: DestinationWindows | None = Field(
        default=None,
        description="By which longer times destinations are judged as well, such as the 95th "
        "percentile of an hour for hourly batch. Costs queries over that time; a recording rule "
        "(`metrics.queries`) spares them.",
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
        json_schema_extra=default_is(DEFAULT_DEVIATION_FLOOR),
        examples=[40],
    )
    eviction_limits: EvictionLimitsSection | None = Field(
        default=None, description="The most evictions of one cycle."
    )
    stop_margin: Percent | None = Field(
        default=None,
        description="Percentage points under the target at which relief of a node ends. "
        "The default is half of the target where that is less.",
        json_schema_extra=default_is(DEFAULT_STOP_MARGIN),
    )
    ceiling_margin: Percent | None = Field(
        default=None,
        description="Percentage points under the target up to which a destination is filled; at "
        "least `stopMargin`. The default is the target where that is less.",
        json_schema_extra=default_is(DEFAULT_CEILING_MARGIN),
    )
    max_landing_risk: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="Pods stay whose replacement would, with a higher probability than this (0 to "
        "1), land on a node that it must not: the same one, one that it would overload, or one "
        "whose load is not known.",
        json_schema_extra=default_is(DEFAULT_LANDING_RISK),
        examples=[0.3],
    )
    scheduler: SchedulerSection | None = Field(
        default=None,
        description="How kube-scheduler is configured here, for the forecast of landings.",
        examples=[{"strategy": "MostAllocated"}],
    )
